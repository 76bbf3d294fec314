package pass

import (
	"path/filepath"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

// TestCommitsOnSQLite: with 8 connections a message costs half a commit at most. The relay takes
// its time by the clock of the bubble, so the number does not depend on the machine.
func TestCommitsOnSQLite(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const messages = 200
		var statements testserver.Statements
		config := db.Config{Driver: "sqlite", Path: filepath.Join(t.TempDir(), "p.db")}
		d, err := db.Open(t.Context(), config, db.WithPool(statements.Pool))
		check(t, err)
		t.Cleanup(func() { _ = d.Close() })
		store, queue := inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "key"))), sqlqueue.New(d)
		in, err := store.Add(t.Context(), inbox.Inbox{
			Address: boxA, Host: "imap.firm.example", Port: 993, Security: inbox.TLS,
			Start: inbox.StartAll, Active: true,
		}, password)
		check(t, err)
		s.pass.Inboxes, s.pass.Queue, s.relay.queue = store, queue, queue
		s.pass.Config.Senders, s.pass.Config.Page, s.pass.Config.Turns = 8, messages, Turns{8, 8, anyNumber}
		s.relay.onSend = func(string) error {
			time.Sleep(time.Millisecond)
			return nil
		}
		s.put(subjects("%d", 1, messages)...)
		statements.Taken()
		s.wantNoError(s.end(s.startOver(t.Context(), in)))
		if n := len(s.relay.subjects()); n != messages {
			t.Errorf("%d messages were sent, want %d", n, messages)
		}
		_, commits := statements.Taken()
		if commits > messages/2 {
			t.Errorf("%d commits for %d messages, want %d at most", commits, messages, messages/2)
		}
	})
}
