package pass

import (
	"context"
	"sync"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/tasks"
)

// full remembers which limit is used up, and until when by this host's clock.
type full struct {
	mu    sync.Mutex
	why   *limits.Reached // the last one; nil when none was met
	until time.Time
}

// meet reports whether it is news.
func (f *full) meet(why *limits.Reached, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := f.why == nil || !now.Before(f.until)
	f.why, f.until = why, now.Add(why.Wait)
	return news
}

// met is the last limit that was met, and for how long it still holds.
func (f *full) met(now time.Time) (why *limits.Reached, left time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why, f.until.Sub(now)
}

// limited is the limit for which everything has to wait now, nil when there is none.
func (r *running) limited() *limits.Reached {
	if why, left := r.full.met(r.Now()); left > 0 {
		return why
	}
	return nil
}

// patience is for how long a pass waits for a limit. Without it, one that cron starts each minute would find the minute of the one
// before not quite over, and the next minute unused.
const patience = 2 * time.Second

// room is how many tasks may be claimed now, or in a moment, for which it waits. When a limit may not allow all that the senders
// could have in work beside it, that is waited for first: it may give something back, and what came first would have to share with
// what came behind it. With solo nothing is in work but what waits for that to end.
func (f *feeder) room(ctx context.Context, solo bool) int {
	for landed := solo; f.down.err() == nil && f.patient(ctx); {
		n, why, err := f.Limits.Left(ctx)
		switch {
		case err != nil: // it shows again when something is to be sent
			return f.Config.Senders
		case n >= 2*f.Config.Senders || landed && n > 0:
			return min(n, f.Config.Senders)
		case landed:
			f.reached(why)
		case f.reading && len(f.leases.tasks()) > 0:
			return 0 // until the next page: a relay that hangs keeps nothing from being registered
		}
		f.flying.Wait()
		landed = true
	}
	return 0
}

// patient waits for the limit that was met last, and reports whether that is over.
func (r *running) patient(ctx context.Context) bool {
	_, left := r.full.met(r.Now())
	if left > patience {
		return false
	}
	select {
	case <-time.After(left):
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *running) reached(why *limits.Reached) {
	if r.full.meet(why, r.Now()) {
		r.Log.Info("a limit of the relay's provider is used up; what is not forwarded waits for that", "limit", why)
	}
}

// keepLimits keeps what is reserved until stop is called.
func (r *running) keepLimits(ctx context.Context) (stop func()) {
	if r.Config.DryRun {
		return func() {}
	}
	after := context.WithoutCancel(ctx)
	warn := func(err error) {
		if err != nil {
			r.Log.Warn("what counts against the limits of the relay's provider could not be noted; it counts for longer", "error", err)
		}
	}
	stopRenewing := every(after, r.Config.Lease/3, func(ctx context.Context) { warn(r.Limits.Renew(ctx)) })
	return func() {
		stopRenewing()
		warn(r.Limits.Flush(after))
	}
}

// waiting adds to the report what waits for a limit that was met.
func (r *running) waiting(ctx context.Context, boxes []inbox.Inbox, report *Report) {
	why, _ := r.full.met(r.Now())
	if why == nil {
		return
	}
	for i, in := range boxes {
		due, err := r.Queue.Due(context.WithoutCancel(ctx), in.ID)
		if err != nil {
			r.Log.Warn("what waits could not be counted", "inbox", in.Address, "error", err)
		}
		report.Inboxes[i].Waiting = due
		if due > 0 {
			report.LimitReached = why.Error()
		}
	}
}

// cutShort ends an attempt that met a limit. While there are recipients that were never named to the relay, it was the limit that
// kept them waiting, and the attempt does not count; else an unwilling relay could be tried for ever.
// What it came to so far is in the registry already.
func (j job) cutShort(ctx context.Context, via string, a *attempt, why *limits.Reached) (tasks.Status, error) {
	j.reached(why)
	if len(a.outcomes) == 0 || a.untried() && !j.holds(via, a.ds) {
		return j.wait(ctx, why)
	}
	return j.finish(ctx, j.settle(via, a.ds))
}

// wait gives a task back that waits for a limit, in its old place: order is kept, and nothing is claimed before the limit
// allows more. It is not in error, and counts nowhere.
func (j job) wait(ctx context.Context, why *limits.Reached) (tasks.Status, error) {
	_, err := j.release(ctx, "waits: "+why.Error())
	return "", err
}
