// Package message holds one mail message: its octets, spooled, and what its header says.
//
// A message is octets first. No content makes Parse fail: what cannot be understood is left out of the parsed header
// and stays in the octets, so that a message no parser likes can still be forwarded as it is. Line ends are made
// canonical (CRLF) while spooling, since a bare CR or LF must not go out (RFC 5321 2.3.8); nothing else is ever
// changed.
//
// The package knows neither IMAP, SMTP nor the database.
package message

import (
	"bufio"
	"time"
)

// Message is one mail message. Close it to give its memory or temporary file back.
type Message struct {
	Body        *Spool
	Header      Header
	Fingerprint Fingerprint
	HeaderOnly  bool // the body was not downloaded; the fingerprint is of the header alone, then
}

// Parse reads the header and the fingerprint of what was spooled. It takes over body, and fails only when the spool
// cannot be read back.
func Parse(body *Spool) (*Message, error) {
	if err := body.Flush(); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(body.Reader(), 32<<10)
	fields, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	fp, err := fingerprint(fields, r)
	if err != nil {
		return nil, err
	}
	return &Message{Body: body, Header: newHeader(fields), Fingerprint: fp}, nil
}

// Close releases the spool.
func (m *Message) Close() error { return m.Body.Close() }

// MessageID is the Message-ID as written, without white space around it; empty when there is none. It never identifies a
// message by itself: they are reused, blank, or shared by list copies.
func (m *Message) MessageID() string { return m.Header.Get("Message-Id") }

// Subject is the decoded subject.
func (m *Message) Subject() string { return m.Header.Text("Subject") }

// From is the first author's address, or what stands in the field when no address can be read from it.
func (m *Message) From() string {
	if l := m.Header.Addresses("From"); len(l) > 0 {
		return l[0].Addr
	}
	return m.Header.Text("From")
}

// Date is the Date field in UTC; zero when there is none or it cannot be read.
func (m *Message) Date() time.Time { return m.Header.Date() }
