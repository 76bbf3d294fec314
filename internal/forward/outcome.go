package forward

import (
	"errors"
	"fmt"
	"slices"

	"postrider/internal/address"
)

const (
	fixASCII = "set forward.envelope_from to an ASCII address"
	fixNull  = "the relay refuses the null reverse-path, which bounces and failure notices need; " +
		"ask its operator, or set hook to be notified without mail"
	fixFallback = "set fallback: attach to send such messages as attachments"
	fixRcpt     = "use an ASCII address for this recipient"
)

// choose replaces a content that the relay cannot accept with one that can be sent instead. A
// content that is composed in the forwarder's name is sent with the forwarder's address if the
// sender's does not fit (see Sender).
func (t *Transaction) choose() error {
	eight, utf8 := t.c.offers("8BITMIME"), t.c.offers("SMTPUTF8")
	needsUTF8 := func() bool { return t.content.Mode == Redirect && (t.content.utf8 || t.from.UTF8) }
	for t.content.instead != nil && (t.content.eight && !eight || needsUTF8() && !utf8) {
		other, err := t.content.instead()
		if err != nil {
			return err
		}
		t.content = other
	}
	mode := t.content.Mode
	if mode != Redirect && t.from.UTF8 && !utf8 || t.relay.Sender(t.from.Text, mode) != t.from.Text {
		t.from = t.relay.sender
	}
	return nil
}

// fits compares what the relay offers with what the message needs, and returns the parameters of
// MAIL. When the message does not fit, all recipients are decided.
func (t *Transaction) fits() (params string, ok bool, err error) {
	size, limit := t.content.Size(), t.c.maxSize()
	utf8 := t.c.offers("SMTPUTF8")
	switch {
	case limit > 0 && size > limit: // RFC 1870 6.1
		text := fmt.Sprintf("the message has %d octets, the relay takes at most %d", size, limit)
		t.decide(t.to, Refused, reply{text: text}, "")
		return "", false, nil
	case t.content.eight && !t.c.offers("8BITMIME"): // RFC 6152
		const text = "the relay does not take 8-bit messages: it does not offer 8BITMIME"
		t.decide(t.to, Refused, reply{text: text}, fixFallback)
		return "", false, nil
	case t.from.UTF8 && !utf8 && t.from.Text == t.relay.sender.Text: // RFC 6531 3.2
		return "", false, t.relay.needsUTF8()
	case t.from.UTF8 && !utf8:
		t.decide(t.to, Refused, reply{text: fmt.Sprintf("the sender %s: %v", t.from.Text, errNoUTF8)}, fixFallback)
		return "", false, nil
	case t.to[0].UTF8 && !utf8: // and so are the others, see apart
		t.decide(t.to, Refused, reply{text: errNoUTF8.Error()}, fixRcpt)
		return "", false, nil
	}
	if t.c.offers("SIZE") {
		params += fmt.Sprintf(" SIZE=%d", size)
	}
	if t.content.eight {
		params += " BODY=8BITMIME"
	}
	if utf8 && t.wantsUTF8() {
		params += " SMTPUTF8"
	}
	return params + t.ret(), true, nil
}

// wantsUTF8 reports whether the sender or a recipient is internationalized (RFC 6531 3.4). That RFC
// also wants SMTPUTF8 for a header in UTF-8. But relays accept such headers without SMTPUTF8, as
// all did before the extension existed. With it, the next server that does not offer SMTPUTF8
// bounces the message, and then bounces the bounce, which quotes the header.
func (t *Transaction) wantsUTF8() bool {
	return t.from.UTF8 || slices.ContainsFunc(t.to, func(r address.Address) bool { return r.UTF8 })
}

func (t *Transaction) decide(rcpts []address.Address, s Status, rep reply, fix string) {
	for _, rcpt := range rcpts {
		t.outcomes = append(t.outcomes, Outcome{
			Recipient: rcpt.Text, Status: s, Code: rep.code, Enhanced: rep.enhanced, Reply: short(rep.text), Fix: fix,
		})
	}
}

