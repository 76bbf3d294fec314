package imapsrc

import (
	"context"
	"errors"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// Idles reports whether Idle can wait: the server offers IDLE (RFC 2177), and has not refused it.
func (c *Conn) Idles() bool { return c.idles }

// Idle waits until the server reports a message in the open folder, until stop has an element or is
// closed, until ctx ends, or for d, whichever comes first. It reports whether a message has arrived
// since the folder was opened. Unlike other calls it leaves the connection open when ctx ends.
// Nothing is wrong with a server that is silent meanwhile: a dead connection shows afterwards, when
// the server does not answer within Config.IdleTimeout.
func (c *Conn) Idle(ctx context.Context, d time.Duration, stop <-chan struct{}) (arrived bool, err error) {
	if c.hasArrived() {
		return true, nil
	}
	c.wire.rest(true)
	defer c.wire.rest(false)
	var cmd *imapclient.IdleCommand
	err = c.do(ctx, "begin IDLE in", smallAnswer, func() (err error) {
		cmd, err = c.client.Idle()
		if no := new(imap.Error); errors.As(err, &no) {
			c.idles, err = false, nil // it offers what it does not do
		}
		return err
	})
	if err != nil || !c.idles {
		return false, err
	}
	c.idle(ctx, d, stop)
	after, cancel := context.WithoutCancel(ctx), func() {}
	if ctx.Err() != nil { // the process ends, and does not wait for a dead server
		after, cancel = context.WithTimeout(after, logoutTimeout)
	}
	defer cancel()
	err = c.do(after, "end IDLE in", smallAnswer, func() error {
		return errors.Join(cmd.Close(), cmd.Wait())
	})
	return c.hasArrived(), err
}

// idle waits while IDLE runs.
func (c *Conn) idle(ctx context.Context, d time.Duration, stop <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.arrived:
		c.noteArrival(nil)
	case <-timer.C:
	case <-stop:
	case <-ctx.Done():
	case <-c.client.Closed():
	}
}

// noteArrival notes that the server told how many messages are in the open folder. It is called
// while the library reads.
func (c *Conn) noteArrival(data *imapclient.UnilateralDataMailbox) {
	if data != nil && data.NumMessages == nil {
		return
	}
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// hasArrived reports whether a message has arrived since the folder was opened.
func (c *Conn) hasArrived() bool { return len(c.arrived) > 0 }

// forgetArrivals is for a folder that is about to be opened: the answer says what is in it.
func (c *Conn) forgetArrivals() {
	select {
	case <-c.arrived:
	default:
	}
}

// Poll asks the server whether a message has arrived in the open folder since it was opened (NOOP,
// RFC 3501 6.1.2), and what is in the other folders (STATUS, RFC 3501 6.3.10). A folder that the
// server does not tell about is not among them.
func (c *Conn) Poll(ctx context.Context, others []string) (arrived bool, state []Folder, err error) {
	err = c.do(ctx, "ask for new messages in", smallAnswer, func() error {
		noop := c.client.Noop()
		var asked []*imapclient.StatusCommand
		for _, name := range others {
			asked = append(asked, c.client.Status(name, &imap.StatusOptions{NumMessages: true, UIDNext: true, UIDValidity: true}))
		}
		lost := noop.Wait()
		for i, cmd := range asked {
			data, err := cmd.Wait()
			switch no := new(imap.Error); {
			case err == nil:
				state = append(state, folderOf(others[i], data))
			case !errors.As(err, &no):
				lost = err
			}
		}
		return lost
	})
	return c.hasArrived(), state, err
}

func folderOf(name string, data *imap.StatusData) Folder {
	f := Folder{Name: name, UIDValidity: data.UIDValidity, UIDNext: uint32(data.UIDNext)}
	if data.NumMessages != nil {
		f.Messages = *data.NumMessages
	}
	return f
}
