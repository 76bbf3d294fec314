package sqlqueue

import (
	"database/sql"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"postrider/internal/db"
	"postrider/internal/tasks"
	"postrider/migrations"
)

// version1 is what each table of schema version 1 held: task 1 forwarded, 2 dead, 3 waiting, 4 skipped as a duplicate, 5
// purged after it was forwarded; the message of UID 6 was there before the start.
var version1 = []string{
	`INSERT INTO monitored_emails (email_address, email_password, description, is_active, host, port, security, allow_plaintext, username, auth,
  start, last_error, scan_holder, scan_token, scan_until, created_at, updated_at)
  VALUES ('old@example.com', 'env:PW', 'old', 1, 'imap.example.com', 993, 'tls', 0, 'old', 'auto', 'all', '', '', 0, 7,
  '2026-01-01 00:00:00', '2026-01-01 00:00:00')`,
	`INSERT INTO monitored_folders (inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid, initialized_at)
  VALUES (1, 'INBOX', 1, 1, 6, 0, 0, '2026-01-01 00:00:00')`,
	oldTask(1, "forwarded"), oldTask(2, "dead"), oldTask(3, "received"), oldTask(4, "skipped"),
	`INSERT INTO monitored_emails_deliveries (task_id, recipient, status, code, reply, attempts, delivered_at)
  VALUES (1, 'a@firm.example', 'delivered', 250, 'ok', 1, '2026-01-02 00:00:00'), (2, 'a@firm.example', 'failed', 550, 'no', 1, NULL)`,
	`INSERT INTO monitored_emails_events (task_id, at, worker, event, detail) VALUES (2, '2026-01-02 00:00:00', 'w', 'dead', '550 no')`,
	oldSeen(1, 1), oldSeen(2, 2), oldSeen(3, 3), oldSeen(4, 4), oldSeen(5, 5), oldSeen(6, 0),
}

func oldTask(id int, status string) string {
	visible, finished := "NULL", "'2026-01-02 00:00:00'"
	if status == "received" {
		visible, finished = "1", "NULL"
	}
	return fmt.Sprintf(`INSERT INTO monitored_emails_tasks (id, inbox_id, folder_id, uid_validity, uid, message_id, fingerprint, subject, sender,
  size, route, priority, status, attempt_count, lost_leases, visible_at, receipt, worker, error_message, created_at, queued_at, updated_at, finished_at)
  VALUES (%d, 1, 1, 1, %d, '<%d@x>', x'%064x', 'S', 'f@x', 9, 'desk', 0, '%s', 1, 0, %s, 'r-%d', 'w', '',
  '2026-01-01 00:00:00', '2026-01-01 00:00:00', '2026-01-02 00:00:00', %s)`, id, id, id, id, status, visible, id, finished)
}

func oldSeen(uid, task int) string {
	return fmt.Sprintf(`INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
  VALUES (1, 1, %d, 1, %d, x'%064x')`, uid, task, uid)
}

// TestUpgrade brings a registry of schema version 1 with a row in every table to the latest schema: the rows are as they
// were, and the product works with them.
func TestUpgrade(t *testing.T) {
	for _, kind := range []string{"sqlite", "mariadb", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			cfg := config(t, kind)
			before := fillVersion1(t, cfg)
			d, err := db.OpenAnySchema(t.Context(), cfg)
			if err == nil {
				_, err = d.Migrate(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			after := dump(t, raw(t, cfg), before)
			for table, want := range before {
				if !slices.EqualFunc(after[table].rows, want.rows, slices.Equal) || len(want.rows) == 0 {
					t.Errorf("%s after the upgrade: %q; want what it was: %q", table, after[table].rows, want.rows)
				}
			}
			worksWithVersion1(t, New(d))
		})
	}
}

