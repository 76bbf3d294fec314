package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"postrider/internal/db"
)

// Target is a destination of events, and how to send them to it.
type Target struct {
	Destination
	Publisher Publisher
	Batch     int           // at most this many events in one batch
	Timeout   time.Duration // of a batch
	GiveUp    time.Duration // an event that fails and is older is dead, unless the destination asks for time
}

// Dispatcher turns occurrences into entries, and sends events to their destinations. All fields
// must be set. Any number of processes may run one.
type Dispatcher struct {
	Store   *Store
	Plan    Plan
	Targets []Target
	Worker  string
	Drain   time.Duration // how long batches begin after last was closed, see Run
	Grace   time.Duration // how long a batch that is under way may take after ctx has ended
	Log     *slog.Logger
}

// How often the outbox is read, and how much at once.
const (
	lookEvery = 5 * time.Second
	// After a round that was woken: what woke it may be committed late; and between looks for what
	// others made.
	lookAgain = time.Second
	// Between looks for occurrences: each look commits, while other workers forward.
	pace         = 100 * time.Millisecond
	gather       = 20 * time.Millisecond // what woke Run may be committed only now
	expandAtOnce = 500
)

// Run publishes what is due: at once, soon after woken has an element, and every few seconds, until
// ctx ends. After last is closed, it publishes what is due by then and returns: new batches begin
// for up to Drain, and each batch has its whole timeout. Destinations do not wait for each other.
// What fails is tried again, and logged.
func (d *Dispatcher) Run(ctx context.Context, woken, last <-chan struct{}) {
	begin, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		select {
		case <-last:
			time.AfterFunc(d.Drain, enough)
		case <-begin.Done():
		}
	}()
	var publishing sync.WaitGroup
	outlets, expanded := d.outlets(), make(chan struct{})
	for _, o := range outlets {
		publishing.Go(func() {
			r := rounds{log: d.Log, news: o.news, last: expanded}
			r.run(begin, func() error {
				if isClosed(expanded) {
					o.mustLook()
				}
				return o.publish(ctx, begin)
			})
		})
	}
	r := rounds{log: d.Log, news: woken, last: last, pace: pace, gather: gather}
	r.run(begin, func() error { return d.expand(begin, outlets) })
	close(expanded)
	publishing.Wait()
	for _, o := range outlets {
		if err := o.giveBack(ctx, o.close()); err != nil {
			d.Log.Error("cannot give events back; they are sent after their leases end",
				"destination", o.to.Name, "error", err)
		}
	}
}

// expand expands all occurrences, and wakes the outlets that have something to publish.
func (d *Dispatcher) expand(ctx context.Context, outlets []*outlet) error {
	for ctx.Err() == nil {
		wants := make([]Want, len(outlets))
		for i, o := range outlets {
			wants[i] = o.wantFresh()
		}
		began := time.Now()
		done, err := d.Store.Expand(ctx, expandAtOnce, d.Plan, wants...)
		for _, o := range outlets {
			if o.hand(done, began) {
				wake(o.news)
			}
		}
		if err != nil || done.N < expandAtOnce { // what comes meanwhile wakes Run again
			return err
		}
	}
	return nil
}

func wake(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// rounds look at the outbox again and again.
type rounds struct {
	log          *slog.Logger
	news, last   <-chan struct{}
	pace, gather time.Duration // before and after the wait for news
}

// run does a round at once, after each element of news, and every few seconds, until ctx ends. A
// round that begins after last was closed is the final one. An error comes from the database. A
// process that stays up has no final round. It logs elsewhere that the database cannot be used;
// that only the outbox cannot be used is logged here, once.
func (r *rounds) run(ctx context.Context, round func() error) {
	wait, logged := lookEvery, false
	for ctx.Err() == nil {
		final := isClosed(r.last)
		err := round()
		switch {
		case err == nil:
			logged = false
		case ctx.Err() != nil:
		case final:
			r.log.Error("cannot process the outbox; the next pass continues", "error", err)
		case logged || db.Transient(err):
			r.log.Debug("cannot process the outbox; trying again", "error", err)
		default:
			r.log.Error("cannot process the outbox; trying again", "error", err)
			logged = true
		}
		if final {
			return
		}
		r.pause(ctx, r.pace)
		wait = r.wait(ctx, wait)
	}
}

// wait waits for news, but not longer than d, and returns how long to wait next time.
func (r *rounds) wait(ctx context.Context, d time.Duration) time.Duration {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.news:
		r.pause(ctx, r.gather)
		return lookAgain
	case <-timer.C:
	case <-r.last:
	case <-ctx.Done():
	}
	return lookEvery
}

func (r *rounds) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.last:
	case <-ctx.Done():
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
