package inbox

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// bench is a store on a new database, with direct access to the database.
type bench struct {
	*Store
	t   *testing.T
	ctx context.Context
}

// onEach runs a test on every engine.
func onEach(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	for _, e := range []struct {
		name string
		cfg  func(t *testing.T) db.Config
	}{
		{"sqlite", func(t *testing.T) db.Config {
			return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
		}},
		{"mariadb", func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}
		}},
		{"mysql", func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).NewDatabase(t)}
		}},
	} {
		t.Run(e.name, func(t *testing.T) { test(t, newBench(t, e.cfg(t))) })
	}
}

func newBench(t *testing.T, cfg db.Config, opts ...db.Option) bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	database, err := db.OpenAnySchema(ctx, cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	if _, err := database.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	return bench{New(database, OpenSealer(filepath.Join(t.TempDir(), "postrider.key"))), t, ctx}
}

// exec changes the database directly.
func (b bench) exec(query string, args ...any) {
	b.t.Helper()
	if err := b.db.Tx(b.ctx, func(tx *gorm.DB) error { return tx.Exec(query, args...).Error }); err != nil {
		b.t.Fatal(err)
	}
}

// add adds an inbox with default settings.
func (b bench) add(address string, folders ...string) Inbox {
	b.t.Helper()
	in := Inbox{Address: address, Host: "imap.example.com"}
	for _, name := range folders {
		in.Folders = append(in.Folders, Folder{Name: name})
	}
	in, err := b.Add(b.ctx, in, "hunter2")
	if err != nil {
		b.t.Fatalf("add %s: %v", address, err)
	}
	return in
}

func (b bench) get(address string) Inbox {
	b.t.Helper()
	in, err := b.Get(b.ctx, address)
	if err != nil {
		b.t.Fatalf("get %s: %v", address, err)
	}
	return in
}

// remove removes an inbox through the queue, as the product does.
func (b bench) remove(address string) {
	b.t.Helper()
	if err := sqlqueue.New(b.db).Remove(b.ctx, "ann", b.get(address).ID); err != nil {
		b.t.Fatalf("remove %s: %v", address, err)
	}
}

func folderState(in Inbox) (state []string) {
	for _, f := range in.Folders {
		state = append(state, fmt.Sprintf("%s %v", f.Name, f.Active))
	}
	return state
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want it to say %q", err, part)
		}
	}
}

func ptr[T any](v T) *T { return &v }
