package forward

import (
	"errors"
	"slices"
	"time"

	"postrider/internal/address"
)

var errNoUTF8 = errors.New("it needs SMTPUTF8, which the relay does not offer")

// Transaction is one message for at most a hundred recipients: one MAIL, its RCPTs and one DATA
// (RFC 5321 3.3). It has a connection of its own until Send, or Reset.
type Transaction struct {
	relay    *Relay
	from     address.Address
	task     int64     // of the delivery; 0: the reverse-path names none
	queued   time.Time // when that task was queued last
	nullOnly bool      // use no other sender if the relay refuses the null one
	to, rest []address.Address
	content  *Content
	done     func(used int) // ends the reservation of the quota

	c        *conn // nil when it is over
	said     *group
	own      bool // the sender is ours
	accepted []address.Address
	again    []address.Address // of to, for another transaction
	outcomes []Outcome
	named    int   // RCPTs sent on one connection, for the quota
	restart  bool  // begin again on a new connection
	suspect  error // an *Error: why it goes on without PIPELINING; nil while it need not
}

// Accepted are the recipients that the relay has taken, as they are in the envelope: who gets the
// content with Send. There are none when the transaction is over.
func (t *Transaction) Accepted() []string {
	if t.c == nil {
		return nil
	}
	return names(t.accepted)
}

// Outcomes has one entry for each recipient that is decided about. Nothing went out to the others.
func (t *Transaction) Outcomes() []Outcome { return slices.Clone(t.outcomes) }

// Rest are the recipients that this transaction leaves to the next, because there are more than a
// hundred, or than the relay took in this one, or than the quota granted: Begin again for them.
// When the connection ended between the 354 and the content, they are those that were accepted; the
// next transaction goes without PIPELINING then, and does not end like that.
func (t *Transaction) Rest() []string { return names(slices.Concat(t.again, t.rest)) }

// Content is what Send sends: the content that Begin was given, or what goes out instead to a relay
// that cannot take that one.
func (t *Transaction) Content() *Content { return t.content }

// Reset takes the transaction back. The connection is free for the next message, unless the relay
// waits for the content already: then it is closed. It does nothing when the transaction is over.
func (t *Transaction) Reset() {
	if t.c != nil {
		_, _ = t.c.reset() // when that fails, the connection is not used again
		t.end()
	}
}

// end releases the connection, if there is one, the slot and the reservation.
func (t *Transaction) end() {
	if t.c != nil {
		t.relay.giveBack(t.c)
		t.c = nil
	}
	t.relay.release()
	t.done(t.named)
}

func names(rcpts []address.Address) []string {
	out := make([]string, len(rcpts))
	for i, r := range rcpts {
		out[i] = r.Text
	}
	return out
}