func worksWithVersion1(t *testing.T, q *Queue) {
	t.Helper()
	got, err := q.Dispositions(t.Context(), 1, 1, 1, 9)
	var states []string
	for _, d := range got {
		states = append(states, fmt.Sprintf("%d %d %s %t", d.UID, d.TaskID, d.Status, d.Purged))
	}
	want := []string{"1 1 forwarded false", "2 2 dead false", "3 3 received false", "4 4 skipped false", "5 5 forwarded true", "6 0  false"}
	if err != nil || !slices.Equal(states, want) {
		t.Errorf("accounted for: %q, %v; want %q", states, err, want)
	}
	again := tasks.Entry{UID: 7, Route: "desk"}
	again.Fingerprint[31] = 5
	regs, err := q.Register(t.Context(), tasks.Page{
		InboxID: 1, FolderID: 1, Epoch: 1, Cursor: 7, Dedupe: tasks.DedupeInbox, Entries: []tasks.Entry{again},
	})
	if err != nil || len(regs) != 1 || regs[0].Fate != tasks.Duplicate {
		t.Errorf("the message of a purged task came again: %+v, %v; want a duplicate", regs, err)
	}
	claims, err := q.Receive(t.Context(), tasks.Want{InboxID: 1, Max: 9, Lease: time.Minute, Worker: "w", MaxLostLeases: 3})
	if err != nil || len(claims) != 1 || claims[0].ID != 3 {
		t.Fatalf("claimed %+v, %v; want the task that waited", claims, err)
	}
	if err := q.Finish(t.Context(), claims[0].Receipt, tasks.Result{Status: tasks.Forwarded}); err != nil {
		t.Errorf("finish it: %v", err)
	}
	if n, err := q.Requeue(t.Context(), "ann", 2); n != 1 || err != nil {
		t.Errorf("requeue the dead one: %d, %v; want 1", n, err)
	}
	if n, err := q.Expire(t.Context(), 1, 24*time.Hour, 9); n != 1 || err != nil {
		t.Errorf("expire what was forwarded long ago: %d, %v; want 1", n, err)
	}
	if s, err := q.Stats(t.Context(), 1); err != nil || s.ByStatus[tasks.Received] != 1 || s.ByStatus[tasks.Forwarded] != 1 {
		t.Errorf("stats: %+v, %v; want one received and one forwarded", s, err)
	}
}

// contents are the rows of a table as text, and its columns.
type contents struct {
	columns string
	rows    [][]string
}

// fillVersion1 makes schema version 1 with its rows, and returns what each table holds.
func fillVersion1(t *testing.T, cfg db.Config) map[string]contents {
	t.Helper()
	dialect, files, dir := goose.DialectMySQL, fs.FS(migrations.MySQL), "mysql"
	if cfg.Driver == db.SQLite {
		dialect, files, dir = goose.DialectSQLite3, migrations.SQLite, "sqlite"
	}
	pool := raw(t, cfg)
	files, err := fs.Sub(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(dialect, pool, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err == nil {
		_, err = provider.UpTo(t.Context(), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range version1 {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	all := contents{columns: "*"}
	return dump(t, pool, map[string]contents{
		"monitored_emails": all, "monitored_folders": all, "monitored_emails_tasks": all,
		"monitored_emails_deliveries": all, "monitored_emails_events": all, "monitored_emails_seen": all,
	})
}

// raw is the database without package db.
func raw(t *testing.T, cfg db.Config) *sql.DB {
	t.Helper()
	driver, dsn := "mysql", cfg.DSN
	if cfg.Driver == db.SQLite {
		driver, dsn = "sqlite", cfg.Path
	}
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// dump reads the given columns of the tables.
func dump(t *testing.T, pool *sql.DB, tables map[string]contents) map[string]contents {
	t.Helper()
	out := map[string]contents{}
	for table, c := range tables {
		rows, err := pool.QueryContext(t.Context(), "SELECT "+c.columns+" FROM "+table+" ORDER BY 1, 2, 3")
		if err != nil {
			t.Fatal(err)
		}
		out[table] = scanAll(t, rows)
	}
	return out
}

func scanAll(t *testing.T, rows *sql.Rows) (out contents) {
	t.Helper()
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	out.columns = strings.Join(columns, ", ")
	for rows.Next() {
		row, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(row))
		for i, v := range row {
			texts[i] = fmt.Sprint(v.Valid, v.String)
		}
		out.rows = append(out.rows, texts)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