// answered applies a reply to all recipients that it is about.
func (t *Transaction) answered(at Stage, rep reply, rcpts []address.Address) error {
	if rep.ok() && at == StageDot {
		t.decide(rcpts, Accepted, rep, "")
		return nil
	}
	v, fix := t.classify(at, rep)
	return t.decideAll(rcpts, at, v, rep, fix)
}

// classify says what a reply means. If no other sender is allowed, setting one is not the fix.
// Postfix reports at RCPT why it refuses the sender in MAIL.
func (t *Transaction) classify(at Stage, rep reply) (verdict, string) {
	if at == StageMAIL && rep.enhanced == "5.6.7" && t.wantsUTF8() && !t.from.UTF8 {
		return refused, "" // RFC 6531 3.5: not about the sender, but about the recipients
	}
	v, fix := classify(at, rep, t.own)
	if at == StageRCPT && v == refused && t.asks() && (rep.hasCode("504") || rep.hasCode("555")) {
		v, fix = deferred, fixParameter // one that the relay offered, as at MAIL
	}
	if fix == fixDMARC && t.content.Mode != Redirect {
		fix = "" // its From is ours already
	}
	if fix == fixSender && t.signed() {
		fix = fixSigned
	}
	aboutSender := fix == fixSender || fix == fixSigned ||
		at == StageRCPT && slices.ContainsFunc(badSender, rep.says) ||
		at == StageMAIL && v == refused && !rep.hasCode("552") // which is about its size
	if t.nullOnly && rep.hasCode("5") && aboutSender {
		fix = fixNull
	}
	return v, fix
}

// decideAll applies a verdict. The error is an *Error, when the relay is to blame.
func (t *Transaction) decideAll(rcpts []address.Address, at Stage, v verdict, rep reply, fix string) error {
	if v == relayDown || v == relayRefuses {
		t.c.dead = true
		t.restart = t.c.reused() && v == relayDown && slices.Contains(beforeData, at)
		return t.relay.replied(at, v, rep, fix)
	}
	if rep.code < 400 { // not a reply to this command, so the state of the session is unknown
		t.c.dead = true
		rep.text = fmt.Sprintf("unexpected reply to %s: %s", at, rep.text)
	}
	status := Deferred
	if v == refused {
		status = Refused
	}
	t.decide(rcpts, status, rep, fix)
	return nil
}

// lost handles the end of the connection before any content went out. One from the pool was
// perhaps closed while it was idle. On a new one, commands that were sent together are suspect.
func (t *Transaction) lost(at Stage, err error) error {
	t.c.dead = true
	_, mishandled := errors.AsType[*mishandledError](err)
	if t.said.pipelined && (mishandled || !t.c.reused()) {
		t.suspect = &Error{Relay: t.relay.addr, Stage: at, Err: err}
	}
	t.restart = t.c.reused() || t.said.pipelined
	return &Error{Relay: t.relay.addr, Stage: at, Err: err}
}

// deferred makes a temporary fault of the relay count against the message, too: recipients without
// an outcome are Deferred, so that one message cannot stop all others for ever. A refusal of our
// own sender is not about the message, unless a stranger chose a part of that address.
func (t *Transaction) deferred(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Permanent || e.Stage == StageMAIL && t.own && !t.replaceable() {
		return err
	}
	rep := newReply(e.Code, e.Reply)
	if e.Err != nil {
		rep.text = e.Err.Error()
	}
	decided := map[string]bool{}
	for _, o := range t.outcomes {
		decided[o.Recipient] = true
	}
	t.decide(slices.DeleteFunc(slices.Clone(t.to), func(r address.Address) bool {
		return decided[r.Text] || slices.Contains(t.again, r)
	}), Deferred, rep, "")
	return err
}
