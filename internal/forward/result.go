package forward

import (
	"fmt"
	"strings"
	"time"
)

// Envelope is the sender and the recipients of a message. An empty From is the null reverse-path.
type Envelope struct {
	From string
	To   []string
	// Task is the task of the delivery, for the token in the reverse-path. From is the configured
	// sender then. 0: the reverse-path names no delivery.
	Task   int64
	Queued time.Time // when that task was queued last
	// NullOnly: a relay that refuses the null reverse-path gets no other. Otherwise a bounce of
	// what was forwarded could come back for ever.
	NullOnly bool
}

// Status is what became of one recipient.
type Status string

// Deferred is to be tried again, Refused is not. Unknown means that the final dot went out and no
// usable reply came.
const (
	Accepted Status = "accepted"
	Refused  Status = "refused"
	Deferred Status = "deferred"
	Unknown  Status = "unknown"
)

// Outcome is what the relay said about one recipient.
type Outcome struct {
	Recipient string // as in the envelope
	Status    Status
	Code      int    // of the reply; 0 when there was none
	Enhanced  string // RFC 3463, such as 5.1.1; empty when there was none
	// Reply is one printable line of at most 500 octets, without the codes: the text of the reply,
	// or the reason why there was none.
	Reply string
	Fix   string // empty when it is not a matter of configuration
}

// Said is the reply in one line, with its codes.
func (o Outcome) Said() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", o.Code, strings.TrimSpace(o.Enhanced+" "+o.Reply)))
}

// Stage is where in a session something went wrong.
type Stage string

// The stages, in their order.
const (
	StageConnect  Stage = "connect"
	StageGreeting Stage = "greeting"
	StageEHLO     Stage = "EHLO"
	StageSTARTTLS Stage = "STARTTLS"
	StageTLS      Stage = "TLS"
	StageAUTH     Stage = "AUTH"
	StageMAIL     Stage = "MAIL"
	StageRCPT     Stage = "RCPT"
	StageDATA     Stage = "DATA"
	StageContent  Stage = "content"
	StageDot      Stage = "final dot"
)

// Error says that the relay, or its configuration here, is at fault: not this message, and not a
// recipient.
type Error struct {
	Relay     string // host:port
	Stage     Stage
	Permanent bool   // until the operator does something
	Code      int    // of the reply; 0 when there was none
	Reply     string // one printable line; empty when there was none
	Fix       string // what to do about it
	Err       error  // when there was no reply
}

// Error is one line: the relay, the reason and the fix.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "relay %s: %s: ", e.Relay, e.Stage)
	if e.Err != nil {
		b.WriteString(short(e.Err.Error()))
	} else {
		fmt.Fprintf(&b, "%d %s", e.Code, e.Reply)
	}
	if e.Fix != "" {
		b.WriteString(": " + e.Fix)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }
