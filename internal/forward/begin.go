package forward

import (
	"cmp"
	"context"
	"fmt"
)

// maxRecipients is how many every server must take in one transaction (RFC 5321 4.5.3.1.8).
const maxRecipients = 100

// Begin hands the sender and the recipients of an envelope to the relay. No content goes out before
// Send.
//
// The error is an *Error when the relay is at fault, else it comes from the context, the quota or
// the spool. The transaction is never nil: with an error it is over, and its Outcomes still count.
// The context counts until the relay has taken the sender.
func (r *Relay) Begin(ctx context.Context, env Envelope, c *Content) (*Transaction, error) {
	t := &Transaction{relay: r, nullOnly: env.NullOnly, content: c}
	todo := t.parse(env)
	if len(todo) == 0 {
		return t, nil
	}
	n, done, err := r.cfg.Quota.Reserve(ctx, min(len(todo), maxRecipients))
	if err != nil {
		return t, &QuotaError{err}
	}
	t.to, t.rest, t.done = todo[:n], todo[n:], done
	if err := r.acquire(ctx); err != nil {
		done(0)
		return t, err
	}
	err = t.connect(ctx)
	if err != nil || len(t.accepted) == 0 {
		t.end()
	}
	return t, err
}

// parse refuses the recipients that have no valid address, or whose sender has none, and returns
// the others.
func (t *Transaction) parse(env Envelope) (todo []path) {
	from, fromErr := parseReversePath(env.From)
	t.from = from
	for _, to := range env.To {
		rcpt, err := parsePath(to)
		if err = cmp.Or(fromErr, err); err != nil {
			t.outcomes = append(t.outcomes, Outcome{Recipient: to, Status: Refused, Reply: short(err.Error())})
			continue
		}
		todo = append(todo, rcpt)
	}
	return todo
}

// connect begins on a connection from the pool, or on a new one. When the one from the pool turns
// out to be closed, nothing has happened yet, and the transaction begins again on a new one.
func (t *Transaction) connect(ctx context.Context) error {
	r, fresh := t.relay, *t
	c, err := r.take()
	if err != nil {
		return err
	}
	if c != nil {
		err := t.open(ctx, c)
		if !t.stale {
			return err
		}
		r.log.Debug("the relay had closed a connection; opening another", "relay", r.addr, "reason", err)
		r.giveBack(c)
		fresh.named = t.named
		*t = fresh
	}
	if c, err = r.dial(ctx); err != nil {
		return err
	}
	return t.open(ctx, c)
}

// open says on c what comes before the content.
func (t *Transaction) open(ctx context.Context, c *conn) error {
	t.c = c
	c.uses++
	return t.deferred(t.envelope(ctx))
}

func (t *Transaction) envelope(ctx context.Context) error {
	if err := t.choose(); err != nil {
		return err
	}
	params, ok, err := t.fits()
	if !ok || err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = t.c.raw.Close() })
	ok, err = t.mail(params)
	if !stop() {
		t.c.dead = true
		return fmt.Errorf("send to the relay %s: %w", t.relay.addr, ctx.Err())
	}
	if !ok || err != nil {
		return err
	}
	return t.rcpts()
}

// mail reports whether the relay takes the sender; if not, it has dealt with it.
func (t *Transaction) mail(params string) (bool, error) {
	rep, err := t.mailFrom(t.from, params)
	if err == nil && t.from.wire == "" && !t.nullOnly && rep.hasCode("5") {
		// Some relays refuse a null reverse-path from a client that logs in. A bounce that goes out
		// with a sender is better than a lost one.
		rep, err = t.mailFrom(t.relay.sender, params)
	}
	if err != nil {
		return false, t.lost(StageMAIL, err)
	}
	if rep.ok() {
		return true, nil
	}
	return false, t.answered(StageMAIL, rep, t.to)
}

func (t *Transaction) mailFrom(from path, params string) (reply, error) {
	t.own = t.relay.ours(from)
	return t.c.command("MAIL FROM:<" + from.wire + ">" + params)
}

// rcpts names the recipients. When the relay accepts none, the transaction is taken back.
func (t *Transaction) rcpts() error {
	named := 0
	for i, rcpt := range t.to {
		if rcpt.utf8 && !t.c.offers("SMTPUTF8") {
			t.decide(rcpt, Refused, reply{text: errNoUTF8.Error()}, "")
			continue
		}
		named++
		t.named = max(t.named, named)
		rep, err := t.c.command("RCPT TO:<" + rcpt.wire + ">")
		if err != nil {
			return t.lost(StageRCPT, err)
		}
		if rep.ok() {
			t.accepted = append(t.accepted, rcpt)
			continue
		}
		v, fix := t.classify(StageRCPT, rep)
		if v == tooMany && len(t.accepted) > 0 {
			t.again = t.to[i:]
			return nil
		}
		if err := t.decideAll(t.to[i:i+1], StageRCPT, v, rep, fix); err != nil {
			return err
		}
	}
	if len(t.accepted) == 0 {
		t.c.reset()
	}
	return nil
}
