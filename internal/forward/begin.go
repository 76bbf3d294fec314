package forward

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"postrider/internal/address"
)

// maxRecipients is how many every server must take in one transaction (RFC 5321 4.5.3.1.8).
const maxRecipients = 100

// Begin names the sender and the recipients of an envelope to the relay, with PIPELINING up to the
// 354 to DATA. No content is sent before Send.
//
// The error is an *Error if the relay is at fault, else it comes from the context, the quota or the
// spool. The transaction is never nil: with an error it is over, and its Outcomes still count. ctx
// has no effect after the relay has answered MAIL.
func (r *Relay) Begin(ctx context.Context, env Envelope, c *Content) (*Transaction, error) {
	t := &Transaction{relay: r, task: env.Task, queued: env.Queued, nullOnly: env.NullOnly, content: c}
	todo := t.apart(t.parse(t.first(env)))
	if len(todo) == 0 {
		return t, nil
	}
	n, done, err := r.cfg.Quota.Reserve(ctx, min(len(todo), int(r.most.Load())))
	if err != nil {
		return t, &QuotaError{err}
	}
	t.to, t.rest, t.done = todo[:n], slices.Concat(todo[n:], t.rest), done
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

// first returns the part of an envelope that fits into one transaction. A recipient with a
// reverse-path of its own is sent alone; the others are left for later transactions.
func (t *Transaction) first(env Envelope) Envelope {
	if !t.signed() || len(env.To) == 0 {
		return env
	}
	for _, to := range env.To[1:] {
		t.rest = append(t.rest, address.Address{Text: to})
	}
	env.To = env.To[:1]
	env.From = t.relay.cfg.Signer.ReversePath(t.task, t.queued, env.To[0])
	return env
}

// signed reports whether the reverse-path identifies the delivery.
func (t *Transaction) signed() bool { return t.task != 0 && t.relay.cfg.Signer != nil }

// parse refuses the recipients that have no valid address, or whose sender has none, and returns
// the others.
func (t *Transaction) parse(env Envelope) (todo []address.Address) {
	var fromErr error
	if env.From != "" { // else it is the null reverse-path
		t.from, fromErr = address.Parse(env.From)
	}
	for _, to := range env.To {
		rcpt, err := address.Parse(to)
		if err = cmp.Or(fromErr, err); err != nil {
			t.outcomes = append(t.outcomes, Outcome{Recipient: to, Status: Refused, Reply: short(err.Error())})
			continue
		}
		todo = append(todo, rcpt)
	}
	return todo
}

// apart leaves recipients whose addresses need SMTPUTF8 to a later transaction if there are others:
// otherwise, a server after the relay that lacks SMTPUTF8 would bounce the message for all of them.
func (t *Transaction) apart(todo []address.Address) []address.Address {
	utf8, ascii := []address.Address(nil), []address.Address(nil)
	for _, rcpt := range todo {
		if rcpt.UTF8 {
			utf8 = append(utf8, rcpt)
		} else {
			ascii = append(ascii, rcpt)
		}
	}
	if len(ascii) == 0 {
		return utf8
	}
	t.rest = append(t.rest, utf8...)
	return ascii
}

// connect begins on a connection from the pool, or on a new one. No content is sent here, so the
// transaction can begin again on another connection, if one from the pool turns out to be closed,
// or if the relay mishandles commands that are sent together.
func (t *Transaction) connect(ctx context.Context) error {
	r, fresh := t.relay, *t
	c, err := r.take()
	if err != nil {
		return err
	}
	for {
		if c == nil {
			if c, err = r.dial(ctx); err != nil && t.suspect != nil {
				return t.deferred(t.suspect) // this message may be why the relay is gone
			} else if err != nil {
				return err
			}
		}
		err = t.open(ctx, c)
		if !t.restart {
			return err
		}
		r.log.Debug("a transaction begins again on a new connection", "relay", r.addr, "reason", err)
		r.giveBack(c)
		fresh.from, fresh.named, fresh.suspect = t.from, t.named, t.suspect
		*t, c = fresh, nil
	}
}

// open sends on c the commands that come before the content.
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
	raw := t.c.raw // the transaction may be over when it is closed
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	rep, err := t.mail(params)
	if !stop() {
		t.c.dead, t.restart = true, false // it was closed here
		return fmt.Errorf("send to the relay %s: %w", t.relay.addr, ctx.Err())
	}
	if err != nil {
		return err
	}
	if !rep.ok() {
		if t.c.took && rep.hasCode("4") { // perhaps it takes no more on this connection, as OpenSMTPD after 100
			t.c.dead, t.restart = true, true
			return &Error{Relay: t.relay.addr, Stage: StageMAIL, Code: rep.code, Reply: rep.line()}
		}
		return t.answered(StageMAIL, rep, t.to)
	}
	if err := t.rcpts(); err != nil || len(t.accepted) == 0 || !t.said.pipelined {
		return err
	}
	return t.invite()
}

