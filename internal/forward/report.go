package forward

import (
	"errors"
	"strings"
	"time"

	"postrider/internal/message"
)

// Report is a message from postrider itself to the operator.
type Report struct {
	To      string // one address
	Subject string
	Text    string // lines end in \n
	At      time.Time
	About   []string // what it reports: the same to the same address has the same Message-ID
}

// Report makes the message of a report. It asks for no automatic answer (RFC 3834 5), and Looped
// recognizes it: no postrider forwards it.
func (c *Composer) Report(r Report) (*Content, error) {
	if c.from.Address == "" {
		return nil, errors.New("compose a report: its sender needs an ASCII address: set forward.from")
	}
	var b strings.Builder
	b.WriteString(traceField + ": " + ownReport + "\r\n")
	b.WriteString(field("From", phrase(c.via())+" <"+c.from.Address+">"))
	b.WriteString(field("To", mailbox(message.Address{Addr: r.To})))
	b.WriteString(field("Subject", words(cutTo(r.Subject, maxWords))))
	b.WriteString(field("Date", date(r.At)))
	b.WriteString(field("Message-ID", c.messageID("report", r.To, r.About)))
	b.WriteString(field("Auto-Submitted", "auto-generated"))
	b.WriteString(field("MIME-Version", "1.0"))
	return c.signed(&Content{Mode: Notice, parts: []piece{textPiece(b.String() + notePart(r.Text))}})
}
