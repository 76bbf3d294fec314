package outbox

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// bench is a store in an empty database.
type bench struct {
	*Store
	t     *testing.T
	cfg   db.Config
	ahead *atomic.Int64 // nanoseconds; SQLite alone
}

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	for name, cfg := range map[string]func(t *testing.T) db.Config{
		"sqlite": func(t *testing.T) db.Config {
			return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
		},
		"mariadb": func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).Unsynced(t).NewDatabase(t)}
		},
		"mysql": func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).Unsynced(t).NewDatabase(t)}
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, newBench(t, cfg(t))) })
	}
}

func newBench(t *testing.T, cfg db.Config) bench {
	t.Helper()
	b := bench{t: t, cfg: cfg, ahead: new(atomic.Int64)}
	b.Store = b.another()
	return b
}

// another is the store as another process has it.
func (b bench) another() *Store {
	b.t.Helper()
	now := func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	d, err := db.OpenAnySchema(b.t.Context(), b.cfg, db.WithNow(now))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Migrate(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return New(d)
}

func (b bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// happen notes occurrences.
func (b bench) happen(os ...Occurrence) {
	b.t.Helper()
	b.must(b.db.Tx(b.t.Context(), func(tx *gorm.DB) error {
		now, err := b.db.Now(tx)
		if err != nil {
			return err
		}
		return Note(tx, now, os)
	}))
}

// later has everything become due: leases have run out, pauses are over.
func (b bench) later() {
	b.t.Helper()
	b.must(b.db.Tx(b.t.Context(), func(tx *gorm.DB) error {
		return tx.Exec(`UPDATE monitored_outbox SET visible_at = 1 WHERE visible_at IS NOT NULL`).Error
	}))
}

// unexpanded is how many occurrences are not expanded yet.
func unexpanded(ctx context.Context, s *Store) (n int, _ error) {
	err := s.db.View(ctx, func(tx *gorm.DB) error {
		return tx.Raw(`SELECT COUNT(*) FROM monitored_occurrences`).Scan(&n).Error
	})
	return n, err
}

// to plans an entry for each occurrence and each of the destinations.
func to(destinations ...string) Plan {
	return func(_ context.Context, os []Occurrence) (out []Planned, _ error) {
		for _, o := range os {
			for _, d := range destinations {
				p := Planned{Occurrence: o, Destination: d, EventID: EventID(o, d), Body: []byte(`{"x":1}`)}
				out = append(out, p)
			}
		}
		return out, nil
	}
}

// expand expands all occurrences.
func (b bench) expand(plan Plan) {
	b.t.Helper()
	for {
		done, err := b.Expand(b.t.Context(), 10, plan)
		b.must(err)
		if done.N == 0 {
			return
		}
	}
}

func (b bench) receive(destination string) []Claim {
	b.t.Helper()
	claims, err := b.Receive(b.t.Context(), Want{Destination: destination, Max: 100, Lease: time.Hour, Worker: "w"})
	b.must(err)
	return claims
}

func (b bench) finish(outcomes ...Outcome) (lost []Claim) {
	b.t.Helper()
	lost, err := b.Finish(b.t.Context(), outcomes...)
	b.must(err)
	return lost
}

func (b bench) all() []Entry {
	b.t.Helper()
	query := "SELECT " + entryColumns + " FROM " + tableOutbox + " ORDER BY id"
	out, err := db.Read(b.t.Context(), b.db, entryInto, query)
	b.must(err)
	return out
}

// trail are the lines about tasks and inboxes: task, inbox, worker, event and detail.
func (b bench) trail() []string {
	b.t.Helper()
	lines, err := db.Read(b.t.Context(), b.db, db.Value[string],
		`SELECT CONCAT(task_id, ' ', inbox_id, ' ', worker, ' ', event, ' ', detail)
			FROM monitored_emails_events ORDER BY id`)
	b.must(err)
	return lines
}

// reads is how many rows the connection of tx has read.
func (b bench) reads(tx *gorm.DB) (n int64) {
	b.t.Helper()
	var counts []struct{ Value int64 }
	b.must(tx.Raw(`SHOW SESSION STATUS LIKE 'Handler_read%'`).Scan(&counts).Error)
	for _, c := range counts {
		n += c.Value
	}
	return n
}
