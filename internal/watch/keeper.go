package watch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// keeper keeps one inbox.
type keeper struct {
	watch    *Watch
	in       inbox.Inbox
	held     Held
	patience pass.Patience
	health   health
	reached  atomic.Bool // after a visit that failed: there is a connection all the same

	ctx    context.Context // ends with the keeper
	cancel context.CancelFunc
	done   chan struct{} // closed when run has ended
}

// keep starts a keeper, with the session of from if that is not nil.
func (w *Watch) keep(ctx context.Context, in inbox.Inbox, from Held) *keeper {
	setup := w.current()
	k := &keeper{watch: w, in: in, held: setup.Hold(in, from), patience: setup.Patience, done: make(chan struct{})}
	if from != nil {
		from.Close() // what it has besides the session
	}
	k.health.watch, k.health.in = w, &k.in
	k.ctx, k.cancel = context.WithCancel(ctx)
	ready := k.held.Ready()
	if ready {
		k.health.well() // before the next status is sent
	}
	go func() {
		defer close(k.done)
		k.run(k.ctx, ready)
	}()
	return k
}

// stop ends a keeper, and returns what it held.
func (k *keeper) stop() Held {
	k.cancel()
	<-k.done
	return k.held
}

// deliver has what is due delivered. Without a connection that has to wait.
func (k *keeper) deliver() {
	if k.health.isWell() || k.reached.Load() {
		k.held.Deliver(k.ctx)
	}
}

// run visits the inbox, waits, and visits it again. With a session that is ready it waits first.
func (k *keeper) run(ctx context.Context, ready bool) {
	if ready {
		_ = k.await(ctx, k.patience) // the next visit meets the same error
	}
	for pauses, began := new(pauses), (time.Time{}); ; {
		sleep(ctx, apart-time.Since(began))
		if ctx.Err() != nil {
			return
		}
		began = time.Now()
		busy, err := k.visit(ctx)
		switch {
		case ctx.Err() != nil:
		case busy != nil:
			k.health.well()
			sleep(ctx, pauses.busy(k.watch.cfg.Random))
		case err == nil:
			k.health.well()
			k.watch.trouble.over(visiting)
			pauses.worked()
			err = k.await(ctx, k.patience)
			if time.Since(began) > steady {
				pauses.reset()
			}
			if err != nil && ctx.Err() == nil {
				k.watch.cfg.Log.Debug("a connection was lost", "inbox", k.in.Address, "error", err)
				sleep(ctx, pauses.lost(err, k.watch.cfg.Random))
			}
		case errors.Is(err, inbox.ErrRemoved):
			<-ctx.Done() // which comes soon
		case !pass.OfInbox(err):
			k.watch.trouble.met(visiting, err)
			sleep(ctx, pauses.shared(k.watch.cfg.Random))
		default:
			k.health.sick(err)
			k.recover(ctx, pauses.failed(err, k.watch.cfg.Random))
		}
	}
}

// apart is the time from one visit to the next, at least. A server may announce something without
// end; what arrives meanwhile is found together.
const apart = 250 * time.Millisecond

// visit visits the inbox on another goroutine, because a stack that has grown stays large. This one
// waits most of the time.
func (k *keeper) visit(ctx context.Context) (busy *inbox.Busy, err error) {
	visited := make(chan struct{})
	go func() {
		defer close(visited)
		busy, err = k.held.Visit(ctx)
	}()
	<-visited
	return busy, err
}

// steady is how long a visit and the wait after it have to last, so that earlier failures no longer
// count.
const steady = time.Minute

// await waits for the next visit. Inboxes that were visited together do not stay in step.
func (k *keeper) await(ctx context.Context, p pass.Patience) error {
	spread := func(d time.Duration) time.Duration {
		return d - time.Duration(k.watch.cfg.Random()*float64(d)/5)
	}
	_, err := k.held.Await(ctx, pass.Patience{Idle: spread(p.Idle), Poll: spread(p.Poll)})
	return err
}

// recover pauses after a failure. When only some folders failed, the others are watched meanwhile.
func (k *keeper) recover(ctx context.Context, pause time.Duration) {
	k.reached.Store(k.held.Connected())
	defer k.reached.Store(false)
	if k.reached.Load() {
		_, _ = k.held.Await(ctx, pass.Patience{Idle: pause, Poll: min(pause, k.patience.Poll)})
		return
	}
	sleep(ctx, pause)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
