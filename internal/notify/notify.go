// Package notify sends failure notices to the operator: about dead, uncertain and bounced messages,
// about inboxes that cannot be scanned, and about recipients whose mail bounces repeatedly. A
// notice is a digest. It goes out by mail, and to a program (the hook).
//
// Each address and the hook is a channel. The database records for each channel what was reported,
// when, and which run holds the channel's lease. So all passes of all hosts together send a channel
// at most one digest per Config.AtMost. Failures that come up in between are in the next digest.
// Nothing is reported twice, except after a crash: when a run dies after it sent a digest and
// before it recorded that, another run sends the digest again after the lease has expired. A digest
// is also sent again when the connection broke before the relay's reply to it. A task that dies or
// bounces again after a requeue is reported again. A task that is no longer dead is not reported. A
// task that bounces for another recipient is reported again.
//
// When a digest cannot be sent, a later pass tries again: the first two times the next pass, then
// less and less often, but at least once an hour. The failure is logged. It changes nothing else.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"postrider/internal/forward"
	"postrider/internal/limits"
	"postrider/internal/tasks"
)

// Kind is a kind of failure.
type Kind string

// The kinds of failures. For those of an inbox, the end of the outage is reported, too.
const (
	Dead        Kind = "dead"
	Uncertain   Kind = "uncertain"
	Bounced     Kind = "bounced" // after the relay had accepted it, for one recipient or more
	Unreachable Kind = "inbox_unreachable"
	NeedsLogin  Kind = "needs_login" // a person has to log in to an inbox (OAuth2)

	RecipientBounces Kind = "recipient_bounces" // mail to a recipient bounces repeatedly
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Dead, Uncertain, Bounced, Unreachable, NeedsLogin, RecipientBounces}
}

// ofInbox reports whether the kind is a failure of an inbox, and not of a message.
func (k Kind) ofInbox() bool { return k == Unreachable || k == NeedsLogin }

// Config says what is reported, and to which channels.
type Config struct {
	To     []string      // addresses
	Hook   []string      // a program and its arguments; empty for none
	On     []Kind        // what is reported
	AtMost time.Duration // the shortest time between two digests to one channel
	Host   string        // the sender, as named in a digest
	Worker string        // unique to this run
	Lease  time.Duration // of a channel; at most maxLease is used
}

// channels returns the channels; the hook comes first, because it needs no relay.
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

// maxLease limits Config.Lease, so that after a crash the next digest is not late.
const maxLease = time.Minute

func (c Config) lease() time.Duration { return min(c.Lease, maxLease) }

// Transaction is one mail on its way, *forward.Transaction.
type Transaction interface {
	Accepted() []string
	Outcomes() []forward.Outcome
	Rest() []string
	Send() ([]forward.Outcome, error)
	Reset()
}

// Tasks reads tasks, like tasks.Reader.
type Tasks interface {
	Get(ctx context.Context, id int64) (tasks.Task, error)
}

// Notifier sends failure notices. All fields must be set.
type Notifier struct {
	Config   Config
	Store    *Store
	Tasks    Tasks
	Composer *forward.Composer
	Begin    func(ctx context.Context, env forward.Envelope, c *forward.Content) (Transaction, error) // at the relay
	Env      func(name string) (string, bool)
	Log      *slog.Logger
}

// Notify runs the hook and calls Mail. When relayUp is false, it runs the hook only. What ctx ends
// is no failure if ctx was canceled, and a failure if its time was over.
func (n *Notifier) Notify(ctx context.Context, relayUp bool) {
	if len(n.Config.Hook) > 0 {
		_ = n.try(ctx, channel{key: hookKey}) // that is logged
	}
	if relayUp {
		n.Mail(ctx)
	}
}

// Mail mails each address a digest of what was not reported to it yet, when one is due, and reports
// whether nothing failed. After an error of the relay it tries no other address.
func (n *Notifier) Mail(ctx context.Context) (ok bool) {
	ok = true
	for _, to := range n.Config.To {
		err := n.try(ctx, mailTo(to))
		ok = ok && err == nil
		var relay *forward.Error
		if errors.As(err, &relay) || errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return ok
}

// try is notify while ctx lasts, and logs its error.
func (n *Notifier) try(ctx context.Context, ch channel) error {
	if ctx.Err() != nil {
		return nil
	}
	err := n.notify(ctx, ch)
	if err != nil && !stopped(ctx) {
		n.Log.Warn("could not send the failure notice; a later pass tries again",
			"channel", ch.String(), "error", err)
	}
	return err
}

func stopped(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// notify sends a digest to one channel. Changes of the database ignore the end of ctx: without them
// the next pass would send the digest again.
func (n *Notifier) notify(ctx context.Context, ch channel) error {
	news, err := n.Store.News(ctx, ch, n.Config.On)
	for _, damaged := range news.Damaged {
		n.Log.Warn("a row in the database is damaged", "channel", ch.String(), "error", damaged)
	}
	if err != nil || news.empty() {
		return err
	}
	after := context.WithoutCancel(ctx)
	mine, err := n.Store.acquire(after, ch, n.Config)
	if err != nil || !mine {
		return err
	}
	// Read again: another run may have sent the digest before this one got the lease.
	news, err = n.Store.News(ctx, ch, n.Config.On)
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
	return n.record(ctx, ch, news, err)
}

// record records in the database whether the news were sent.
func (n *Notifier) record(ctx context.Context, ch channel, news News, err error) error {
	after := context.WithoutCancel(ctx)
	var full *limits.Reached
	switch {
	case err == nil:
		n.Log.Info("failure notice sent", "channel", ch.String(), "tasks", len(news.Tasks)+len(news.Bounces),
			"inboxes", len(news.Outages), "recipients", len(news.Recipients))
		return n.Store.reported(after, ch, n.Config.Worker, news)
	case errors.Is(err, errTaken):
		n.Log.Info("another run sends the failure notice, because this run's lease expired", "channel", ch.String())
		return nil
	case errors.As(err, &full): // waiting for a rate limit is not an error
		n.Log.Info("the failure notice waits for a limit of the relay's provider",
			"channel", ch.String(), "limit", full)
		return n.Store.release(after, ch, n.Config.Worker)
	case stopped(ctx):
		return errors.Join(err, n.Store.release(after, ch, n.Config.Worker))
	}
	return errors.Join(err, n.Store.failed(after, ch, n.Config.Worker, err))
}

// hold renews the lease of a channel until stop is called. When another run took the lease over,
// because this run was blocked for too long, the context held ends. A renewal that fails for
// another reason is tried again later.
func (n *Notifier) hold(ctx context.Context, ch channel) (held context.Context, stop func()) {
	held, lose := context.WithCancelCause(ctx)
	after := context.WithoutCancel(ctx)
	end := tasks.Every(after, n.Config.lease()/3, func(context.Context) {
		if err := n.Store.renew(after, ch, n.Config.Worker); errors.Is(err, errTaken) {
			lose(err)
		}
	})
	return held, func() { end(); lose(nil) }
}

// maxDelivery limits the hook, and the time until the relay has accepted MAIL.
const maxDelivery = time.Minute

func (n *Notifier) deliver(ctx context.Context, ch channel, d Digest) error {
	ctx, cancel := context.WithTimeout(ctx, maxDelivery)
	defer cancel()
	if !ch.isHook() {
		return n.mail(ctx, ch, d)
	}
	// mail renews the lease before the final dot.
	if err := n.Store.renew(ctx, ch, n.Config.Worker); err != nil {
		return err
	}
	return n.runHook(ctx, d)
}
