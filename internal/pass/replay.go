package pass

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// ReplayOptions says what is replayed.
type ReplayOptions struct {
	Within time.Duration // what was registered at most this long ago, by the database's clock
	Route  string        // only what this route decided then; empty for all
	Named  bool          // the inboxes were named: one that is disabled is connected to as well
	// Each is called for every message that would go elsewhere, or could not be compared, by
	// ascending task in an inbox; from several goroutines at once. Its error ends the replay of
	// that inbox.
	Each func(Replayed) error
}

// Replay runs the current routes over registered messages. It compares the recipients that each
// message had with those that it would have now. It only reads: neither the database nor a server
// changes. It fetches a message, its header first, only when a route needs what the registry does
// not know. Memory does not grow with the number of tasks.
func (p *Pass) Replay(ctx context.Context, boxes []inbox.Inbox, opts ReplayOptions) ReplayReport {
	report := ReplayReport{Inboxes: make([]InboxReplay, len(boxes))}
	p.compare(ctx, boxes, func(i int, v visit) error {
		a := newReplayer(v, opts)
		err := a.inbox(ctx)
		report.Inboxes[i] = a.found
		return err
	}, func(i int, err error) {
		if err != nil {
			report.Inboxes[i].Email, report.Inboxes[i].Error = boxes[i].Address, text.Error(err)
		}
	})
	report.Interrupted = ctx.Err() != nil
	for _, in := range report.Inboxes {
		report.Totals.add(in.Counts)
	}
	return report
}

// replayer replays one inbox, in pages.
type replayer struct {
	visit visit
	opts  ReplayOptions
	found InboxReplay
	page  []*replayed
	shut  error            // why nothing can be fetched from the inbox
	bad   map[string]error // the same for a folder, by its name and UIDVALIDITY
}

// replayed is one message while it is compared.
type replayed struct {
	task    tasks.Task
	now     *route.Decision // nil until it is known
	unknown string          // why it cannot be known
}

// replayPage is how many messages are fetched together, and at most in memory.
const replayPage = 200

func newReplayer(v visit, opts ReplayOptions) *replayer {
	a := &replayer{visit: v, opts: opts, found: InboxReplay{Email: v.in.Address}, bad: map[string]error{}}
	if !v.in.Active && !opts.Named {
		a.shut = fmt.Errorf("the inbox is disabled; name it with --inbox %s", text.Arg(v.in.Address))
	}
	return a
}

func (a *replayer) inbox(ctx context.Context) error {
	f := tasks.Filter{Inboxes: []int64{a.visit.in.ID}, Route: a.opts.Route, Within: a.opts.Within}
	err := a.visit.pass.Queue.List(ctx, f, func(t tasks.Task) error {
		a.page = append(a.page, &replayed{task: t})
		if len(a.page) < replayPage {
			return nil
		}
		return a.flush(ctx)
	})
	if err == nil {
		err = a.flush(ctx)
	}
	if err == nil {
		a.found.Counts.Purged, err = a.visit.pass.Queue.Purged(ctx, a.visit.in.ID, a.opts.Within)
	}
	return err
}

// flush compares a page, and reports it.
func (a *replayer) flush(ctx context.Context) error {
	page := a.page
	a.page = nil
	a.visit.pass.Observer.Expect(len(page))
	var unsure []*replayed
	for _, it := range page {
		if a.outcome(it.task) == Compared && !a.decide(ctx, it, nil) {
			unsure = append(unsure, it)
		}
	}
	place := func(it *replayed) string { return fmt.Sprintf("%s %d", it.task.Folder, it.task.Epoch) }
	slices.SortStableFunc(unsure, func(x, y *replayed) int { return cmp.Compare(place(x), place(y)) })
	for len(unsure) > 0 {
		n := slices.IndexFunc(unsure, func(it *replayed) bool { return place(it) != place(unsure[0]) })
		if n < 0 {
			n = len(unsure)
		}
		if err := a.read(ctx, place(unsure[0]), unsure[:n]); err != nil {
			return err
		}
		unsure = unsure[n:]
	}
	for _, it := range page {
		if err := a.report(it); err != nil {
			return err
		}
	}
	return nil
}

// outcome is Compared for a task that can be compared; otherwise it says why not.
func (a *replayer) outcome(t tasks.Task) ReplayOutcome {
	byRoute := t.Skip == tasks.SkipByRoute || t.Skip == tasks.SkipLoop && t.Route != ""
	decided := len(t.Deliveries) > 0 && t.Skip == "" || t.Status == tasks.SkippedNoMatch || byRoute
	switch {
	case !t.Status.Ended() && !t.Begun() && t.Attempts == 0:
		return Waiting
	case !decided, t.Identity.Size > a.visit.pass.Config.MaxSize && !a.visit.pass.Config.Notices:
		return NotByRoute
	}
	return Compared
}

// decide asks the routes, and reports whether the known parts of the message are enough for them.
// What is there, and yet cannot be read, is not compared.
func (a *replayer) decide(ctx context.Context, it *replayed, m *message.Message) bool {
	d := a.visit.pass.Routes.Decide(ctx, MailOf(a.visit.in, it.task, m))
	// whole: a pass would have no more of it either.
	whole := m != nil && (!m.HeaderOnly || it.task.Identity.Size > a.visit.pass.Config.MaxSize)
	if d.Unsure && !whole {
		return false
	}
	if d.Err != nil {
		it.unknown = text.Error(d.Err)
		return true
	}
	it.now = &d
	return true
}

// report counts one message, and reports one that would go elsewhere or could not be compared.
func (a *replayer) report(it *replayed) error {
	a.visit.pass.Observer.Done(1)
	a.found.Counts.Messages++
	outcome := a.outcome(it.task)
	if outcome == Compared {
		outcome = compared(it)
	}
	a.found.Counts.count(outcome)
	if outcome != Elsewhere && outcome != NotCompared {
		return nil
	}
	out := Replayed{
		TaskID: it.task.ID, Inbox: it.task.Inbox, Folder: it.task.Folder, UID: it.task.UID,
		Subject: it.task.Identity.Subject,
		Outcome: outcome, Before: before(it.task), Why: it.unknown,
	}
	if it.now != nil {
		out.Now = now(*it.now)
	}
	return a.opts.Each(out)
}

func compared(it *replayed) ReplayOutcome {
	switch {
	case it.now == nil:
		return NotCompared
	case route.SameMailboxes(before(it.task).Recipients, it.now.To):
		return Unchanged
	}
	return Elsewhere
}

func before(t tasks.Task) ReplayFate {
	f := ReplayFate{Status: t.Status, Route: t.Route, Recipients: []string{}}
	for _, d := range t.Deliveries {
		f.Recipients = append(f.Recipients, d.Recipient)
	}
	if len(f.Recipients) == 0 {
		f.Reason = t.Reason
	}
	return f
}

func now(d route.Decision) *ReplayFate {
	f := &ReplayFate{
		Status: tasks.Forwarded, Route: d.Route, Recipients: append([]string{}, d.To...), LeftOut: d.LeftOut,
	}
	switch {
	case d.Skip:
		f.Status, f.Reason = tasks.Skipped, d.Reason
	case len(d.To) == 0:
		f.Status, f.Reason = tasks.SkippedNoMatch, d.Reason
	}
	return f
}
