package sqlqueue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks/taskstest"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

func TestQueue(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) { taskstest.Run(t, r.fixture) })
}

// registry is a fresh and migrated database.
type registry struct {
	*db.DB
	cfg   db.Config
	ahead *atomic.Int64 // how far SQLite's clock is ahead of the host's
}

func (r registry) now() db.Option {
	return db.WithNow(func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) })
}

// config gives a database of that kind to a test. There are sqlite, mariadb and mysql.
func config(t testing.TB, kind string) db.Config {
	switch kind {
	case "mariadb":
		return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).Unsynced(t).NewDatabase(t)}
	case "mysql":
		return db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).Unsynced(t).NewDatabase(t)}
	}
	return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "postrider.db")}
}

func onEach(t *testing.T, test func(t *testing.T, r registry)) {
	on(t, test, "sqlite", "mariadb", "mysql")
}

func onServers(t *testing.T, test func(t *testing.T, r registry)) {
	on(t, test, "mariadb", "mysql")
}

// on runs a test on these kinds, at the same time: each kind has a server of its own.
func on(t *testing.T, test func(t *testing.T, r registry), kinds ...string) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newRegistry(t, kind))
		})
	}
}

func newRegistry(t testing.TB, kind string) registry {
	t.Helper()
	return openRegistry(t, config(t, kind))
}

func openRegistry(t testing.TB, cfg db.Config) registry {
	t.Helper()
	r := registry{cfg: cfg, ahead: &atomic.Int64{}}
	d, err := db.OpenAnySchema(t.Context(), r.cfg, r.now())
	if err == nil {
		_, err = d.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	r.DB = d
	return r
}

// again opens the database once more, as another process would.
func (r registry) again(t testing.TB, opts ...db.Option) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), r.cfg, append(opts, r.now())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// small is a queue whose pages are so small that a few messages make several.
func small(d *db.DB) *Queue {
	q := New(d)
	q.page = 2
	return q
}

func (r registry) fixture(t *testing.T) taskstest.Fixture {
	return taskstest.Fixture{
		Queue: small(r.DB), Other: small(r.again(t)),
		Inbox: func(t *testing.T, address string) int64 { return r.inbox(t, address) },
		Folder: func(t *testing.T, inboxID int64, name string, epoch int64) int64 {
			return r.folder(t, inboxID, name, epoch)
		},
		SetEpoch: func(t *testing.T, folderID, epoch int64) {
			r.exec(t,
				`UPDATE monitored_folders SET uid_validity = ?, last_seen_uid = 0, start_uid = 0, baseline_uid = 0 `+
					`WHERE id = ?`,
				epoch, folderID)
		},
		Cursor: func(t *testing.T, folderID int64) (uint32, uint32) {
			var row struct{ LastSeen, Baseline uint32 }
			r.query(t, &row,
				`SELECT last_seen_uid AS last_seen, baseline_uid AS baseline FROM monitored_folders WHERE id = ?`,
				folderID)
			return row.LastSeen, row.Baseline
		},
		Age: func(t *testing.T, d time.Duration) { r.age(t, d) },
		TakeOver: func(t *testing.T, inboxID int64) (token int64) {
			r.exec(t, `UPDATE monitored_emails SET scan_token = scan_token + 1 WHERE id = ?`, inboxID)
			r.query(t, &token, `SELECT scan_token FROM monitored_emails WHERE id = ?`, inboxID)
			return token
		},
		Enable: func(t *testing.T, inboxID int64) {
			r.exec(t, `UPDATE monitored_emails SET is_active = 1 WHERE id = ?`, inboxID)
		},
	}
}

const (
	testInbox = `
INSERT INTO monitored_emails (email_address, email_password, description, is_active, host, port, security,
  allow_plaintext, username, auth, start, last_error, scan_holder, scan_token, scan_until, created_at, updated_at)
VALUES (?, '', '', 1, 'imap.example.com', 993, 'tls', 0, '', 'auto', 'all', '', '', 0, 0, ?, ?)`

	testFolder = `
INSERT INTO monitored_folders (inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid,
  initialized_at)
VALUES (?, ?, 1, ?, 0, 0, 0, ?)`
)

func (r registry) inbox(t testing.TB, address string) (id int64) {
	t.Helper()
	now := time.Now().UTC()
	r.exec(t, testInbox, address, now, now)
	r.query(t, &id, `SELECT id FROM monitored_emails WHERE email_address = ?`, address)
	return id
}

func (r registry) folder(t testing.TB, inboxID int64, name string, epoch int64) (id int64) {
	t.Helper()
	r.exec(t, testFolder, inboxID, name, epoch, time.Now().UTC())
	r.query(t, &id, `SELECT id FROM monitored_folders WHERE inbox_id = ? AND name = ?`, inboxID, name)
	return id
}

// age lets time pass. On SQLite the clock is the host's, and is set forward. On a server all times
// of tasks and of the audit trail are moved into the past.
func (r registry) age(t testing.TB, d time.Duration) {
	t.Helper()
	if r.Dialect() == db.SQLite {
		r.ahead.Add(int64(d))
		return
	}
	earlier := strings.NewReplacer("[", "(", "]", fmt.Sprintf(" - INTERVAL %d MICROSECOND)", d.Microseconds()))
	r.tx(t, func(tx *gorm.DB) error {
		return errors.Join(
			tx.Exec(earlier.Replace(`UPDATE monitored_emails_tasks
SET created_at = [created_at], queued_at = [queued_at], finished_at = [finished_at], visible_at = visible_at - ?`),
				d.Microseconds()).Error,
			tx.Exec(earlier.Replace(`UPDATE monitored_emails_headers SET created_at = [created_at]`)).Error,
			tx.Exec(earlier.Replace(`UPDATE monitored_emails_deliveries SET delivered_at = [delivered_at]`)).Error,
			tx.Exec(earlier.Replace(
				`UPDATE monitored_emails_arrivals SET at = [at], reported_at = [reported_at]`)).Error,
			tx.Exec(earlier.Replace(`UPDATE monitored_emails_events SET at = [at]`)).Error)
	})
}

func (r registry) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	r.tx(t, func(tx *gorm.DB) error { return tx.Exec(sql, args...).Error })
}

func (r registry) query(t testing.TB, dest any, sql string, args ...any) {
	t.Helper()
	err := r.View(t.Context(), func(tx *gorm.DB) error { return tx.Raw(sql, args...).Scan(dest).Error })
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r registry) tx(t testing.TB, f func(tx *gorm.DB) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Tx(ctx, f); err != nil {
		t.Fatal(err)
	}
}
