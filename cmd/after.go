package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"postrider/internal/after"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/outbox/plan"
	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// after says what happens to messages on their server; nil for nothing.
func (s *services) after() (func(kind outbox.Kind, route string) []plan.Step, error) {
	if len(s.cfg.AfterKinds()) == 0 {
		return nil, nil
	}
	table, err := s.tableAlone()
	general := s.cfg.After.Rule()
	return func(kind outbox.Kind, name string) []plan.Step { return steps(kind, table.After(name, general)) }, err
}

func steps(kind outbox.Kind, a route.After) (out []plan.Step) {
	action := map[outbox.Kind]route.Action{
		outbox.Forwarded: a.Forwarded, outbox.SkippedNoMatch: a.SkippedNoMatch, outbox.Dead: a.Dead,
	}[kind]
	if action.Acts() {
		out = append(out, plan.Step{Action: string(action)})
	}
	_, moved := action.Folder()
	if d := a.Deletes(); d > 0 && kind == outbox.Forwarded && action != route.Delete && !moved { // of several routes each may be one
		out = append(out, plan.Step{Action: string(route.Delete), Delay: d})
	}
	return out
}

// wants reports whether the configuration has an action, and how long after a task's end.
func (s *services) wants() (func(kind outbox.Kind, route, action string) (time.Duration, bool), error) {
	steps, err := s.after()
	return func(kind outbox.Kind, route, action string) (time.Duration, bool) {
		if steps == nil {
			return 0, false
		}
		for _, step := range steps(kind, route) {
			if step.Action == action {
				return step.Delay, true
			}
		}
		return 0, false
	}, err
}

// actor carries out the actions on the servers. Those that are no longer configured are
// skipped.
func (s *services) actor() (*after.Worker, error) {
	wants, err := s.wants()
	if err != nil {
		return nil, err
	}
	d, err := s.dialer()
	if err != nil {
		return nil, err
	}
	return &after.Worker{
		Wants: wants, Inbox: s.inboxes.Get, Inboxes: s.activeInboxes, Lease: s.cfg.Concurrency.Lease, Now: time.Now,
		Outbox: s.outbox, Registry: s.queue, CreateFolders: s.cfg.After.CreateFolders, Name: s.worker(), Log: s.log,
		Dial: func(ctx context.Context, in inbox.Inbox) (after.Server, error) {
			conn, err := d.dial(ctx, in)
			if err != nil {
				return nil, err // and not a nil *imapsrc.Conn
			}
			return conn, nil
		},
	}, nil
}

func (s *services) activeInboxes(ctx context.Context) ([]inbox.Inbox, error) {
	return s.inboxes.List(ctx, true)
}

// afterTimeout is how long the actions on the servers may take once --timeout has ended a pass. Passes
// that always use it up would never do any otherwise.
const afterTimeout = 30 * time.Second

// actAfter is act at the end of a pass.
func (s *services) actAfter(ctx, signalled context.Context, boxes []inbox.Inbox) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(signalled, afterTimeout)
		defer cancel()
	}
	s.act(ctx, boxes)
}

// act does what is due on the servers of the inboxes. What fails is logged, and tried again later.
func (s *services) act(ctx context.Context, boxes []inbox.Inbox) {
	w, err := s.actor()
	if err == nil {
		err = w.Work(ctx, func(context.Context) ([]inbox.Inbox, error) { return boxes, nil })
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("actions on the servers wait; the next pass tries again", "error", err)
	}
}

// actEvery is how often a process that stays up looks for what is due on the servers.
const actEvery = 5 * time.Second

// actOn does what is due on the servers until stop is called.
func (s *services) actOn(ctx context.Context) (stop func()) {
	w, err := s.actor()
	if err != nil {
		return func() {} // dial has the same error for each inbox
	}
	known := false // an error of the database is logged once
	end := tasks.Every(ctx, actEvery, func(ctx context.Context) {
		err := w.Begin(ctx, s.activeInboxes)
		if err != nil && !known && ctx.Err() == nil {
			s.log.Error("cannot read the actions on the servers from the database; trying again", "error", err)
		}
		known = err != nil
	})
	return func() {
		end()
		_ = w.Wait() // what is under way is released; the next process does it
	}
}

// wouldDelete is what `run --dry-run --json` prints of a message that is to be deleted.
type wouldDelete struct {
	Inbox   string    `json:"inbox"`
	Folder  string    `json:"folder"`
	UID     uint32    `json:"uid"`
	Task    int64     `json:"task"`
	Subject string    `json:"subject"`
	At      time.Time `json:"at"` // not before
}

