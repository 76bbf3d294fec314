// Package notify tells the person who runs postrider what it cannot settle by itself: messages that are dead or wait for
// a person's word, and inboxes that cannot be worked through. It tells a digest, by mail and to a program (the hook).
//
// Each address and the hook is a channel of its own, with its state in the database: what it has been told, when, and which
// run tells it now, under a lease that it renews. So all passes of all hosts together tell a channel one digest in the time
// of Config.AtMost, nothing twice, and nothing is forgotten: what came up meanwhile is in the next one. A run that dies
// between telling and noting that it has told leaves it to be told again, as soon as its lease is over. A task that a person
// put back and that dies again is told again; one that is no longer dead is not told any more.
//
// What cannot be told is told by a later pass: the first two times by the next one, then less and less often, at least once
// an hour. It is logged, and changes nothing else.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"postrider/internal/forward"
	"postrider/internal/limits"
	"postrider/internal/tasks"
)

// Kind is something to be told.
type Kind string

// The kinds. An inbox that was Unreachable and no longer is, is told, too.
const (
	Dead        Kind = "dead"
	Uncertain   Kind = "uncertain"
	Unreachable Kind = "inbox_unreachable"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Dead, Uncertain, Unreachable} }

// Config says who is told what.
type Config struct {
	To     []string      // addresses
	Hook   []string      // a program and its arguments; empty for none
	On     []Kind        // what is told
	AtMost time.Duration // between two digests to one channel
	Host   string        // named in a digest
	Worker string        // unique to this run
	Lease  time.Duration // how long nobody else tells what a run that has died began to tell
}

// channels are those to be told, the hook first: it needs no relay.
func (c Config) channels() []channel {
	var all []channel
	if len(c.Hook) > 0 {
		all = append(all, channel{key: hookKey})
	}
	for _, to := range c.To {
		all = append(all, mailTo(to))
	}
	return all
}

// maxLease bounds Config.Lease: a message may take its time, but the next pass is to tell soon.
const maxLease = time.Minute

func (c Config) lease() time.Duration { return min(c.Lease, maxLease) }

// Relay is the SMTP side.
type Relay interface {
	Begin(ctx context.Context, env forward.Envelope, c *forward.Content) (Transaction, error)
}

// Transaction is one mail on its way, *forward.Transaction.
type Transaction interface {
	Accepted() []string
	Outcomes() []forward.Outcome
	Send() ([]forward.Outcome, error)
	Reset()
}

// Over is the SMTP side that a relay is.
func Over(r *forward.Relay) Relay { return over{r} }

type over struct{ relay *forward.Relay }

func (o over) Begin(ctx context.Context, env forward.Envelope, c *forward.Content) (Transaction, error) {
	return o.relay.Begin(ctx, env, c)
}

// Tasks is where the messages are described, a tasks.Reader.
type Tasks interface {
	Get(ctx context.Context, id int64) (tasks.Task, error)
}

// Notifier tells what there is to tell. All fields must be set.
type Notifier struct {
	Config   Config
	Store    *Store
	Tasks    Tasks
	Composer *forward.Composer
	Relay    Relay
	Env      func(name string) (string, bool)
	Log      *slog.Logger
}

// Tell tells each channel what it does not know yet, if its time has come. Without the relay, whose fault has been
// reported already, only the hook is told. The end of ctx ends it.
func (n *Notifier) Tell(ctx context.Context, relayUp bool) {
	for _, ch := range n.Config.channels() {
		if ctx.Err() != nil || !ch.isHook() && !relayUp {
			return
		}
		err := n.tell(ctx, ch)
		if err != nil && ctx.Err() == nil {
			n.Log.Warn("what failed could not be told; a later pass tries again", "channel", ch.String(), "error", err)
		}
		var relay *forward.Error
		if errors.As(err, &relay) || !ch.isHook() && errors.Is(err, context.DeadlineExceeded) {
			relayUp = false
		}
	}
}

// tell tells one channel. What changes the database is not interrupted: it is what keeps the next pass from telling again.
func (n *Notifier) tell(ctx context.Context, ch channel) error {
	news, err := n.Store.News(ctx, ch, n.Config.On)
	for _, damaged := range news.Damaged {
		n.Log.Warn("what the database says of a failure makes no sense", "channel", ch.String(), "error", damaged)
	}
	if err != nil || news.empty() {
		return err
	}
	after := context.WithoutCancel(ctx)
	mine, err := n.Store.acquire(after, ch, n.Config)
	if err != nil || !mine {
		return err
	}
	news, err = n.Store.News(ctx, ch, n.Config.On) // again: another run may have told it
	if err != nil || news.empty() {
		return errors.Join(err, n.Store.release(after, ch, n.Config.Worker))
	}
	held, stop := n.hold(ctx, ch)
	defer stop()
	digest, err := n.digest(held, news)
	if err == nil {
		err = n.deliver(held, ch, digest)
	}
	if err != nil && errors.Is(context.Cause(held), errTaken) {
		err = errTaken
	}
	return n.settle(ctx, ch, news, err)
}

// settle notes what came of telling the news.
func (n *Notifier) settle(ctx context.Context, ch channel, news News, err error) error {
	after := context.WithoutCancel(ctx)
	var full *limits.Reached
	switch {
	case err == nil:
		n.Log.Info("told what failed", "channel", ch.String(), "tasks", len(news.Tasks), "inboxes", len(news.Outages))
		return n.Store.told(after, ch, n.Config.Worker, news)
	case errors.Is(err, errTaken):
		n.Log.Info("another run tells what failed: this one was held up for longer than its lease", "channel", ch.String())
		return nil
	case errors.As(err, &full): // nobody's fault
		n.Log.Info("what failed waits to be told for a limit of the relay's provider", "channel", ch.String(), "limit", full)
		return n.Store.release(after, ch, n.Config.Worker)
	case ctx.Err() != nil:
		return errors.Join(err, n.Store.release(after, ch, n.Config.Worker))
	}
	return errors.Join(err, n.Store.failed(after, ch, n.Config.Worker, err))
}

// hold renews the lease of a channel until stop is called. When another run has the channel nonetheless, since this one was
// held up for too long, held ends. A renewal that fails is tried again at the next turn.
func (n *Notifier) hold(ctx context.Context, ch channel) (held context.Context, stop func()) {
	held, lose := context.WithCancelCause(ctx)
	over := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		turn := time.NewTicker(n.Config.lease() / 3)
		defer turn.Stop()
		for {
			select {
			case <-over:
				return
			case <-turn.C:
			}
			err := n.Store.renew(context.WithoutCancel(ctx), ch, n.Config.Worker)
			if errors.Is(err, errTaken) {
				lose(err)
				return
			}
		}
	})
	return held, func() { close(over); renewing.Wait(); lose(nil) }
}

// maxDelivery is how long it may take to tell one channel, until the relay has taken MAIL.
const maxDelivery = time.Minute

func (n *Notifier) deliver(ctx context.Context, ch channel, d Digest) error {
	ctx, cancel := context.WithTimeout(ctx, maxDelivery)
	defer cancel()
	if !ch.isHook() {
		return n.mail(ctx, ch, d)
	}
	if err := n.Store.renew(ctx, ch, n.Config.Worker); err != nil { // as before the final dot of a mail
		return err
	}
	return n.runHook(ctx, d)
}
