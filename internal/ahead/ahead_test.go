package ahead

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(t *testing.T, b bench)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, open(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}))
	})
	t.Run("mariadb", func(t *testing.T) {
		test(t, open(t, db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}))
	})
	t.Run("mysql", func(t *testing.T) {
		test(t, open(t, db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).NewDatabase(t)}))
	})
}

// bench is a database with an inbox.
type bench struct {
	*db.DB
	t     *testing.T
	inbox inbox.Inbox
}

func open(t *testing.T, cfg db.Config) bench {
	t.Helper()
	d, err := db.OpenAnySchema(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	_, err = d.Migrate(t.Context())
	check(t, err)
	store := inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "postrider.key")))
	in, err := store.Add(t.Context(), inbox.Inbox{
		Address: "desk@firm.example", Host: "imap.firm.example", Port: 993, Security: "tls", Username: "desk",
		Folders: []inbox.Folder{{Name: "INBOX"}},
	}, "env:SESAME")
	check(t, err)
	return bench{d, t, in}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// register registers n messages that have to be forwarded.
func (b bench) register(n int) {
	b.t.Helper()
	page := tasks.Page{InboxID: b.inbox.ID, FolderID: b.inbox.Folders[0].ID, Epoch: 1, Cursor: uint32(n)}
	for uid := range uint32(n) {
		page.Entries = append(page.Entries, tasks.Entry{
			UID: uid + 1, Stated: tasks.Stated{Size: int64(uid)},
			Identity: tasks.Identity{Fingerprint: sha256.Sum256(fmt.Append(nil, uid))},
			Decision: &tasks.Decision{Revision: "r1", Route: "desk", Recipients: []string{"desk@firm.example"}},
		})
	}
	b.exec("UPDATE monitored_folders SET uid_validity = 1")
	_, err := sqlqueue.New(b.DB).Register(b.t.Context(), page)
	check(b.t, err)
}

func (b bench) exec(query string, args ...any) {
	b.t.Helper()
	check(b.t, b.Tx(b.t.Context(), func(tx *gorm.DB) error {
		_, err := db.Exec(tx, query, args...)
		return err
	}))
}

// in is how far a time is ahead.
func (b bench) in(query string) (in time.Duration) {
	b.t.Helper()
	check(b.t, b.View(b.t.Context(), func(tx *gorm.DB) error {
		at, err := db.Query(tx, db.Value[int64], query)
		if err != nil {
			return err
		}
		now, err := b.Now(tx)
		in = time.UnixMicro(at[0]).Sub(now)
		return err
	}))
	return in
}

// ahead is a time in microseconds.
func (b bench) ahead(d time.Duration) int64 { return time.Now().Add(d).UnixMicro() }

