package outbox

import (
	"context"
	"sync/atomic"
	"time"
)

// outlet is a target at work: one goroutine hands events to it, see publish, and another one claims
// new events for it as they are made, see expand.
type outlet struct {
	*Dispatcher
	to    *Target
	size  int           // of the next batch; 0 before the first
	news  chan struct{} // has an element when something may be due
	fresh chan []Claim  // has what was claimed as it was made: at most one batch
	wants atomic.Int64  // how many of these it takes; 0 while others are due, or the target fails
}

func (d *Dispatcher) outlets() (all []*outlet) {
	for i := range d.Targets {
		all = append(all, &outlet{Dispatcher: d, to: &d.Targets[i], news: make(chan struct{}, 1), fresh: make(chan []Claim, 1)})
	}
	return all
}

// want asks for a batch. One that was claimed as it was made may have to wait for another one.
func (o *outlet) want(most int) Want {
	return Want{Destination: o.to.Name, Max: most, Lease: 2*o.to.Timeout + time.Minute, Worker: o.Worker}
}

// wantFresh asks for what is made now.
func (o *outlet) wantFresh() Want {
	if len(o.fresh) > 0 {
		return o.want(0)
	}
	return o.want(int(o.wants.Load()))
}

// hand gives it what wantFresh asked for. Before it asks again, it looks for what else is due.
func (o *outlet) hand(claims []Claim) {
	if len(claims) > 0 {
		o.wants.Store(0)
		o.fresh <- claims // there is room: nobody else sends
	}
}

func (o *outlet) taken() []Claim {
	select {
	case claims := <-o.fresh:
		return claims
	default:
		return nil
	}
}

// Each batch is twice as large as the one before, as long as the destination takes them quickly:
// in this part of the time that it has.
const (
	firstBatch = 16
	quickPart  = 30
)

// publish hands over what is due, until nothing is, or the destination fails. No batch begins after
// begin has ended; one that is under way goes on until ctx ends.
func (o *outlet) publish(ctx, begin context.Context) error {
	states, err := o.Store.Destinations(begin)
	if err != nil {
		return err
	}
	state := states[o.to.Name]
	if state.Target == o.to.Target && (state.Gone || state.RetryIn > 0) {
		return o.giveBack(ctx)
	}
	failed := state.Failures > 0
	if failed || o.size == 0 {
		o.size = o.first()
	}
	for begin.Err() == nil {
		claims := o.taken()
		if len(claims) == 0 {
			if claims, err = o.due(begin); err != nil || len(claims) == 0 {
				return err
			}
		}
		began := time.Now()
		well, err := o.batch(ctx, o.to, claims, failed)
		if err != nil || !well {
			o.wants.Store(0)
			return err
		}
		if failed, o.size = false, min(2*o.size, o.to.Batch); time.Since(began) > o.to.Timeout/quickPart {
			o.size = o.first()
		}
	}
	return nil
}

func (o *outlet) first() int { return min(firstBatch, o.to.Batch) }

// due claims what is due. If that is not a whole batch, there is time for what is made now.
func (o *outlet) due(ctx context.Context) ([]Claim, error) {
	claims, err := o.Store.Receive(ctx, o.want(o.size))
	if o.wants.Store(0); err == nil && len(claims) < o.size {
		o.wants.Store(int64(o.size))
	}
	return claims, err
}

// giveBack has what was claimed as it was made wait like all else.
func (o *outlet) giveBack(ctx context.Context) error {
	var outcomes []Outcome
	for _, c := range o.taken() {
		outcomes = append(outcomes, Outcome{Claim: c, Status: Waiting, Uncounted: true})
	}
	if len(outcomes) == 0 {
		return nil
	}
	_, err := o.Store.Finish(context.WithoutCancel(ctx), outcomes...)
	return err
}
