package testserver

import (
	"fmt"
	"testing"

	"github.com/emersion/go-imap/v2"
)

// TestDovecotFill: what was put there is there, in order and with its size.
func TestDovecotFill(t *testing.T) {
	s := Dovecot(t)
	s.AddUser(t, "ann", "x")
	msgs := make([][]byte, 3)
	for i := range msgs {
		msgs[i] = Mail("a@example.com", "ann@example.com", fmt.Sprintf("no. %d", i), "text\n.\n")
	}
	s.Fill(t, "ann", len(msgs), func(i int) []byte { return msgs[i] })
	c, err := dialDovecot(t, s, "none", "ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	if selected, err := c.Select("INBOX", nil).Wait(); err != nil || selected.NumMessages != 3 {
		t.Fatalf("Select = %+v, %v; want 3 messages", selected, err)
	}
	for i, msg := range msgs {
		body := &imap.FetchItemBodySection{Peek: true}
		opts := &imap.FetchOptions{RFC822Size: true, BodySection: []*imap.FetchItemBodySection{body}}
		fetched, err := c.Fetch(imap.UIDSetNum(imap.UID(i+1)), opts).Collect()
		if err != nil || len(fetched) != 1 {
			t.Fatalf("fetch UID %d = %d messages, %v; want one", i+1, len(fetched), err)
		}
		got := fetched[0]
		data := got.FindBodySection(body)
		if string(data) != string(msg) || got.RFC822Size != int64(len(msg)) {
			t.Errorf("UID %d is %q of %d octets; want %q of %d", i+1, data, got.RFC822Size, msg, len(msg))
		}
	}
}
