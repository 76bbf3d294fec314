package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Target is a destination of events, and how to hand them to it.
type Target struct {
	Destination
	Publisher Publisher
	Batch     int           // at most so many at once
	Timeout   time.Duration // of a batch
	GiveUp    time.Duration // an event that fails and is older is dead

	size int // of the next batch; 0 before the first
}

// Dispatcher finds out what follows from occurrences, and hands events to their destinations. All
// fields must be set. Any number of processes may do that.
type Dispatcher struct {
	Store   *Store
	Plan    Plan
	Targets []Target
	Worker  string
	Grace   time.Duration // how long a batch that is under way may take after ctx has ended
	Log     *slog.Logger
}

// How often things are looked at, and how much at once.
const (
	lookEvery    = 5 * time.Second
	lookAgain    = time.Second            // after a round that was woken: what woke it may be committed late
	pace         = 200 * time.Millisecond // between looks for occurrences: each commits, beside those who forward
	gather       = 20 * time.Millisecond  // what woke Run may be committed only now
	expandAtOnce = 200
)

// Run publishes until ctx ends: soon after woken has an element, and every few seconds. One
// destination does not wait for another. What fails is logged once, and tried again.
func (d *Dispatcher) Run(ctx context.Context, woken <-chan struct{}) {
	var wg sync.WaitGroup
	news := make([]chan struct{}, len(d.Targets))
	for i := range d.Targets {
		news[i] = make(chan struct{}, 1)
		wg.Go(func() {
			var trouble trouble
			for wait := new(rounds); wait.next(ctx, news[i]); {
				trouble.log(ctx, d.Log, d.publish(ctx, &d.Targets[i]))
			}
		})
	}
	trouble, wait := new(trouble), &rounds{pace: pace, gather: gather}
	for {
		trouble.log(ctx, d.Log, d.expand(ctx))
		for _, n := range news {
			wake(n)
		}
		if !wait.next(ctx, woken) {
			break
		}
	}
	wg.Wait()
}

// rounds says when to look.
type rounds struct {
	pace, gather time.Duration // before and after the wait for news
	woken        bool
}

// next waits for news, but not longer than lookEvery, and reports whether ctx goes on.
func (r *rounds) next(ctx context.Context, news <-chan struct{}) bool {
	pause(ctx, r.pace)
	most := lookEvery
	if r.woken {
		most = lookAgain
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-news:
		r.woken = true
		pause(ctx, r.gather)
	case <-timer.C:
		r.woken = false
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func wake(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// Drain publishes what is due, once, and returns when that is done or ctx ends. Run must have ended.
func (d *Dispatcher) Drain(ctx context.Context) {
	new(trouble).log(ctx, d.Log, d.expand(ctx))
	var wg sync.WaitGroup
	for i := range d.Targets {
		wg.Go(func() { new(trouble).log(ctx, d.Log, d.publish(ctx, &d.Targets[i])) })
	}
	wg.Wait()
}

// trouble is that of the database. It is logged when it begins.
type trouble struct{ known bool }

func (t *trouble) log(ctx context.Context, log *slog.Logger, err error) {
	if err != nil && !t.known && ctx.Err() == nil {
		log.Error("cannot process the outbox; trying again", "error", err)
	}
	t.known = err != nil
}

// expand expands all occurrences that there are.
func (d *Dispatcher) expand(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := d.Store.Expand(ctx, expandAtOnce, d.Plan)
		if err != nil || n < expandAtOnce { // what comes meanwhile wakes Run again
			return err
		}
	}
	return nil
}
