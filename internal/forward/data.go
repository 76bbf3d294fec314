package forward

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Send transmits the content and returns the Outcomes; see also Rest. The error is an *Error if the
// relay is at fault, else it comes from the spool. If no recipient is accepted, or the transaction
// is over, Send does nothing.
//
// It takes no context: once begun it is finished, within Config.Timeouts.
func (t *Transaction) Send() ([]Outcome, error) {
	if t.c == nil {
		return t.Outcomes(), nil
	}
	defer t.end()
	err := t.deferred(t.data())
	return t.Outcomes(), err
}

// invite reads the reply to DATA. After 354 nothing may follow but the content, or the end of the
// connection.
func (t *Transaction) invite() error {
	rep, err := t.hear()
	if err != nil {
		return err
	}
	if rep.code != 354 {
		err = t.answered(StageDATA, rep, t.accepted)
		t.accepted = nil
		if err == nil && !t.c.dead {
			err = t.void(rep)
		}
		return err
	}
	if t.c.ahead() {
		return t.lost(StageDATA, errMore)
	}
	if t.suspect != nil {
		t.relay.distrust(t.suspect)
	}
	t.c.dead = true // until the relay has answered the dot
	return nil
}

// stillInvited leaves all recipients to another transaction if the relay has sent something, or
// closed the connection, since its 354: in between, the caller recorded who may get the content. At
// this point it is certain that no content was sent; once it is on its way, the loss of the
// connection leaves the outcome unknown.
func (t *Transaction) stillInvited() error {
	const patience = time.Second
	t.c.deadline(patience)
	if quiet(t.c.raw) {
		return nil
	}
	rep, err := readReply(t.c.smtp.Text.R)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // something of TLS, perhaps, but no reply
		return nil
	case err == nil && rep.code == 421:
		return t.answered(StageDATA, rep, t.accepted)
	case err == nil:
		err = errMore
	}
	t.relay.distrust(t.lost(StageDATA, err))
	t.again, t.accepted = append(t.again, t.accepted...), nil
	return nil
}

func (t *Transaction) data() error {
	var err error
	if t.said.complete() {
		err = t.stillInvited()
	} else {
		err = t.invite()
	}
	if err != nil || len(t.accepted) == 0 {
		return err
	}
	dots := &dots{w: t.c.w}
	if err := t.write(dots); err != nil {
		if lost, ok := errors.AsType[*lostError](err); ok {
			return t.cutOff(lost)
		}
		return err
	}
	t.c.deadline(t.relay.cfg.Timeouts.Dot)
	if err := dots.end(); err != nil {
		return t.cutOff(&lostError{err}) // an unfinished write: the dot did not go out
	}
	return t.afterDot()
}

// write writes all content, but not the dot. A *lostError is the connection's, any other is the
// spool's.
func (t *Transaction) write(to io.Writer) error {
	if t.c.block == nil {
		t.c.block = make([]byte, 32<<10)
	}
	src, left := t.content.Reader(), t.content.Size()
	for {
		n, err := src.Read(t.c.block)
		t.c.deadline(t.relay.cfg.Timeouts.Block)
		if _, err := to.Write(t.c.block[:n]); err != nil {
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
	return nil
}

type lostError struct{ error }

// cutOff handles the loss of the connection during the content or its dot. This message may have
// caused it, so its recipients are deferred. A relay that stops reading may say why before it
// closes: then its reply decides.
func (t *Transaction) cutOff(lost *lostError) error {
	const patience = time.Second
	t.c.deadline(patience)
	if rep, err := readReply(t.c.smtp.Text.R); err == nil && rep.code >= 400 {
		return t.answered(StageContent, rep, t.accepted)
	}
	t.decide(t.accepted, Deferred, reply{text: "the connection was lost in the content: " + lost.Error()}, "")
	return nil
}

// afterDot reads the reply that decides. Without one the outcome is unknown (RFC 1047).
func (t *Transaction) afterDot() error {
	rep, err := readReply(t.c.smtp.Text.R)
	if err == nil && rep.code < 400 && !rep.ok() {
		// Against the rules: neither accepted nor refused.
		err = fmt.Errorf("the relay answered %d %s", rep.code, rep.text)
	}
	if err != nil {
		t.decide(t.accepted, Unknown, reply{text: "no usable reply to the final dot: " + err.Error()}, "")
		return nil
	}
	t.c.dead, t.c.took = t.c.ahead(), t.c.took || rep.ok()
	return t.answered(StageDot, rep, t.accepted)
}
