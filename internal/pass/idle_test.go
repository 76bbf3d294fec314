package pass

import (
	"testing"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

// TestIdlePass counts what a pass asks of the database for an inbox with nothing new.
func TestIdlePass(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Junk")
	check(t, r.imap.CreateFolder(address, "Junk"))
	r.put("INBOX", mails(9)...)
	r.want(r.run(), Counters{Registered: 9, Forwarded: 9})

	var statements testserver.Statements
	d, err := db.Open(t.Context(), r.db, db.WithNow(r.clock.Now), db.WithPool(statements.Pool))
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	r.Inboxes, r.Queue = inbox.New(d, inbox.OpenSealer("")), sqlqueue.New(d)
	r.run() // the newest messages are looked at again
	statements.Taken()
	r.want(r.run(), Counters{})
	texts, commits := statements.Taken()
	t.Logf("%d statements, %d commits: %q", len(texts), commits, texts)
	if commits != 2 || len(texts) > 10 {
		t.Errorf("an idle pass over one inbox with two folders takes %d commits and %d statements, want 2, and 10 at most:\n%q",
			commits, len(texts), texts)
	}
}
