package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"postrider/internal/address"
	"postrider/internal/message"
)

// Relay hands mail to one SMTP server, over at most Config.Connections connections. It opens them
// on demand and uses each for one message after the other. It closes a connection after a fault,
// after Config.PerConnection messages, and when it is idle for too long. A Relay is safe for
// concurrent use.
type Relay struct {
	cfg    Config
	addr   string // host:port
	sender address.Address
	log    *slog.Logger
	slots  chan struct{} // one taken for each connection in use

	distrusted atomic.Pointer[time.Time] // when it mishandled PIPELINING; nil if it never did
	warned     atomic.Bool               // that it refuses what SRS makes
	most       atomic.Int32              // recipients in one transaction: maxRecipients, or fewer since it took fewer

	mu     sync.Mutex
	idle   []*conn // the one used last is at the end
	closed bool
}

var errClosed = errors.New("the relay is closed")

// Envelope is the sender and the recipients of a message from an inbox. A null reverse-path stays
// null, so that no bounce makes another bounce (RFC 5321 4.5.5), and other automatic answers get a
// null one, too. Otherwise Config.EnvelopeFrom decides.
//
// The original's reverse-path is its Return-Path. A message whose Return-Path is missing, invalid
// or cannot be rewritten goes out with the configured sender. From is never used for it: its author
// need not want bounces there, and anybody can write it.
//
// Begin uses the configured sender, too, if the relay refuses a null reverse-path, or one by SRS.
//
// With Config.Signer, Begin makes the reverse-path of each recipient from the task.
func (r *Relay) Envelope(m *message.Message, via Trace, to []string) Envelope {
	if m.Header.Answers() {
		return Envelope{To: to, NullOnly: returned(m, via.Inbox)}
	}
	configured := Envelope{From: r.sender.Text, To: to, Task: via.TaskID, Queued: via.Queued}
	given, _ := m.Header.ReturnPath()
	original, err := address.Parse(given)
	if err != nil {
		return configured
	}
	switch r.cfg.EnvelopeFrom {
	case Keep:
		return Envelope{From: original.Text, To: to}
	case SRS:
		return Envelope{From: r.rewrite(original), To: to}
	}
	return configured
}

// Sender is the reverse-path that a message with the given one goes out with in a mode. Mail in the
// forwarder's name does not keep the author's: SPF has to pass for the domain in From, or DMARC
// fails (RFC 7489 3.1.2). A null one stays null.
func (r *Relay) Sender(from string, as Mode) string {
	if r.cfg.EnvelopeFrom == Keep && as != Redirect && from != "" {
		return r.sender.Text
	}
	return from
}

// rewrite is the SRS address for a reverse-path, or the configured sender if servers might refuse
// that address: delivering the message matters more than returning a bounce.
func (r *Relay) rewrite(original address.Address) string {
	from, err := r.cfg.SRS.Forward(original.Wire)
	if err == nil {
		_, err = address.Parse(from)
	}
	if err != nil {
		r.log.Info("a sender cannot be rewritten by SRS; bounces go to the configured address",
			"sender", original.Text, "address", r.sender.Text, "reason", err)
		return r.sender.Text
	}
	return from
}

// ours reports whether a reverse-path is the configured one, or made by SRS: if the relay refuses
// it, that is not the fault of the message.
func (r *Relay) ours(from address.Address) bool {
	return from.Text == r.sender.Text || r.cfg.EnvelopeFrom == SRS && r.cfg.SRS.Owns(from.Text)
}

// maxSize is the limit of the SIZE extension (RFC 1870 4); 0 is none.
func (c *conn) maxSize() int64 {
	_, param := c.smtp.Extension("SIZE")
	n, err := strconv.ParseInt(param, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// pipelines reports that commands may be sent together on c (RFC 2920).
func (r *Relay) pipelines(c *conn) bool {
	return !r.cfg.NoPipelining && c.offers("PIPELINING") && !r.distrusts()
}

// distrustFor is longer than most passes last. After it, `watch` tries PIPELINING again, because
// the cause may have been something else, such as a restart of the relay.
const distrustFor = 10 * time.Minute

func (r *Relay) distrusts() bool {
	since := r.distrusted.Load()
	return since != nil && time.Since(*since) < distrustFor
}

// distrust turns PIPELINING off for a while.
func (r *Relay) distrust(why error) {
	if now := time.Now(); !r.distrusts() {
		r.distrusted.Store(&now)
		r.log.Info("the relay offers PIPELINING but mishandles it; commands are sent one at a time for ten minutes; "+
			"to turn it off from the start, set smtp.pipelining to false", "relay", r.addr, "reason", why)
	}
}

// Close closes the connections that are not in use; each other one is closed when its transaction
// is over.
func (r *Relay) Close() error {
	r.mu.Lock()
	conns := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	for i, c := range conns {
		c.idle.Stop()
		wg.Go(func() { errs[i] = c.quit() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the connections to the relay %s: %w", r.addr, err)
	}
	return nil
}

// acquire waits for a slot: the right to use one more connection.
func (r *Relay) acquire(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case r.slots <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("wait for a connection to the relay %s: %w", r.addr, ctx.Err())
}

func (r *Relay) release() { <-r.slots }

// take returns the connection that was used last, or nil. Only the holder of a slot takes, dials or
// gives back, so there are never more connections than slots.
func (r *Relay) take() (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	last := len(r.idle) - 1
	if last < 0 {
		return nil, nil
	}
	c := r.idle[last]
	r.idle = r.idle[:last]
	c.idle.Stop()
	return c, nil
}

func (r *Relay) giveBack(c *conn) {
	if c.dead {
		_ = c.raw.Close()
		return
	}
	r.mu.Lock()
	if !r.closed && (r.cfg.PerConnection == 0 || c.uses < r.cfg.PerConnection) {
		r.idle = append(r.idle, c)
		c.idle = time.AfterFunc(r.cfg.Timeouts.Idle, func() { r.expire(c) })
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	_ = c.quit()
}

// expire closes an idle connection. It holds a slot meanwhile: the relay counts the connection
// until it sees its end.
func (r *Relay) expire(c *conn) {
	r.slots <- struct{}{}
	defer r.release()
	r.mu.Lock()
	i := slices.Index(r.idle, c)
	if i >= 0 {
		r.idle = slices.Delete(r.idle, i, i+1)
		c.idle.Stop()
	}
	r.mu.Unlock()
	if i >= 0 {
		_ = c.quit()
	}
}
