package sqlqueue

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

const million = 1_000_000

// TestMillion proves that the frequent statements cost the same beside a million ended tasks: the
// server's own count of the rows it read is bounded by what is claimed.
func TestMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("filling the table takes long")
	}
	onServers(t, func(t *testing.T, r registry) {
		start := time.Now()
		inboxID := r.inbox(t, "crowded@example.com")
		folderID := r.folder(t, inboxID, "INBOX", 1)
		r.endedTasks(t, inboxID, folderID)
		page := tasks.Page{
			InboxID: inboxID, FolderID: folderID, Epoch: 1,
			Entries: entries(million+1, 300), Dedupe: tasks.DedupeInbox,
		}
		if _, err := New(r.DB).Register(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		t.Logf("filled in %v", time.Since(start).Round(time.Second))
		for _, when := range []string{"as filled", "analyzed"} {
			if when == "analyzed" {
				r.exec(t, "ANALYZE TABLE monitored_emails_tasks, monitored_emails_seen, "+
					"monitored_emails_once, monitored_emails_deliveries")
			}
			r.checkClaimPlan(t, when, inboxID)
			r.checkReads(t, when, inboxID, folderID)
		}
		r.checkLookups(t, "analyzed", inboxID, folderID)
		claimBesideAnother(t, r, inboxID, folderID)
	})
}

// endedTasks fills the table and the ledger with a million forwarded tasks, one a second up to now.
// Meanwhile durability, binary log and checks are off.
func (r registry) endedTasks(t *testing.T, inboxID, folderID int64) {
	t.Helper()
	const portion = million / 20
	const settings = "?sql_log_bin=0&foreign_key_checks=0&unique_checks=0&interpolateParams=true"
	pool, err := sql.Open("mysql", r.cfg.DSN+settings)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	exec := func(statement string, args ...any) {
		if _, err := pool.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
	defer exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	exec("CREATE TABLE numbers (n INT NOT NULL PRIMARY KEY)")
	exec("INSERT INTO numbers VALUES (1)")
	for n := 1; n < portion; n *= 2 {
		exec("INSERT INTO numbers SELECT n + ? FROM numbers WHERE n <= ?", n, portion-n)
	}
	for n := 0; n < million; n += portion {
		exec(`INSERT INTO monitored_emails_tasks `+
			`(inbox_id, folder_id, uid_validity, uid, message_id, fingerprint, subject, sender,
			size, route, priority, status, attempt_count, lost_leases, receipt, worker, error_message,
			created_at, queued_at, updated_at, finished_at)
			SELECT ?, ?, 1, n + ?, '', UNHEX(SHA2(n + ?, 256)), '', '', 1, 'desk', 0, 'forwarded', 1, 0, 'r', 'w', '',
			NOW(6), NOW(6), NOW(6), NOW(6) - INTERVAL ? - n SECOND FROM numbers ORDER BY n`,
			inboxID, folderID, n, n, million-n)
	}
	exec(`INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
		SELECT folder_id, uid_validity, uid, inbox_id, id, fingerprint FROM monitored_emails_tasks`)
	exec(`INSERT INTO monitored_emails_once (scope, fingerprint, recipient, task_id)
		SELECT inbox_id, fingerprint, 'desk@firm.example', id FROM monitored_emails_tasks`)
	// The servers read a small table whole. The oldest tasks have enough deliveries to prevent
	// that.
	exec(`INSERT INTO monitored_emails_deliveries (task_id, recipient, status, code, reply, attempts, delivered_at)
		SELECT id, 'desk@firm.example', 'delivered', 250, 'ok', 1, NOW(6) FROM monitored_emails_tasks ` +
		`ORDER BY id LIMIT 100000`)
}

func (r registry) checkClaimPlan(t *testing.T, when string, inboxID int64) {
	t.Helper()
	now := time.Now().Add(time.Hour).UnixMicro()
	got := r.explain(t, r.LockSkipLocked(sqlDue), inboxID, tasks.Normal, now, []int64{0}, 8)[tableTasks]
	if got.Type != "range" || got.Key != "monitored_emails_tasks_claim" || got.Rows > 1000 ||
		strings.Contains(got.Extra, "filesort") {
		t.Errorf("claim, %s: %+v; want a range of monitored_emails_tasks_claim, not sorted, at most 1000 rows",
			when, got)
	}
}

// checkReads bounds the rows that the server reads.
func (r registry) checkReads(t *testing.T, when string, inboxID, folderID int64) {
	t.Helper()
	now := time.Now().UTC()
	_, uids := keysAndUIDs(100)
	r.bounded(t, when, []reading{
		{"claim of 8", 150, func(tx *gorm.DB) error {
			want := wantOf(inboxID, 8)
			claims, _, err := New(r.DB).receive(tx, now, want)
			if len(claims) != 8 {
				t.Errorf("claimed %d, want 8", len(claims))
			}
			return err
		}},
		{"the next ones", 50, raws(sqlNext, nextArgs(tasks.Want{InboxID: inboxID, Max: 8}, now)...)},
		{"due", 700, raws(sqlDueCounts, []int64{inboxID}, now.UnixMicro())},
		{"live", 1400, raws(sqlLiveCounts, now.UnixMicro(), []int64{inboxID})},
		{"what is live in the inbox", 700, raws(sqlLive, inboxID)},
		{"ids of a page of 100", 300, raws(sqlTaskIDs, folderID, 1, uids)},
		{"a portion of a search", 1100, raws(sqlCandidates, 1, million, 1000)},
		{"few in a state", 300, raws(sqlFew, []int64{inboxID}, []tasks.Status{tasks.Dead, tasks.Uncertain}, 100)},
		{"the first of many in a state", 300, raws(sqlFew, []int64{inboxID}, []tasks.Status{tasks.Forwarded}, 100)},
		{
			"what ended in an hour", 8000,
			raws(sqlHistory, []int64{inboxID}, endings, now.Add(-2*time.Hour), now.Add(-time.Hour)),
		},
		{"100 that ended long ago", 300, raws(sqlExpired, []int64{inboxID}, now, 100)},
	})
}

// checkLookups bounds the statements that read the ledger or the deliveries with the tasks. It runs
// after the server has statistics: without them it takes a table for empty and reads all of it.
// Only here does a table grow by a million at once.
func (r registry) checkLookups(t *testing.T, when string, inboxID, folderID int64) {
	t.Helper()
	now := time.Now().UTC()
	keys, uids := keysAndUIDs(100)
	r.bounded(t, when, []reading{
		{"look-up of 100 by content", 1000, func(tx *gorm.DB) error {
			_, err := db.Query(tx, seenInto, sqlSeenByFingerprint, keys)
			return err
		}},
		{"who owns 100", 1000, raws(sqlOwners, []int64{inboxID}, keys, []string{"desk@firm.example"})},
		{"deliveries of a task", 10, raws(sqlDeliveries, []int64{1000})},
		{"who waits for a task", 10, raws(sqlWaiting, []int64{1000})},
		{"registration of 100", 3000, func(tx *gorm.DB) error {
			return registerIn(tx, New(r.DB), tasks.Page{
				InboxID: inboxID, FolderID: folderID, Epoch: 1,
				Entries: entries(2*million, 100), Dedupe: tasks.DedupeInbox,
			})
		}},
		{"deletion of 100 that ended long ago", 1300, func(tx *gorm.DB) error {
			ids, err := New(r.DB).expire(tx, now, []int64{inboxID}, 0, 100)
			if len(ids) != 100 {
				t.Errorf("%d tasks expired, want 100", len(ids))
			}
			return err
		}},
		{"100 that may be lost", 300, raws(sqlLost, folderID, 1, uids)},
		{"the highest UID of a folder", 10, raws(sqlHighest, folderID, 1)},
		{"the next epoch that left something behind", 10, raws(sqlNextEpoch, folderID, -1, 2)},
		{"the next 2000 left behind", 4100, raws(sqlNextPage, folderID, 1, 0, 2000)},
		{"2000 left behind", 20_000, raws(sqlLeftBehind, folderID, 1, 500_001, 502_000)},
	})
}

// reading is what is run, and how many rows it may read.
type reading struct {
	name string
	most int64
	run  func(tx *gorm.DB) error
}

func (r registry) bounded(t *testing.T, when string, list []reading) {
	t.Helper()
	for _, c := range list {
		if got := r.reads(t, c.run); got > c.most {
			t.Errorf("%s, %s: %d rows read, want at most %d", c.name, when, got, c.most)
		}
	}
}

func raws(sql string, args ...any) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error {
		var rows []map[string]any
		return tx.Raw(sql, args...).Scan(&rows).Error
	}
}

