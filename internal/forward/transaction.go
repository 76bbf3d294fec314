package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

var errNoUTF8 = errors.New("it needs SMTPUTF8, which the relay does not offer")

// transaction is one MAIL, its RCPTs and one DATA (RFC 5321 3.3).
type transaction struct {
	relay     *Relay
	from      path
	nullOnly  bool // no other sender, should the relay refuse the null one
	to        []path
	content   *Content
	beforeDot func(ctx context.Context, accepted []string) error

	c        *conn
	own      bool   // the sender is ours
	accepted []path // at RCPT, and without an outcome yet
	again    []path // for another transaction
	done     []Outcome
	named    int         // how many recipients the relay was told, on any one connection
	stale    bool        // the connection ended before any content went out
	stop     func() bool // keeps the context from ending the connection; false when it has already
	onWire   bool        // the relay has taken MAIL, and the context does not count any more
}

// runOn runs t on c, and gives c back.
func (t *transaction) runOn(ctx context.Context, c *conn) error {
	t.c = c
	c.uses++
	t.stop = context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	err := t.run(ctx)
	cancelled := !t.onWire && !t.stop()
	if e, ok := errors.AsType[*Error](err); ok {
		switch {
		case cancelled:
			err = fmt.Errorf("send to the relay %s: %w", t.relay.addr, ctx.Err())
		case !e.Permanent && (e.Stage != StageMAIL || !t.own):
			t.deferRest(e)
		}
	}
	if cancelled {
		c.dead = true
	}
	t.relay.giveBack(c)
	return err
}

func (t *transaction) run(ctx context.Context) error {
	if err := t.choose(); err != nil {
		return err
	}
	params, ok, err := t.fits()
	if !ok || err != nil {
		return err
	}
	if ok, err := t.mail(params); !ok || err != nil {
		return err
	}
	if t.onWire = t.stop(); !t.onWire {
		return ctx.Err()
	}
	ctx = context.WithoutCancel(ctx)
	if err := t.rcpts(); err != nil {
		return err
	}
	if len(t.accepted) == 0 {
		t.c.reset()
		return nil
	}
	return t.data(ctx)
}

// mail reports whether the relay takes the sender; if not, it has dealt with it.
func (t *transaction) mail(params string) (bool, error) {
	rep, err := t.mailFrom(t.from, params)
	if err == nil && t.from.wire == "" && !t.nullOnly && rep.hasCode("5") {
		// Some relays take no null reverse-path from who logs in. A bounce that is sent on with a sender beats one
		// that is lost.
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

func (t *transaction) mailFrom(from path, params string) (reply, error) {
	t.own = t.relay.ours(from)
	return t.c.command("MAIL FROM:<%s>%s", from.wire, params)
}

// rcpts asks for each recipient. From here on, what ends the connection is put down to the message, too (see the
// package comment).
func (t *transaction) rcpts() error {
	named := 0
	for i, rcpt := range t.to {
		if rcpt.utf8 && !t.c.offers("SMTPUTF8") {
			t.decide(rcpt, Refused, reply{text: errNoUTF8.Error()}, "")
			continue
		}
		named++
		t.named = max(t.named, named)
		rep, err := t.c.command("RCPT TO:<%s>", rcpt.wire)
		if err != nil {
			return t.lost(StageRCPT, err)
		}
		if rep.ok() {
			t.accepted = append(t.accepted, rcpt)
			continue
		}
		v, mend := t.classify(StageRCPT, rep)
		if v == tooMany && len(t.accepted) > 0 {
			t.again = t.to[i:]
			return nil
		}
		if err := t.decideAll(t.to[i:i+1], StageRCPT, v, rep, mend); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) data(ctx context.Context) error {
	rep, err := t.c.command("DATA")
	if err != nil {
		return t.lost(StageDATA, err)
	}
	if rep.code != 354 {
		defer t.c.reset()
		return t.answered(StageDATA, rep, t.accepted)
	}
	// From here on the text connection must not be used for anything but the content: it would end it with a dot by
	// itself. So the connection is dead until the dot was answered.
	t.c.dead = true
	dot := t.c.smtp.Text.DotWriter()
	if err := t.write(dot); err != nil {
		if lost, ok := errors.AsType[*lostError](err); ok {
			return t.cutOff(lost)
		}
		return err
	}
	if err := t.beforeDot(ctx, names(t.accepted)); err != nil {
		return err
	}
	t.c.deadline(t.relay.cfg.Timeouts.Dot)
	if err := dot.Close(); err != nil {
		return t.cutOff(&lostError{err}) // an unfinished write: the dot did not go out
	}
	return t.afterDot()
}

// afterDot reads the reply that decides. Without one nobody knows whether the message was taken (RFC 1047).
func (t *transaction) afterDot() error {
	rep, err := readReply(t.c.smtp.Text.R)
	if err == nil && rep.code < 400 && !rep.ok() {
		err = fmt.Errorf("the relay answered %d %s", rep.code, rep.text) // against the rules: neither taken nor refused
	}
	if err != nil {
		for _, rcpt := range t.accepted {
			t.decide(rcpt, Unknown, reply{text: "no usable reply to the final dot: " + err.Error()}, "")
		}
		return nil
	}
	t.c.dead = false
	return t.answered(StageDot, rep, t.accepted)
}

// write writes all content and flushes it, so that only the dot is left. A *lostError is the connection's, any other
// is of the spool.
func (t *transaction) write(dot io.Writer) error {
	if t.c.block == nil {
		t.c.block = make([]byte, 32<<10)
	}
	src, left := t.content.Reader(), t.content.Size()
	for {
		n, err := src.Read(t.c.block)
		t.c.deadline(t.relay.cfg.Timeouts.Block)
		if _, err := dot.Write(t.c.block[:n]); err != nil {
			return &lostError{err}
		}
		left -= int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read a spooled message: %w", err)
		}
	}
	if left != 0 {
		return fmt.Errorf("read a spooled message: %d octets are missing", left)
	}
	if err := t.c.smtp.Text.W.Flush(); err != nil {
		return &lostError{err}
	}
	return nil
}

type lostError struct{ error }

// cutOff is the end of the connection while the content went out, or its dot. Something about this very message may
// have caused it, so that its recipients are deferred. A relay that has no wish to read on says why and closes: what
// it said is used.
func (t *transaction) cutOff(lost *lostError) error {
	const patience = time.Second
	t.c.deadline(patience)
	if rep, err := readReply(t.c.smtp.Text.R); err == nil && rep.code >= 400 {
		return t.answered(StageContent, rep, t.accepted)
	}
	for _, rcpt := range t.accepted {
		t.decide(rcpt, Deferred, reply{text: "the connection was lost in the content: " + lost.Error()}, "")
	}
	return nil
}