// mail returns the reply to MAIL.
func (t *Transaction) mail(params string) (reply, error) {
	rep, err := t.mailFrom(t.from, params)
	if err != nil || !t.replaceable() || !rep.hasCode("5") {
		return rep, err
	}
	refused, at := t.from, rep
	t.from = t.relay.sender
	if t.c.dead { // it closed the connection, too
		t.relay.logReplaced(refused, at)
		t.restart = true
		return rep, &Error{Relay: t.relay.addr, Stage: StageMAIL, Err: errHungUp}
	}
	rep, err = t.mailFrom(t.from, params)
	if err == nil && rep.ok() { // else it was not about that sender
		t.relay.logReplaced(refused, at)
	}
	return rep, err
}

// replaceable reports whether the configured sender is tried if the relay refuses this one. Some
// relays refuse a null reverse-path from a client that logs in: a bounce that is sent with a sender
// is better than a lost one. With SRS, a stranger chose a part of the address: some relays refuse
// an address in quotes, or one that SRS did not have to rewrite.
func (t *Transaction) replaceable() bool {
	if t.from.Wire == "" {
		return !t.nullOnly
	}
	return t.relay.cfg.EnvelopeFrom == SRS && t.from.Text != t.relay.sender.Text
}

// logReplaced logs that the configured sender replaces one that was refused. If the refused address
// is not in quotes, the relay may refuse all SRS addresses: that is logged as a warning, once.
func (r *Relay) logReplaced(refused address.Address, rep reply) {
	if refused.Wire == "" {
		return
	}
	level := slog.LevelInfo
	if !strings.Contains(refused.Wire, `"`) && r.warned.CompareAndSwap(false, true) {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "the relay refuses a sender; bounces go to the configured address",
		"sender", refused.Text, "address", r.sender.Text, "code", rep.code, "reply", rep.line())
}

func (t *Transaction) mailFrom(from address.Address, params string) (reply, error) {
	t.own = t.signed() || t.relay.ours(from)
	t.said = &group{c: t.c, pipelined: t.suspect == nil && t.relay.pipelines(t.c)}
	t.said.commands = append(t.said.commands, "MAIL FROM:<"+from.Wire+">"+params)
	for _, rcpt := range t.to {
		t.said.commands = append(t.said.commands, "RCPT TO:<"+rcpt.Wire+">"+t.notify(rcpt))
	}
	t.said.commands = append(t.said.commands, "DATA")
	rep, err := t.hear()
	if err != nil { // the relay may have heard the recipients, too
		t.named = max(t.named, t.said.named())
	}
	if err == nil && !rep.ok() && t.said.pipelined {
		err = t.void(rep)
	}
	return rep, err
}

// rcpts reads which recipients are accepted. If the relay accepts none, the transaction is reset.
func (t *Transaction) rcpts() (err error) {
	var rep reply
	for i, rcpt := range t.to {
		rep, err = t.hear()
		t.named = max(t.named, t.said.named())
		if err != nil {
			return err
		}
		if rep.ok() {
			t.accepted = append(t.accepted, rcpt)
			continue
		}
		if t.replaceable() && len(t.accepted) == 0 && rep.hasCode("5") && slices.ContainsFunc(badSender, rep.says) {
			// Postfix reports here that it refuses the reverse-path, see mail.
			t.relay.logReplaced(t.from, rep)
			t.from, t.c.dead, t.restart = t.relay.sender, true, true
			return &Error{Relay: t.relay.addr, Stage: StageRCPT, Code: rep.code, Reply: rep.text}
		}
		v, fix := t.classify(StageRCPT, rep)
		switch {
		case v != tooMany || len(t.accepted) == 0:
			err = t.decideAll(t.to[i:i+1], StageRCPT, v, rep, fix)
		case t.said.pipelined: // the others are named already
			t.again = append(t.again, rcpt)
			t.relay.most.Store(int32(len(t.accepted)))
		default:
			t.again = t.to[i:]
			t.said.skip()
			return nil
		}
		if err != nil {
			return err
		}
	}
	if len(t.accepted) == 0 {
		return t.void(rep)
	}
	return nil
}
