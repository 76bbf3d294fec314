package outbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// outlet is a target that is being served. One goroutine sends events to it, see publish; another
// one claims new events for it as they are made, see Dispatcher.expand.
type outlet struct {
	by   *Dispatcher
	to   *Target
	size int           // of the next batch; 0 before the first
	news chan struct{} // has an element when something may be due

	mu     sync.Mutex
	room   int       // for what is claimed as it is made
	fresh  []Claim   // was claimed as it was made
	since  time.Time // when the first of these was
	behind bool      // there may be something due that is not in fresh
	looked time.Time // when due last looked for that
}

func (d *Dispatcher) outlets() (all []*outlet) {
	for i := range d.Targets {
		all = append(all, &outlet{by: d, to: &d.Targets[i], news: make(chan struct{}, 1), behind: true})
	}
	return all
}

// freshAtOnce is how many new events may be claimed before publish has caught up with them.
const freshAtOnce = 600

// Lease is how long events are claimed for: a batch begins up to timeout after the claim, and takes
// timeout.
func Lease(timeout time.Duration) time.Duration { return 2*timeout + time.Minute }

func (o *outlet) want(most int) Want {
	return Want{Destination: o.to.Name, Max: most, Lease: Lease(o.to.Timeout), Worker: o.by.Worker}
}

// wantFresh asks for events as they are made.
func (o *outlet) wantFresh() Want {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.want(o.room)
}

// hand adds the new claims of this destination. It reports whether there are any.
func (o *outlet) hand(made Expanded, began time.Time) (news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if news = made.Waiting[o.to.Name]; news {
		o.behind = true
	}
	for _, c := range made.Claims {
		if c.Destination != o.to.Name {
			continue
		}
		if len(o.fresh) == 0 {
			o.since = began
		}
		o.fresh, o.room, news = append(o.fresh, c), o.room-1, true
	}
	return news
}

// take returns up to most of the claims that the outlet was given. If these are too old to begin a
// batch with, it returns all of them as late.
func (o *outlet) take(most int) (claims, late []Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.since) > o.to.Timeout {
		late, o.fresh = o.fresh, nil
		return nil, late
	}
	most = min(most, len(o.fresh))
	claims, o.fresh = o.fresh[:most:most], o.fresh[most:]
	return claims, nil
}

// open makes the outlet accept events that are made from now on.
func (o *outlet) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = freshAtOnce - len(o.fresh)
}

// close stops claiming, and returns what it was given and did not take. An Expand that is
// under way may still give it something.
func (o *outlet) close() (claims []Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	claims, o.fresh, o.room = o.fresh, nil, 0
	return claims
}

// Each batch is twice as large as the one before, as long as the destination accepts them quickly:
// within this fraction of its timeout. A webhook sends all of the first batch at once, so each
// request has the whole timeout.
const (
	firstBatch = 8
	quickPart  = 30
)

// publish sends what is due, until nothing is left or the destination fails. No batch begins after
// begin has ended; a batch that is under way continues until ctx ends.
func (o *outlet) publish(ctx, begin context.Context) error {
	states, err := o.by.Store.Destinations(begin)
	if err != nil {
		return err
	}
	state := states[o.to.Name]
	if state.Target == o.to.Target && (state.Gone || state.RetryIn > 0) {
		return o.giveBack(ctx, o.close())
	}
	if state.Failures > 0 || o.size == 0 {
		o.size = o.first()
	}
	for begin.Err() == nil {
		claims, late := o.take(o.size)
		if err := o.giveBack(ctx, late); err != nil {
			return err
		}
		if len(claims) == 0 {
			if claims, err = o.due(begin); err != nil || len(claims) == 0 {
				return err
			}
		}
		began := time.Now()
		v, err := o.by.batch(ctx, o.to, claims, state)
		if err != nil || v.fault != nil {
			return errors.Join(err, o.giveBack(ctx, o.close()))
		}
		state = Destination{}
		if o.size = min(2*o.size, o.to.Batch); time.Since(began) > o.to.Timeout/quickPart {
			o.size = o.first()
		}
	}
	return nil
}

func (o *outlet) first() int { return min(firstBatch, o.to.Batch) }

// due claims what is due, if it is time to look for that. If that is less than a whole batch,
// events that are made now can be claimed, too.
func (o *outlet) due(ctx context.Context) (claims []Claim, err error) {
	if o.beginLook() {
		claims, err = o.by.Store.Receive(ctx, o.want(o.size))
	}
	if err != nil || len(claims) > 0 { // what follows these in their lanes is due after them
		o.mustLook()
	}
	if err == nil && len(claims) < o.size {
		o.open()
	}
	return claims, err
}

// beginLook reports whether it is time to look for what is due, and notes that it is done. This
// process knows what it makes itself; what others made, and what is tried again, is looked for at
// most once a second.
func (o *outlet) beginLook() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.behind && time.Since(o.looked) < lookAgain {
		return false
	}
	o.behind = len(o.fresh) > 0 // which came just now: what follows it is due after it
	o.looked = time.Now()
	return true
}

func (o *outlet) mustLook() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.behind = true
}

// giveBack releases claims that were not sent, so that they wait like all others. If that fails, it
// keeps them as late, to try again.
func (o *outlet) giveBack(ctx context.Context, claims []Claim) error {
	var outcomes []Outcome
	for _, c := range claims {
		outcomes = append(outcomes, Outcome{Claim: c, Status: Waiting, Uncounted: true})
	}
	if len(outcomes) == 0 {
		return nil
	}
	_, err := o.by.Store.Finish(context.WithoutCancel(ctx), outcomes...)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.fresh, o.since = append(claims, o.fresh...), time.Time{}
		return err
	}
	o.behind = true
	return nil
}
