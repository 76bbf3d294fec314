package status

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/notify"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

// TestStatements: many inboxes take as many statements as one.
func TestStatements(t *testing.T) {
	var statements testserver.Statements
	cfg := db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
	d, err := db.Open(t.Context(), cfg, db.WithPool(statements.Pool))
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	store := inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "postrider.key")))
	sources := Sources{
		Inboxes: store, Queue: sqlqueue.New(d), Quota: limits.New(nil, limits.Config{}),
		Notices: func(context.Context) ([]notify.Waiting, error) { return nil, nil },
		Logins:  func(context.Context) (map[int64]string, error) { return nil, nil },
	}
	read := func(inboxes int) []string {
		statements.Taken()
		r, err := sources.Read(t.Context())
		check(t, err)
		if len(r.Inboxes) != inboxes {
			t.Fatalf("%d inboxes are reported, want %d", len(r.Inboxes), inboxes)
		}
		texts, _ := statements.Taken()
		return texts
	}
	var one []string
	for i := range 50 {
		in := inbox.Inbox{Address: fmt.Sprintf("desk%d@firm.example", i), Host: "imap.firm.example"}
		_, err := store.Add(t.Context(), in, "secret")
		check(t, err)
		if i == 0 {
			one = read(1)
		}
	}
	if many := read(50); len(one) > 6 || len(many) != len(one) {
		t.Errorf("one inbox takes %d statements and 50 take %d, want 6 at most, and the same:\n%q", len(one), len(many), many)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
