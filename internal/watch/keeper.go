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
	health   *health
	reached  atomic.Bool // after a visit that failed: there is a connection all the same
	pauses   pauses
	began    time.Time // the last visit

	ctx    context.Context // ends with the keeper
	cancel context.CancelFunc
	done   chan struct{} // closed after the last step
}

// keep starts a keeper. It begins with a visit.
func (w *Watch) keep(ctx context.Context, in inbox.Inbox) *keeper {
	k := w.newKeeper(ctx, in, nil)
	k.follow(k.visit)
	return k
}

// newKeeper makes a keeper, with the session of from if that is not nil.
func (w *Watch) newKeeper(ctx context.Context, in inbox.Inbox, from Held) *keeper {
	setup := w.current()
	k := &keeper{watch: w, in: in, held: setup.Hold(in, from), patience: setup.Patience, done: make(chan struct{})}
	k.health = &health{watch: w, address: in.Address, server: pass.ServerOf(in)}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

// kept is what keepers take over from those before them.
type kept struct{ sessions, pauses bool }

// takeOver ends a keeper, and starts one for the inbox as it is now. That goes on where the other
// one was, unless another login is needed or an operator has changed the inbox.
func (w *Watch) takeOver(ctx context.Context, before *keeper, in inbox.Inbox, keep kept) *keeper {
	held := before.stop()
	if !keep.sessions || login(before.in) != login(in) {
		held.Close()
		return w.keep(ctx, in)
	}
	k := w.newKeeper(ctx, in, held)
	held.Close() // what it has besides the session
	first := k.visit
	if same(before, in) {
		first = k.goOn(before, keep.pauses)
	}
	k.follow(first)
	return k
}

// goOn is the first step of a keeper in the place of one that has ended.
func (k *keeper) goOn(before *keeper, pauses bool) step {
	k.health = before.health
	if pauses {
		k.pauses = before.pauses
	}
	rest := time.Until(k.pauses.until)
	switch {
	case rest > 0:
		return k.recover(rest)
	case k.health.isWell() && k.held.Ready():
		return func(ctx context.Context) step {
			_ = k.await(ctx) // the next visit meets the same error
			return k.visit
		}
	}
	return k.visit
}

// step is a part of a keeper's work. It returns the next one, nil when the keeper has ended.
type step func(ctx context.Context) step

// follow runs each step on a goroutine of its own: a stack that has grown for a visit would stay
// large, and most of the time a thousand keepers wait.
func (k *keeper) follow(s step) {
	go func() {
		if next := s(k.ctx); next != nil {
			k.follow(next)
			return
		}
		close(k.done)
	}()
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

// visit visits the inbox, and then waits or pauses.
func (k *keeper) visit(ctx context.Context) step {
	pass.Sleep(ctx, apart-time.Since(k.began))
	if ctx.Err() != nil {
		return nil
	}
	k.began = time.Now()
	busy, err := k.held.Visit(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil && !pass.OfInbox(err) {
		k.watch.trouble.met(visiting, err)
		return k.pause(k.pauses.busy(k.watch.cfg.Random))
	}
	k.watch.trouble.over(visiting)
	k.health.visited()
	switch {
	case busy != nil: // that run may not reach the server, either
		return k.pause(k.pauses.busy(k.watch.cfg.Random))
	case err == nil:
		k.health.found(nil)
		k.pauses.worked()
		return k.wait
	case errors.Is(err, inbox.ErrRemoved):
		return func(ctx context.Context) step { <-ctx.Done(); return nil } // the keeper is stopped soon
	}
	k.health.found(err)
	pause := k.pauses.failed(err, k.watch.cfg.Random)
	if errors.As(err, new(*pass.PausedError)) { // no folder was opened, and what has arrived is not seen yet
		return k.pause(pause)
	}
	return k.recover(pause)
}

// pause is a pause before the next visit.
func (k *keeper) pause(d time.Duration) step {
	k.pauses.until = time.Now().Add(d)
	return func(ctx context.Context) step {
		pass.Sleep(ctx, d)
		return k.visit
	}
}

// wait waits for the next visit.
func (k *keeper) wait(ctx context.Context) step {
	err := k.await(ctx)
	if time.Since(k.began) > steady {
		k.pauses.reset()
	}
	return k.afterWait(ctx, err)
}

// afterWait visits the inbox, after a pause if the connection was lost meanwhile.
func (k *keeper) afterWait(ctx context.Context, err error) step {
	if err == nil || ctx.Err() != nil {
		return k.visit
	}
	k.watch.cfg.Log.Debug("a connection was lost", "inbox", k.in.Address, "error", err)
	return k.pause(k.pauses.lost(err, k.watch.cfg.Random))
}

// apart is the time from one visit to the next, at least. A server may announce something without
// end; what arrives meanwhile is found together.
const apart = 250 * time.Millisecond

// steady is how long a visit and the wait after it have to last, so that earlier failures no longer
// count.
const steady = time.Minute

// await waits for mail on the open connection. The times are random, so that inboxes that were
// visited together do not stay in step.
func (k *keeper) await(ctx context.Context) error {
	spread := func(d time.Duration) time.Duration {
		return d - time.Duration(k.watch.cfg.Random()*float64(d)/5)
	}
	return k.held.Await(ctx, pass.Patience{Idle: spread(k.patience.Idle), Poll: spread(k.patience.Poll)})
}

// recover is a pause after a failure. When only some folders failed, the others are watched
// meanwhile.
func (k *keeper) recover(pause time.Duration) step {
	k.reached.Store(k.held.Connected())
	if !k.reached.Load() {
		return k.pause(pause)
	}
	k.pauses.until = time.Now().Add(pause)
	return func(ctx context.Context) step {
		defer k.reached.Store(false)
		return k.afterWait(ctx, k.held.Await(ctx, pass.Patience{Idle: pause, Poll: min(pause, k.patience.Poll)}))
	}
}
