package imapsrc

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
)

// Idles reports whether Idle can wait: the server offers IDLE (RFC 2177), and has not refused it.
func (c *Conn) Idles() bool { return c.idles }

// Idle waits until the server reports a message in the open folder, until Interrupt is called or
// ctx ends, or for d, whichever comes first. It reports whether a message has arrived since the
// folder was opened. Unlike other calls it leaves the connection open when ctx ends. The server may
// be silent during the wait. A dead connection is noticed afterwards: the server does not answer
// within Config.IdleTimeout.
//
// It speaks to the server itself: the library would keep two goroutines and its buffers for a
// connection that waits, and a process may hold a thousand. For the same reason only the wait runs
// on the goroutine of the caller: a stack that has grown stays large.
func (c *Conn) Idle(ctx context.Context, d time.Duration) (arrived bool, err error) {
	if c.wire.hasArrived() {
		return true, nil
	}
	c.wire.rest(true)
	defer c.wire.rest(false)
	i := &idle{c: c}
	if err := elsewhere(func() error { return i.begin(ctx) }); err != nil || !c.idles {
		return false, err
	}
	i.wait(ctx, d)
	c.idles = i.answer == nil // a server that ends IDLE itself is polled from now on
	err = elsewhere(func() error { return i.end(ctx) })
	return c.wire.hasArrived(), err
}

// Interrupt ends the wait of Idle. It may be called while Idle runs, and when it does not.
func (c *Conn) Interrupt() {
	if r := c.waiting.Load(); r != nil {
		r.stop()
	}
}

// elsewhere runs f on another goroutine, and waits for it.
func elsewhere(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// idle is one IDLE command (RFC 2177).
type idle struct {
	c      *Conn
	tag    string      // with the space after it
	answer *imap.Error // to the command; nil before it
}

func (i *idle) begin(ctx context.Context) error {
	c := i.c
	c.idled++
	i.tag = fmt.Sprintf("I%d ", c.idled)
	return c.doAlone(ctx, "begin IDLE in", smallAnswer, func() error {
		c.dismiss()
		r := c.wire.newReader()
		if _, err := io.WriteString(c.wire, i.tag+"IDLE\r\n"); err != nil {
			return err
		}
		for i.answer == nil {
			line, err := i.hear(r)
			if err != nil || strings.HasPrefix(line, "+") {
				return err
			}
		}
		c.idles = false // it offers IDLE, and refuses it
		return nil
	})
}

// wait returns when a message has arrived, when it is stopped, or when the connection fails. The
// end of IDLE then meets that error again.
func (i *idle) wait(ctx context.Context, d time.Duration) {
	r := i.c.wire.newReader()
	i.c.waiting.Store(r)
	timer := time.AfterFunc(d, r.stop)
	defer timer.Stop()
	defer context.AfterFunc(ctx, r.stop)()
	for i.answer == nil && !i.c.wire.hasArrived() {
		if _, err := i.hear(r); err != nil {
			return
		}
	}
}

func (i *idle) end(ctx context.Context) error {
	after, cancel := context.WithoutCancel(ctx), func() {}
	if ctx.Err() != nil { // the process ends, and does not wait for a dead server
		after, cancel = context.WithTimeout(after, logoutTimeout)
	}
	defer cancel()
	return i.c.doAlone(after, "end IDLE in", smallAnswer, func() error {
		r := i.c.wire.newReader()
		if i.answer == nil { // the server has not ended IDLE itself
			if _, err := io.WriteString(i.c.wire, "DONE\r\n"); err != nil {
				return err
			}
		}
		for i.answer == nil {
			if _, err := i.hear(r); err != nil {
				return err
			}
		}
		if i.answer.Type != imap.StatusResponseTypeOK {
			return i.answer
		}
		return nil
	})
}

// hear reads one response, and notes the answer to the command.
func (i *idle) hear(r *reader) (line string, err error) {
	if line, err = r.response(); err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(line, i.tag); ok {
		if i.answer = parseAnswer(rest); i.answer == nil {
			return "", errSyntax
		}
	}
	return line, nil
}

// Poll asks the server whether a message has arrived in the open folder since it was opened (NOOP,
// RFC 3501 6.1.2), and what is in the other folders. One that it does not tell about is left out.
func (c *Conn) Poll(ctx context.Context, others []string) (arrived bool, state []Folder, err error) {
	err = c.do(ctx, "ask for new messages in", smallAnswer, func() error {
		noop := c.client.Noop()
		wanted := imap.StatusOptions{NumMessages: true, UIDNext: true, UIDValidity: true}
		lost := c.statuses(others, wanted, func(name string, data *imap.StatusData) {
			f := Folder{Name: name, UIDValidity: data.UIDValidity, UIDNext: uint32(data.UIDNext)}
			if data.NumMessages != nil {
				f.Messages = *data.NumMessages
			}
			if f.UIDValidity != 0 {
				state = append(state, f)
			}
		})
		return cmp.Or(lost, noop.Wait())
	})
	return c.wire.hasArrived(), state, err
}
