package demo

import (
	"bytes"
	"testing"

	"postrider/internal/message"
)

// TestSamples checks that package message reads the samples as they are described.
func TestSamples(t *testing.T) {
	for _, l := range samples() {
		t.Run(l.subject, func(t *testing.T) {
			raw := l.raw()
			if n := bytes.Count(raw, []byte("\n")); n != bytes.Count(raw, []byte("\r\n")) {
				t.Error("a line does not end with CRLF, want all to")
			}
			if i := bytes.IndexFunc(raw, func(r rune) bool { return r > '~' }); i >= 0 {
				t.Errorf("octet %d is not ASCII; want 7bit", i)
			}
			m := parse(t, raw)
			if m.MessageID() != l.id || m.Subject() != l.subject || m.From() != l.from || m.Date().IsZero() {
				t.Errorf("read: %s %q from %s of %s; want %s %q from %s",
					m.MessageID(), m.Subject(), m.From(), m.Date(), l.id, l.subject, l.from)
			}
			if got := m.Content(t.Context()).HasAttachment; got != (l.id == heldID) {
				t.Errorf("HasAttachment = %t; want true only for the scan", got)
			}
		})
	}
}

func parse(t *testing.T, raw []byte) *message.Message {
	t.Helper()
	spool := (&message.Spooler{Limit: 1 << 20, Budget: 1 << 20}).New()
	if _, err := spool.Write(raw); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(spool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}
