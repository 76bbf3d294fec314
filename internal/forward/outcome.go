package forward

import (
	"errors"
	"fmt"
	"slices"
)

const (
	mendASCII = "set forward.envelope_from to an ASCII address"
	mendNull  = "the relay takes no null reverse-path, which bounces and failure notices have; ask who runs it; by the key hook you are told what failed without mail"
	mend8bit  = "set fallback: attach, and what the relay does not take goes as an attachment"
)

// choose takes what can go out instead of a content that the relay cannot take. What is written in the forwarder's name
// needs nobody else's address for its sender.
func (t *Transaction) choose() error {
	eight, utf8 := t.c.offers("8BITMIME"), t.c.offers("SMTPUTF8")
	needsUTF8 := func() bool { return t.content.Mode == Redirect && (t.content.WantsUTF8() || t.from.utf8) }
	for t.content.instead != nil && (t.content.Needs8bit() && !eight || needsUTF8() && !utf8) {
		other, err := t.content.instead()
		if err != nil {
			return err
		}
		t.content = other
	}
	if t.content.Mode != Redirect && t.from.utf8 && !utf8 || t.relay.Sender(t.from.name, t.content.Mode) != t.from.name {
		t.from = t.relay.sender
	}
	return nil
}

// fits checks what the relay offers against what the message needs, and returns the parameters of MAIL. When they do
// not fit, all is decided.
func (t *Transaction) fits() (params string, ok bool, err error) {
	size, limit := t.content.Size(), t.c.maxSize()
	utf8 := t.c.offers("SMTPUTF8")
	switch {
	case limit > 0 && size > limit: // RFC 1870 6.1
		t.misfit(fmt.Sprintf("the message has %d octets, the relay takes at most %d", size, limit), "")
		return "", false, nil
	case t.content.Needs8bit() && !t.c.offers("8BITMIME"): // RFC 6152
		t.misfit("the relay does not take 8-bit messages: it does not offer 8BITMIME", mend8bit)
		return "", false, nil
	case t.from.utf8 && !utf8 && t.from.name == t.relay.sender.name: // RFC 6531 3.2
		return "", false, t.relay.cannotName()
	case t.from.utf8 && !utf8:
		t.misfit(fmt.Sprintf("the sender %s: %v", t.from.name, errNoUTF8), "")
		return "", false, nil
	}
	if t.c.offers("SIZE") {
		params += fmt.Sprintf(" SIZE=%d", size)
	}
	if t.content.Needs8bit() {
		params += " BODY=8BITMIME"
	}
	if utf8 && t.wantsUTF8() {
		params += " SMTPUTF8"
	}
	return params, true, nil
}

func (t *Transaction) misfit(reason, mend string) {
	for _, rcpt := range t.to {
		t.decide(rcpt, Refused, reply{text: reason}, mend)
	}
}

// wantsUTF8 is true of a message that is internationalized in its header, its sender or a recipient (RFC 6531 3.4).
func (t *Transaction) wantsUTF8() bool {
	return t.content.WantsUTF8() || t.from.utf8 || slices.ContainsFunc(t.to, func(r path) bool { return r.utf8 })
}

func (t *Transaction) decide(rcpt path, s Status, rep reply, mend string) {
	t.outcomes = append(t.outcomes, Outcome{
		Recipient: rcpt.name, Status: s, Code: rep.code, Enhanced: rep.enhanced, Reply: oneLine(rep.text), Mend: mend,
	})
}

// answered applies a reply to all recipients that it is about.
func (t *Transaction) answered(at Stage, rep reply, rcpts []path) error {
	if rep.ok() && at == StageDot {
		for _, rcpt := range rcpts {
			t.decide(rcpt, Accepted, rep, "")
		}
		return nil
	}
	v, mend := t.classify(at, rep)
	return t.decideAll(rcpts, at, v, rep, mend)
}

// classify is what a reply means. No other sender is a mend where there must be none; Postfix says at RCPT what it has against
// the one in MAIL.
func (t *Transaction) classify(at Stage, rep reply) (verdict, string) {
	v, mend := classify(at, rep, t.own)
	aboutSender := mend == mendSender || at == StageRCPT && slices.ContainsFunc(badSender, rep.says) ||
		at == StageMAIL && v == refused && !rep.hasCode("552") // which is about its size
	if t.nullOnly && rep.hasCode("5") && aboutSender {
		mend = mendNull
	}
	return v, mend
}

// decideAll applies a verdict. Its error is an *Error, when the relay is to blame.
func (t *Transaction) decideAll(rcpts []path, at Stage, v verdict, rep reply, mend string) error {
	if v == relayDown || v == relayRefuses {
		t.c.dead = true
		t.stale = v == relayDown && slices.Contains(beforeData, at)
		return t.relay.replied(at, v, rep, mend)
	}
	if rep.code < 400 {
		t.c.dead = true // against the rules: who knows what it waits for
	}
	status := Deferred
	if v == refused {
		status = Refused
	}
	for _, rcpt := range rcpts {
		t.decide(rcpt, status, rep, mend)
	}
	return nil
}

// lost is the end of the connection before any content went out.
func (t *Transaction) lost(at Stage, err error) error {
	t.c.dead, t.stale = true, true
	return &Error{Relay: t.relay.addr, Stage: at, Err: err}
}

// deferred puts a temporary fault of the relay down to the message, too: whoever is not decided
// about is Deferred, and so no message stops all others for ever. What the relay has against our
// own sender is not about the message.
func (t *Transaction) deferred(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Permanent || e.Stage == StageMAIL && t.own {
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
	for _, rcpt := range t.to[:len(t.to)-len(t.again)] {
		if !decided[rcpt.name] {
			t.decide(rcpt, Deferred, rep, "")
		}
	}
	return err
}
