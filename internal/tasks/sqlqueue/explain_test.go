package sqlqueue

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// crowded is a registry of one inbox with more than finished tasks that have ended and some that are due, all in the ledger.
func crowded(t testing.TB, r registry, finished, due int) (inboxID, folderID int64) {
	t.Helper()
	inboxID = r.inbox(t, "crowded@example.com")
	folderID = r.folder(t, inboxID, "INBOX", 1)
	const columns = `inbox_id, folder_id, uid_validity, message_id, subject, sender, email_date, size, route, priority,
		attempt_count, lost_leases, receipt, worker, error_message, created_at, queued_at, updated_at`
	seed := entries(1, 1)
	if _, err := New(r.DB).Register(t.Context(), tasks.Page{InboxID: inboxID, FolderID: folderID, Epoch: 1, Cursor: 1, Entries: seed}); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `UPDATE monitored_emails_tasks SET status = 'forwarded', visible_at = NULL, finished_at = updated_at`)
	for n := 1; n < finished; n *= 2 {
		r.exec(t, fmt.Sprintf(`INSERT INTO monitored_emails_tasks (%s, uid, fingerprint, status, finished_at)
			SELECT %s, uid + %d, UNHEX(SHA2(uid + %d, 256)), status, finished_at FROM monitored_emails_tasks`, columns, columns, n, n))
	}
	r.exec(t, `INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
		SELECT folder_id, uid_validity, uid, inbox_id, id, fingerprint FROM monitored_emails_tasks WHERE uid > 1`)
	if _, err := New(r.DB).Register(t.Context(), tasks.Page{
		InboxID: inboxID, FolderID: folderID, Epoch: 1, Cursor: 1, Entries: entries(1_000_000, due),
	}); err != nil {
		t.Fatal(err)
	}
	return inboxID, folderID
}

// entries are n messages of different content from a UID on.
func entries(from uint32, n int) []tasks.Entry {
	out := make([]tasks.Entry, n)
	for i := range out {
		uid := from + uint32(i)
		out[i] = tasks.Entry{UID: uid, Fingerprint: sha256.Sum256(fmt.Append(nil, uid)), Outline: sha256.Sum256(fmt.Append(nil, "o", uid)), Route: "desk"}
	}
	return out
}

// step is what EXPLAIN says of one table.
type step struct {
	Table, Type, Key, Extra string
	Rows                    int64
}

func (r registry) explain(t testing.TB, sql string, args ...any) map[string]step {
	t.Helper()
	var steps []step
	r.query(t, &steps, "EXPLAIN FORMAT=TRADITIONAL "+sql, args...)
	byTable := map[string]step{}
	for _, s := range steps {
		byTable[s.Table] = s
	}
	return byTable
}

// keysAndUIDs are what a page is looked up by.
func keysAndUIDs(n int) ([][]byte, []uint32) {
	var keys [][]byte
	var uids []uint32
	for _, e := range entries(1_000_000, n) {
		keys, uids = append(keys, e.Fingerprint[:], e.Outline[:]), append(uids, e.UID)
	}
	return keys, uids
}

// TestIndexes asks the server how it would run what is run all the time, beside 20,000 tasks that have ended.
func TestIndexes(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		inboxID, folderID := crowded(t, r, 20_000, 300)
		now := time.Now().Add(time.Hour).UnixMicro()
		keys, uids := keysAndUIDs(100)
		for _, when := range []string{"as filled", "analyzed"} {
			if when == "analyzed" {
				r.exec(t, "ANALYZE TABLE monitored_emails_tasks, monitored_emails_seen")
			}
			for _, c := range []struct {
				name, table, typ, key, sql string
				args                       []any
				rows                       int64 // at most
			}{
				{"claim", "monitored_emails_tasks", "range", "monitored_emails_tasks_claim", New(r.DB).lockFree(sqlDue), []any{inboxID, 0, now, []int64{0, 1}, 8}, 1000},
				{"ledger by UID", "monitored_emails_seen", "range", "PRIMARY", sqlSeenByUID, []any{folderID, 1, uids}, 1000},
				{"ledger by content", "s", "range", "monitored_emails_seen_fingerprint", sqlSeenByFingerprint, []any{keys}, 1000},
				{"its tasks", "t", "eq_ref", "PRIMARY", sqlSeenByFingerprint, []any{keys}, 1},
				{"ids of a page", "monitored_emails_tasks", "range", "monitored_emails_tasks_message", sqlTaskIDs, []any{folderID, 1, uids}, 1000},
				{"due", "monitored_emails_tasks", "range", "monitored_emails_tasks_claim", sqlDueCount, []any{inboxID, now}, 1000},
				{"oldest", "monitored_emails_tasks", "range", "monitored_emails_tasks_ended", sqlOldest, []any{inboxID}, 1000},
				{"unreconciled", "t", "range", "monitored_emails_tasks_claim", sqlUnreconciled, []any{folderID, 2}, 1000},
			} {
				got := r.explain(t, c.sql, c.args...)[c.table]
				if got.Type != c.typ || got.Key != c.key || got.Rows > c.rows || c.name == "claim" && strings.Contains(got.Extra, "filesort") {
					t.Errorf("%s, %s: %+v; want %s by %s, not sorted, at most %d rows", c.name, when, got, c.typ, c.key, c.rows)
				}
			}
		}
	})
}