// TestRepair writes times of all kinds as a clock leaves them that was ahead, and as a right clock
// does.
func TestRepair(t *testing.T) {
	const year = 365 * 24 * time.Hour
	onEach(t, func(t *testing.T, b bench) {
		cfg := Config{
			Inboxes: []int64{b.inbox.ID}, Destinations: []string{"crm"}, Longest: Waits{
				Task: 2 * time.Hour, TaskLease: 10 * time.Minute, Inbox: time.Hour, ScanLease: time.Minute,
				TokenLease: 3 * time.Minute, Destination: 24 * time.Hour,
				Event: 15 * time.Minute, EventLease: 20 * time.Minute,
			},
		}
		longest := cfg.Longest
		b.register(3)
		task := func(uid int, status string, priority int) func(at int64) {
			return func(at int64) {
				b.exec("UPDATE monitored_emails_tasks SET visible_at = ?, status = ?, priority = ?, updated_at = ? "+
					"WHERE uid = ?", at, status, priority, time.UnixMicro(at).UTC(), uid)
			}
		}
		event := func(occurrence int, destination string, at int64) {
			b.exec(`INSERT INTO monitored_outbox (occurrence_id, destination, event_id, kind, task_id, inbox_id, action,
				body, status, attempt_count, visible_at, receipt, worker, error_message, created_at)
				VALUES (?, ?, ?, 'forwarded', 1, 1, '', '', 'waiting', 0, ?, '', '', '', ?)`,
				occurrence, destination, fmt.Sprint(occurrence), at, time.Now().UTC())
		}
		for _, c := range []struct {
			kind           string
			write          func(at int64)
			longest, lease time.Duration
			read           string
		}{
			{
				"tasks", task(2, "error", 0),
				longest.Task, 0, "SELECT visible_at FROM monitored_emails_tasks WHERE uid = 2",
			},
			{
				"tasks", task(3, "in_progress", 1),
				longest.Task, longest.TaskLease, "SELECT visible_at FROM monitored_emails_tasks WHERE uid = 3",
			},
			{
				"scans", func(at int64) { b.exec("UPDATE monitored_emails SET scan_holder = 'w', scan_until = ?", at) },
				longest.Inbox, longest.ScanLease, "SELECT scan_until FROM monitored_emails",
			},
			{
				"pauses of actions", func(at int64) { b.exec("UPDATE monitored_emails SET actions_at = ?", at) },
				longest.Inbox, 0, "SELECT actions_at FROM monitored_emails",
			},
			{
				"tokens", func(at int64) {
					b.exec("DELETE FROM oauth_tokens")
					b.exec("INSERT INTO oauth_tokens "+
						"(account, app, sealed, generation, login_needed, holder, held_until) "+
						"VALUES ('relay', '', '', 1, '', 'w', ?)", at)
				}, longest.TokenLease, longest.TokenLease, "SELECT held_until FROM oauth_tokens",
			},
			{
				"destinations", func(at int64) {
					b.exec("DELETE FROM monitored_destinations")
					b.exec("INSERT INTO monitored_destinations (name, target, failures, retry_at, gone, last_error) "+
						"VALUES ('crm', '', 1, ?, 0, '')", at)
				}, longest.Destination, 0, "SELECT retry_at FROM monitored_destinations",
			},
			{
				"reminders", func(at int64) {
					b.exec("DELETE FROM monitored_said")
					b.exec("INSERT INTO monitored_said (subject, since, said_at) VALUES ('relay', 1, ?)", at)
				}, 0, 0, "SELECT said_at FROM monitored_said",
			},
			{
				"events", func(at int64) { b.exec("DELETE FROM monitored_outbox"); event(1, "crm", at) },
				longest.EventLease, longest.EventLease, "SELECT visible_at FROM monitored_outbox",
			},
		} {
			for _, far := range []time.Duration{c.longest + slack/2, c.longest + 2*slack, year} {
				c.write(b.ahead(far))
				want, wantIn := "", far
				if far > c.longest+slack {
					want, wantIn = c.kind+": 1", c.lease
				}
				what, err := Repair(t.Context(), b.DB, cfg)
				if in := b.in(c.read); err != nil || what != want || in > wantIn || in < wantIn-time.Minute {
					t.Errorf("%s, %v ahead: repaired %q, %v, and now it is %v ahead; want %q and %v",
						c.kind, far, what, err, in, want, wantIn)
				}
				c.write(0)
			}
		}
		b.exec("DELETE FROM monitored_outbox")
		event(2, "imap", b.ahead(year)) // an action may be meant for then
		b.exec("UPDATE monitored_emails_tasks SET visible_at = NULL, status = 'forwarded' WHERE uid = 2")
		// Another host has longer leases: the clock was right.
		b.exec("UPDATE monitored_emails_tasks SET visible_at = ?, status = 'in_progress', updated_at = ? WHERE uid = 3",
			b.ahead(24*time.Hour), time.Now().UTC())
		if what, err := Repair(t.Context(), b.DB, cfg); err != nil || what != "" {
			t.Errorf("what a right clock wrote: repaired %q, %v; want nothing", what, err)
		}
	})
}

// TestRepairAll: many inboxes, and many kinds at once.
func TestRepairAll(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.register(3)
		cfg := Config{Longest: Waits{Task: time.Hour, TaskLease: time.Minute}}
		for id := range int64(3 * inboxesAtOnce) {
			cfg.Inboxes = append(cfg.Inboxes, b.inbox.ID+id)
		}
		b.exec("UPDATE monitored_emails_tasks SET visible_at = ?, updated_at = ?",
			b.ahead(100*time.Hour), time.Now().Add(99*time.Hour).UTC())
		b.exec("UPDATE monitored_emails SET scan_until = ?", b.ahead(100*time.Hour))
		what, err := Repair(t.Context(), b.DB, cfg)
		if want := "scans: 1, tasks: 3"; err != nil || what != want {
			t.Errorf("repaired %q, %v; want %q", what, err, want)
		}
		if what, err := Repair(t.Context(), b.DB, cfg); err != nil || what != "" {
			t.Errorf("again: repaired %q, %v; want nothing", what, err)
		}
	})
}

// TestReads: what waits, what is due and what has ended costs nothing.
func TestReads(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *testserver.SQL{
		"mariadb": testserver.MariaDB,
		"mysql":   testserver.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, db.Config{Driver: db.MySQL, DSN: server(t).NewDatabase(t)})
			b.register(3000)
			b.exec("UPDATE monitored_emails_tasks SET visible_at = NULL, status = 'forwarded' WHERE uid <= 2000")
			cfg := Config{Destinations: []string{"crm"}, Longest: Waits{Task: time.Hour, TaskLease: time.Minute}}
			for id := range int64(inboxesAtOnce) {
				cfg.Inboxes = append(cfg.Inboxes, b.inbox.ID+id)
			}
			check(t, b.View(t.Context(), func(tx *gorm.DB) error {
				before := reads(t, tx)
				found, err := anyTooFar(tx, cfg.kinds(), time.Now())
				// An inbox has two ranges, and to ask for the count reads some hundred rows.
				if n := reads(t, tx) - before; n > 2500 || found {
					t.Errorf("%d rows read, found %t; want few, and nothing", n, found)
				}
				return err
			}))
		})
	}
}

// reads is how many rows the storage engine was asked for in this session.
func reads(t *testing.T, tx *gorm.DB) (n int64) {
	t.Helper()
	type counter struct {
		name  string
		value int64
	}
	fields := func(c *counter) []any { return []any{&c.name, &c.value} }
	all, err := db.Query(tx, fields, "SHOW SESSION STATUS LIKE 'Handler_read%'")
	check(t, err)
	for _, c := range all {
		n += c.value
	}
	return n
}
