package pass

import (
	"context"
	"sync"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/tasks"
)

// gate says whether anything may be handed to the relay now.
type gate struct {
	now   func() time.Time
	again func(n int) time.Duration // until the relay is tried again after its nth fault; nil: never

	mu    sync.Mutex
	first error           // why the relay is at fault; nil while it is not
	tries int             // how often the relay took a message, or was at fault
	came  error           // the fault of the last of these tries; nil when it took the message
	times int             // faults in a row
	retry time.Time       // when the relay is tried again
	limit *limits.Reached // the last limit that was met; nil when none was
	until time.Time       // when that is over, by this host's clock
}

// fail records that the relay is at fault, and reports whether that is news.
func (g *gate) fail(err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed() {
		return false
	}
	news := g.first == nil
	g.first, g.came = err, err
	g.tries++
	if g.times++; g.again != nil {
		g.retry = g.now().Add(g.again(g.times))
	}
	return news
}

// closed is to be called with the lock held.
func (g *gate) closed() bool { return g.first != nil && (g.again == nil || g.now().Before(g.retry)) }

// fault is why nothing may be handed to the relay now; nil when something may.
func (g *gate) fault() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed() {
		return nil
	}
	return g.first
}

// last is the last fault, until the relay works again or the fault is forgotten: the relay may be
// tried again meanwhile.
func (g *gate) last() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}

// forget forgets the last fault.
func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first, g.times = nil, 0
}

// tried is how often the relay took a message or was at fault, and the fault of the last time.
func (g *gate) tried() (tries int, fault error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tries, g.came
}

// stops says what a fault of the relay means.
func (g *gate) stops() string {
	if g.again == nil {
		return "the relay failed: forwarding stops for this pass; the remaining messages wait for the next"
	}
	return "the relay failed: messages wait; the relay is tried again with growing pauses"
}

// works records that the relay works, and reports whether that is news.
func (g *gate) works() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries++
	g.came = nil
	if g.first == nil || g.again == nil {
		return false
	}
	g.first, g.times = nil, 0
	return true
}

// meet records that a limit is used up, and reports whether that is news.
func (g *gate) meet(why *limits.Reached) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	news := g.limit == nil || !now.Before(g.until)
	g.limit, g.until = why, now.Add(why.Wait)
	return news
}

// met is the last limit that was met, and for how long it still holds.
func (g *gate) met() (why *limits.Reached, left time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit, g.until.Sub(g.now())
}

// limited is the limit that holds now, nil when none does.
func (g *gate) limited() *limits.Reached {
	if why, left := g.met(); left > 0 {
		return why
	}
	return nil
}

// limitPatience is how long a pass waits for a limit. Without this wait, a pass that cron starts
// every minute would find that the minute of the pass before is not quite over, and leave the next
// minute unused.
const limitPatience = 2 * time.Second

// wait waits for the limit that was met last, and reports whether it is over.
func (g *gate) wait(ctx context.Context) bool {
	_, left := g.met()
	if left > limitPatience {
		return false
	}
	select {
	case <-time.After(left):
		return true
	case <-ctx.Done():
		return false
	}
}

// keepLimits renews the reservations of the limits until stop is called.
func (p *Pass) keepLimits(ctx context.Context) (stop func()) {
	if p.Config.DryRun {
		return func() {}
	}
	after := context.WithoutCancel(ctx)
	warn := func(err error) {
		if err != nil {
			p.Log.Warn("could not record how much of smtp.limits was used; "+
				"recipients count for longer than they should", "error", err)
		}
	}
	stopRenewing := tasks.Every(after, p.Config.Lease/3, func(ctx context.Context) { warn(p.Limits.Renew(ctx)) })
	return func() {
		stopRenewing()
		warn(p.Limits.Flush(after))
	}
}

// countWaiting adds to the report what waits for a limit that was met.
func (p *Pass) countWaiting(ctx context.Context, g *gate, boxes []inbox.Inbox, report *Report) {
	why, _ := g.met()
	if why == nil {
		return
	}
	due, err := p.Queue.DueOf(context.WithoutCancel(ctx), inbox.IDs(boxes))
	if err != nil {
		p.Log.Warn("waiting tasks could not be counted", "error", err)
	}
	for i, in := range boxes {
		report.Inboxes[i].Counters.Waiting = due[in.ID]
	}
	if len(due) > 0 {
		report.LimitReached = why.Error()
	}
}