// deletions are the messages of the inboxes that are to be deleted.
func (s *services) deletions(ctx context.Context, boxes []inbox.Inbox) ([]wouldDelete, error) {
	of := map[int64]inbox.Inbox{}
	for _, in := range boxes {
		of[in.ID] = in
	}
	var entries []outbox.Entry
	var ids []int64
	wanted := outbox.Filter{Destination: outbox.Server, Statuses: []outbox.Status{outbox.Waiting, outbox.InProgress}}
	wants, err := s.wants()
	if err != nil {
		return nil, err
	}
	err = s.outbox.List(ctx, wanted, func(e outbox.Entry) error {
		if in, ok := of[e.InboxID]; ok && in.AllowDelete && e.Action == string(route.Delete) {
			entries, ids = append(entries, e), append(ids, e.TaskID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	known, err := after.Known(ctx, s.queue, ids)
	if err != nil {
		return nil, err
	}
	active, err := s.activeInboxes(ctx)
	out := []wouldDelete{}
	for _, e := range entries {
		t, ok := known[e.TaskID]
		delay, wanted := wants(e.Kind, t.Route, e.Action)
		if !ok || !wanted || outbox.Kind(t.Status) != e.Kind || !after.Leaves(t, known) || after.SharedWith(of[e.InboxID], active, t.Folder) != "" {
			continue
		}
		at := e.VisibleAt.UTC()
		if t.FinishedAt != nil && at.Before(t.FinishedAt.Add(delay)) { // delete_after is longer now
			at = t.FinishedAt.Add(delay).UTC()
		}
		out = append(out, wouldDelete{Inbox: t.Inbox, Folder: t.Folder, UID: t.UID, Task: t.ID, Subject: t.Identity.Subject, At: at})
	}
	return out, err
}

// thenDeleted says of a message that a run would forward, or that no route matches, that it would be
// deleted afterwards.
func (a *app) thenDeleted(ctx context.Context, s *services, boxes []inbox.Inbox) (func(w *pass.Would) string, error) {
	steps, err := s.after()
	if err != nil || steps == nil {
		return nil, err
	}
	active, err := s.activeInboxes(ctx)
	if err != nil {
		return nil, err
	}
	of := map[string]inbox.Inbox{}
	for _, in := range boxes {
		of[in.Address] = in
	}
	return func(w *pass.Would) string {
		kind, then := outbox.Forwarded, "; once each recipient has it, it would be deleted on the server"
		if w.Status == tasks.SkippedNoMatch {
			kind, then = outbox.SkippedNoMatch, "; then it would be deleted on the server"
		} else if len(w.Recipients) == 0 {
			return ""
		}
		for _, step := range steps(kind, w.Route) {
			if step.Action != string(route.Delete) || !of[w.Inbox].AllowDelete || after.SharedWith(of[w.Inbox], active, w.Folder) != "" {
				continue
			}
			at := time.Now().Add(step.Delay).UTC()
			w.DeletedAt = &at
			if step.Delay > 0 {
				then += ", not before " + a.when(&at)
			}
			return then
		}
		return ""
	}, nil
}

// printDeletions names what is to be deleted, with dates.
func (a *app) printDeletions(all []wouldDelete) error {
	for _, d := range all {
		_, err := fmt.Fprintf(a.out, "%s %s UID %d %q: would be deleted on the server, not before %s\n",
			d.Inbox, text.Line(d.Folder), d.UID, text.Cut(text.Line(d.Subject), 60), a.when(&d.At))
		if err != nil {
			return err
		}
	}
	return nil
}

// checkAfter fails when something that the configuration wants done cannot be done in an inbox.
func (s *services) checkAfter(ctx context.Context, conn after.Server, in inbox.Inbox, active []inbox.Inbox) error {
	if len(s.cfg.AfterKinds()) == 0 {
		return nil
	}
	table, err := s.tableAlone()
	if err != nil {
		return err
	}
	w := &after.Worker{CreateFolders: s.cfg.After.CreateFolders}
	problems, err := w.Check(ctx, conn, in, active, table.Actions(s.cfg.After.Rule()))
	if err == nil && len(problems) > 0 {
		err = errors.New(strings.Join(problems, "; "))
	}
	return err
}