// reads counts the rows that the storage engine is asked for during run. To ask for the count costs
// some rows itself.
func (r registry) reads(t *testing.T, run func(tx *gorm.DB) error) (n int64) {
	t.Helper()
	r.tx(t, func(tx *gorm.DB) error {
		var at [3]int64
		for i := range at {
			var counters []struct{ Value int64 }
			if err := tx.Raw("SHOW SESSION STATUS LIKE 'Handler_read%'").Scan(&counters).Error; err != nil {
				return err
			}
			for _, c := range counters {
				at[i] += c.Value
			}
			if i == 1 {
				if err := run(tx); err != nil {
					return err
				}
			}
		}
		n = at[2] - at[1] - (at[1] - at[0])
		return nil
	})
	return n
}

// claimBesideAnother claims while another claim's transaction is open, and others hold the rows of
// the inbox and the folder.
func claimBesideAnother(t *testing.T, r registry, inboxID, folderID int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // who waits for a lock waits in vain
	defer cancel()
	first, second := New(r.DB), New(r.again(t))
	want := tasks.Want{InboxID: inboxID, Max: 4, Lease: time.Minute, Worker: "first", MaxLostLeases: 3}
	r.tx(t, func(tx *gorm.DB) error {
		mine, _, err := first.receive(tx, time.Now().UTC(), want)
		if err != nil {
			return err
		}
		var id int64
		folder := tx.Raw(first.db.Lock(`SELECT id FROM monitored_folders WHERE id = ?`), folderID)
		if err := folder.Scan(&id).Error; err != nil {
			return err
		}
		inbox := tx.Raw(first.db.Lock(`SELECT id FROM monitored_emails WHERE id = ?`), inboxID)
		if err := inbox.Scan(&id).Error; err != nil {
			return err
		}
		theirs, err := second.Receive(ctx, want)
		if err != nil {
			return err
		}
		if len(mine) != 4 || len(theirs) != 4 || theirs[0].Task.UID != mine[3].Task.UID+1 {
			t.Errorf("%d claimed by the first, %d by the second, want 4 each, one behind the other",
				len(mine), len(theirs))
		}
		if len(theirs) > 0 && (theirs[0].Task.Folder != "INBOX" || theirs[0].Task.Inbox != "crowded@example.com") {
			t.Errorf("claimed in folder %q of %q, want the names though their rows are locked",
				theirs[0].Task.Folder, theirs[0].Task.Inbox)
		}
		return nil
	})
}
