package testserver

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// Fill puts n messages into the user's INBOX, which nobody may have open, as files of its Maildir:
// 100,000 take seconds, where an IMAP server takes longer for each the more it has.
func (s *IMAP) Fill(t testing.TB, user string, n int, message func(i int) []byte) {
	t.Helper()
	box := filepath.Join(s.dir, "mail", user)
	for _, sub := range []string{"", "cur", "new", "tmp"} {
		if err := s.mkdir(filepath.Join(box, sub)); err != nil {
			t.Fatalf("fill the INBOX of %s: %v", user, err)
		}
	}
	now := time.Now().Unix()
	for i := range n {
		msg := message(i)
		text := bytes.ReplaceAll(msg, []byte("\r\n"), []byte("\n"))
		// With both sizes in the name Dovecot need not count octets.
		name := fmt.Sprintf("%d.M%06dP1.fill,S=%d,W=%d", now, i, len(text), len(msg))
		if err := s.writeFile(filepath.Join(box, "new", name), text); err != nil {
			t.Fatalf("fill the INBOX of %s: %v", user, err)
		}
	}
}
