// Package message holds one mail message: its octets in a spool, its parsed header and its
// fingerprint.
//
// No content makes Parse fail. What cannot be parsed is missing from the parsed header, but stays
// in the octets, so the message can still be forwarded unchanged. The spool converts line ends to
// CRLF, because a bare CR or LF must not be sent (RFC 5321 2.3.8). It changes nothing else.
//
// The package does not know IMAP, SMTP or the database.
package message

import (
	"time"
)

// Message is one mail message. Close it to release its memory or temporary file.
type Message struct {
	Body        *Spool
	Header      Header
	Fingerprint Fingerprint
	HeaderOnly  bool // the body was not downloaded; the fingerprint covers the header only
}

// Parse reads the header and computes the fingerprint of a spooled message. The message owns body
// afterwards. Parse fails only when it cannot read the spool; then the caller still owns body.
func Parse(body *Spool) (*Message, error) {
	if err := body.Flush(); err != nil {
		return nil, err
	}
	r := body.buffered()
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

// MessageID returns the Message-ID field as it stands, trimmed; empty when there is none. It does
// not identify a message: senders reuse it or leave it blank, and copies from mailing lists share
// it.
func (m *Message) MessageID() string { return m.Header.Get("Message-Id") }

// Subject returns the decoded subject.
func (m *Message) Subject() string { return m.Header.Text("Subject") }

// From returns the address of the first author, or the text of the field when it holds no valid
// address.
func (m *Message) From() string {
	if l := m.Header.Addresses("From"); len(l) > 0 {
		return l[0].Addr
	}
	return m.Header.Text("From")
}

// Date returns the Date field in UTC; zero when it is missing or invalid.
func (m *Message) Date() time.Time { return m.Header.Date() }
