package cmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"postrider/internal/after"
	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/outbox/plan"
	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// after says what happens to messages on their server; nil for nothing.
func (s *services) after() plan.After {
	if len(s.cfg.AfterKinds()) == 0 {
		return nil
	}
	table, general := s.cfg.Table, s.cfg.After.Rule()
	return func(kind outbox.Kind, name string) []plan.Step { return plan.Steps(kind, table.After(name, general)) }
}

// actor carries out the actions on the servers. Those that are no longer configured are
// skipped.
func (s *services) actor() *after.Worker {
	d := s.dialer()
	return &after.Worker{
		Wants: s.after().Wants, Inbox: s.inboxes.Get, Inboxes: s.inboxes.Active, Outbox: s.outbox, Registry: s.queue,
		CreateFolders: s.cfg.After.CreateFolders, Dedupe: s.cfg.Dedupe, Lease: s.cfg.Concurrency.Lease,
		Name: s.worker(), Now: time.Now, Log: s.log,
		Dial: func(ctx context.Context, in inbox.Inbox) (after.Server, error) { return d.dial(ctx, in) },
	}
}

// afterTimeout is how long the actions on the servers may take once --timeout has ended a pass.
// Passes that always use it up would never do any otherwise.
const afterTimeout = 30 * time.Second

// actAfter does what is due on the servers of the inboxes at the end of a pass. What fails is
// logged, and tried again later.
func (s *services) actAfter(ctx, signalled context.Context, boxes []inbox.Inbox) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(signalled, afterTimeout)
		defer cancel()
	}
	switch err := s.actor().Work(ctx, boxes); {
	case err == nil, ctx.Err() != nil:
	case db.Transient(err): // the pass says so
		s.log.Debug("actions on the servers wait; the next pass tries again", "error", err)
	default:
		s.log.Error("actions on the servers wait; the next pass tries again", "error", err)
	}
}

// actEvery is how often a process that stays up looks for what is due on the servers.
const actEvery = 5 * time.Second

// actOn does what is due on the servers until stop is called.
func (s *services) actOn(ctx context.Context) (stop func()) {
	w, logged := s.actor(), false
	end := tasks.Every(ctx, actEvery, func(ctx context.Context) {
		switch err := w.Begin(ctx); {
		case err == nil:
			logged = false
		case logged || ctx.Err() != nil || db.Transient(err): // watch logs that the database cannot be used
			s.log.Debug("cannot process the actions on the servers; trying again", "error", err)
		default:
			s.log.Error("cannot process the actions on the servers; trying again", "error", err)
			logged = true
		}
	})
	return func() {
		end()
		_ = w.Wait() // what is under way is released; the next process does it
	}
}

// thenDeleted says of a message that a run would forward, or that no route matches, that it would
// be deleted afterwards.
func (a *app) thenDeleted(ctx context.Context, s *services) (func(w *pass.Would) string, error) {
	configured := s.after()
	if configured == nil {
		return nil, nil
	}
	active, err := s.inboxes.Active(ctx)
	if err != nil {
		return nil, err
	}
	return func(w *pass.Would) string {
		kind, then := outbox.Forwarded, "; once each recipient has it, it would be deleted on the server"
		if w.Status == tasks.SkippedNoMatch {
			kind, then = outbox.SkippedNoMatch, "; then it would be deleted on the server"
		} else if len(w.Recipients) == 0 {
			return ""
		}
		delay, wanted := configured.Wants(kind, w.Route, string(route.Delete))
		if !wanted || !after.MayDelete(active, w.Inbox, w.Folder) {
			return ""
		}
		at := time.Now().Add(delay).UTC()
		w.DeletedAt = &at
		if delay > 0 {
			then += ", not before " + a.when(&at)
		}
		return then
	}, nil
}

// printDeletions names what is to be deleted, with dates.
func (a *app) printDeletions(all []after.Deletion) {
	for _, d := range all {
		a.print("%s %s UID %d %q: would be deleted on the server, not before %s\n",
			d.Inbox, text.Line(d.Folder), d.UID, text.Cut(text.Line(d.Subject), 60), a.when(&d.At))
	}
}

// checkAfter fails when something that the configuration wants done cannot be done in an inbox.
func (s *services) checkAfter(ctx context.Context, conn after.Server, in inbox.Inbox, active []inbox.Inbox) error {
	if len(s.cfg.AfterKinds()) == 0 {
		return nil
	}
	w := &after.Worker{CreateFolders: s.cfg.After.CreateFolders, Dedupe: s.cfg.Dedupe}
	table, general := s.cfg.Table, s.cfg.After.Rule()
	actions := table.Actions(general, in.Address, in.Labels.Texts()...)
	general.SkippedNoMatch = ""
	forwarded := table.Actions(general, in.Address, in.Labels.Texts()...)
	problems, err := w.Check(ctx, conn, in, active, actions, forwarded)
	if err == nil && len(problems) > 0 {
		err = errors.New(strings.Join(problems, "; "))
	}
	return err
}