// TestSQLiteIndexes is TestIndexes for SQLite.
func TestSQLiteIndexes(t *testing.T) {
	r := newRegistry(t, "sqlite")
	keys, uids := keysAndUIDs(3)
	for _, c := range []struct {
		name, want, sql string
		args            []any
	}{
		{"claim", "monitored_emails_tasks_claim (inbox_id=? AND priority=? AND visible_at<?)", sqlDue, []any{1, 0, 1, []int64{0}, 8}},
		{"ledger by UID", "sqlite_autoindex_monitored_emails_seen_1 (folder_id=? AND uid_validity=? AND uid=?)", sqlSeenByUID, []any{1, 1, uids}},
		{"ledger by content", "monitored_emails_seen_fingerprint (fingerprint=?)", sqlSeenByFingerprint, []any{keys}},
		{"ids of a page", "sqlite_autoindex_monitored_emails_tasks_1 (folder_id=? AND uid_validity=? AND uid=?)", sqlTaskIDs, []any{1, 1, uids}},
		{"due", "monitored_emails_tasks_claim (inbox_id=? AND priority=? AND visible_at<?)", sqlDueCount, []any{1, 1}},
		{"oldest", "monitored_emails_tasks_ended (inbox_id=? AND status=?)", sqlOldest, []any{1}},
		{"unreconciled", "monitored_emails_tasks_claim (inbox_id=? AND priority=? AND visible_at>?)", sqlUnreconciled, []any{1, 2}},
	} {
		var steps []struct{ Detail string }
		r.query(t, &steps, "EXPLAIN QUERY PLAN "+c.sql, c.args...)
		if got := fmt.Sprint(steps); !strings.Contains(got, c.want) || c.name == "claim" && strings.Contains(got, "ORDER BY") {
			t.Errorf("%s: %s; want %s, not sorted", c.name, got, c.want)
		}
	}
}

// TestSecondWorker claims while another claim's transaction is open, and others hold the rows of the inbox and the folder.
func TestSecondWorker(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		inboxID, folderID := crowded(t, r, 20_000, 20)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		first, second := New(r.DB), New(r.again(t))
		want := tasks.Want{InboxID: inboxID, Max: 4, Lease: time.Minute, Worker: "first", MaxLostLeases: 3}
		r.tx(t, func(tx *gorm.DB) error {
			mine, err := first.receive(tx, want)
			if err != nil {
				return err
			}
			var id int64
			if err := tx.Raw(first.lock(sqlFolder), folderID).Scan(&id).Error; err != nil {
				return err
			}
			if err := tx.Raw(first.lock(sqlScopeInbox), inboxID).Scan(&id).Error; err != nil {
				return err
			}
			start := time.Now()
			theirs, err := second.Receive(ctx, want)
			if err != nil {
				return err
			}
			if len(mine) != 4 || len(theirs) != 4 || theirs[0].UID != mine[3].UID+1 {
				t.Errorf("%d claimed by the first, %d by the second, want 4 each, one behind the other", len(mine), len(theirs))
			}
			if len(theirs) > 0 && (theirs[0].Folder != "INBOX" || theirs[0].Inbox != "crowded@example.com") {
				t.Errorf("claimed in folder %q of %q, want the names though their rows are locked", theirs[0].Folder, theirs[0].Inbox)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("the second worker waited %v for the first", took)
			}
			return nil
		})
	})
}
