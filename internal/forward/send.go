package forward

import (
	"cmp"
	"context"
	"slices"
)

// maxRecipients is how many every server must take in one transaction (RFC 5321 4.5.3.1.8).
const maxRecipients = 100

// BeforeDot is told what has been decided so far, and which recipients get the message if the final dot goes out now:
// none between two transactions, when what the first one came to is to be written down.
type BeforeDot func(ctx context.Context, sofar Result, accepted []string) error

// Send hands content to the relay, for all recipients of the envelope. That is one transaction for each hundred of
// them, or fewer if the relay takes no more at once, or the quota leaves no more.
//
// In each, when all content is written and only the final dot is left, beforeDot is called with the recipients that
// the relay has accepted, as they are in the envelope. When it fails, the connection is closed without the dot:
// nothing is delivered to them, and Send returns that error.
//
// The result is to be used even with an error: it has the recipients that were decided about. Nothing went out to the
// others. The error is an *Error when the relay is at fault, or what ended it: the context, beforeDot, the quota (whose error
// it is then), or the spool.
// A context that ends before the final dot ends the transaction there; after it, it leaves the accepted recipients
// Unknown.
func (r *Relay) Send(ctx context.Context, env Envelope, content *Content, beforeDot BeforeDot) (Result, error) {
	var res Result
	var todo []path
	from, fromErr := parseReversePath(env.From)
	for _, to := range env.To {
		rcpt, err := parsePath(to)
		if err = cmp.Or(fromErr, err); err != nil {
			res.Outcomes = append(res.Outcomes, Outcome{Recipient: to, Status: Refused, Reply: oneLine(err.Error())})
			continue
		}
		todo = append(todo, rcpt)
	}
	for len(todo) > 0 {
		n, done, err := r.cfg.Quota.Reserve(ctx, min(len(todo), maxRecipients))
		if err != nil {
			return res, err
		}
		t := transaction{relay: r, from: from, nullOnly: env.NullOnly, to: todo[:n], content: content}
		t.beforeDot = func(ctx context.Context, accepted []string) error {
			return beforeDot(ctx, Result{slices.Concat(res.Outcomes, t.done), t.content}, accepted)
		}
		err = r.transact(ctx, &t)
		done(t.named)
		res.Outcomes, res.Sent = append(res.Outcomes, t.done...), t.content
		if err != nil {
			return res, err
		}
		if todo = append(t.again, todo[n:]...); len(todo) > 0 {
			if err := beforeDot(ctx, res, nil); err != nil {
				return res, err
			}
		}
	}
	return res, nil
}

// transact runs t on a connection from the pool, or a new one. When the one from the pool is dead or at its end
// before any content went out, nothing has happened yet, and t is run again on a new one.
func (r *Relay) transact(ctx context.Context, t *transaction) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	c, err := r.take()
	if err != nil {
		return err
	}
	if c != nil {
		again := *t
		err := t.runOn(ctx, c)
		if !t.stale {
			return err
		}
		r.log.Debug("the relay had closed a connection; opening another", "relay", r.addr, "reason", err)
		again.named = t.named
		*t = again
	}
	if c, err = r.dial(ctx); err != nil {
		return err
	}
	return t.runOn(ctx, c)
}
