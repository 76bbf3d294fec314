package sqlqueue

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// The indexes that the statements go by.
const (
	tasksClaim          = "monitored_emails_tasks_claim"
	tasksEnded          = "monitored_emails_tasks_ended"
	tasksMessage        = "monitored_emails_tasks_message"
	seenFingerprint     = "monitored_emails_seen_fingerprint"
	seenTask            = "monitored_emails_seen_task"
	deliveriesDuplicate = "monitored_emails_deliveries_duplicate"
	onceTask            = "monitored_emails_once_task"
	eventsKind          = "monitored_emails_events_kind"
	eventsTask          = "monitored_emails_events_task"
	arrivalsInbox       = "monitored_emails_arrivals_inbox"
	arrivalsStatus      = "monitored_emails_arrivals_status"
	headersCreated      = "monitored_emails_headers_created"

	// Primary keys of SQLite.
	seenKey       = "sqlite_autoindex_monitored_emails_seen_1"
	tasksKey      = "sqlite_autoindex_monitored_emails_tasks_1"
	deliveriesKey = "sqlite_autoindex_monitored_emails_deliveries_1"
	onceKeyIndex  = "sqlite_autoindex_monitored_emails_once_1"
	arrivalsKey   = "sqlite_autoindex_monitored_emails_arrivals_1"
)

// crowded is a registry with one inbox. The ledger has all of its tasks: more than finished of them
// have ended, and due of them are due.
func crowded(t testing.TB, r registry, finished, due int) (inboxID, folderID int64) {
	t.Helper()
	inboxID = r.inbox(t, "crowded@example.com")
	folderID = r.folder(t, inboxID, "INBOX", 1)
	const columns = `inbox_id, folder_id, uid_validity, message_id, subject, sender, email_date, size, route, priority,
		attempt_count, lost_leases, receipt, worker, error_message, created_at, queued_at, updated_at`
	seed := entries(1, 1)
	page := tasks.Page{InboxID: inboxID, FolderID: folderID, Epoch: 1, Cursor: 1, Entries: seed}
	if _, err := New(r.DB).Register(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `UPDATE monitored_emails_tasks SET status = 'forwarded', visible_at = NULL, finished_at = updated_at`)
	r.exec(t, `DELETE FROM monitored_emails_deliveries`)
	r.exec(t, `DELETE FROM monitored_emails_once`)
	for n := 1; n < finished; n *= 2 {
		r.exec(t, fmt.Sprintf(`INSERT INTO monitored_emails_tasks (%s, uid, fingerprint, status, finished_at)
			SELECT %s, uid + %d, UNHEX(SHA2(uid + %d, 256)), status, finished_at FROM monitored_emails_tasks`,
			columns, columns, n, n))
	}
	r.exec(t, `INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
		SELECT folder_id, uid_validity, uid, inbox_id, id, fingerprint FROM monitored_emails_tasks WHERE uid > 1`)
	r.exec(t, `INSERT INTO monitored_emails_deliveries (task_id, recipient, status, code, reply, attempts)
		SELECT id, 'desk@firm.example', 'delivered', 250, 'ok', 1 FROM monitored_emails_tasks`)
	r.exec(t, `INSERT INTO monitored_emails_once (scope, fingerprint, recipient, task_id)
		SELECT inbox_id, fingerprint, 'desk@firm.example', id FROM monitored_emails_tasks`)
	r.exec(t, `INSERT INTO monitored_emails_arrivals (task_id, recipient, inbox_id, status, code,
		enhanced, reply, remote, target, at, reported_at)
		SELECT id, 'desk@firm.example', inbox_id, CASE WHEN uid % 100 = 0 THEN 'bounced' ELSE 'confirmed' END, 550,
		'', '', '', '', updated_at, updated_at
		FROM monitored_emails_tasks`)
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
		out[i] = tasks.Entry{
			UID: uid, Stated: tasks.Stated{Size: int64(uid)},
			Identity: tasks.Identity{Fingerprint: sha256.Sum256(fmt.Append(nil, uid))},
			Decision: &tasks.Decision{Revision: "r1", Route: "desk", Recipients: []string{"desk@firm.example"}},
		}
	}
	return out
}

// events fills the audit trail with n lines of other tasks' retries, and a few conflicts.
func (r registry) events(t testing.TB, n int) {
	t.Helper()
	r.tx(t, func(tx *gorm.DB) error {
		for i := range 20 {
			what := []string{"conflict", "error"}[min(i%10, 1)]
			if err := event(tx, time.Now().UTC(), int64(i+1), "w", what, "451"); err != nil {
				return err
			}
		}
		return nil
	})
	for have := 20; have < n; have *= 2 {
		r.exec(t, `INSERT INTO monitored_emails_events (task_id, at, worker, event, detail)
			SELECT task_id + 20, at, worker, 'error', detail FROM monitored_emails_events`)
	}
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
		outline := e.Outline()
		keys, uids = append(keys, e.Identity.Fingerprint[:], outline[:]), append(uids, e.UID)
	}
	return keys, uids
}

// TestIndexes asks the server for the plans of the frequent statements, beside 20,000 ended tasks.
func TestIndexes(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		inboxID, folderID := crowded(t, r, 20_000, 300)
		now := time.Now().Add(time.Hour).UnixMicro()
		keys, uids := keysAndUIDs(100)
		ids := []int64{5, 6, 7, 8}
		boxes := make([]int64, inboxesAtOnce)
		for i := range boxes {
			boxes[i] = inboxID + int64(i)
		}
		soon, old := time.Now().UTC().Add(time.Hour), time.Now().UTC().Add(-time.Hour)
		desk := []string{"desk@firm.example"}
		f := tasks.Filter{Inboxes: []int64{inboxID}, Within: time.Hour, Recipient: "Ann"}
		list, listed := New(r.DB).portion(f, old, 5, 500)
		const tableEvents = "monitored_emails_events"
		due, sentAs := r.LockSkipLocked(sqlDue), fmt.Sprintf(sqlSentAs, sameIDOnMySQL)
		next := nextArgs(tasks.Want{InboxID: inboxID, Max: 8}, soon)
		page, counted := []any{folderID, 1, 1, 100}, []any{soon, boxes[:4], tasks.Troubles}
		owners, dead := []any{boxes[:1], keys, desk}, []tasks.Status{tasks.Dead}
		r.events(t, 20_000)
		// Few rows, or few groups.
		sorted := map[string]bool{"conflicts": true, "ledger by content": true, "history": true, "bounces": true}
		for _, when := range []string{"as filled", "analyzed"} {
			if when == "analyzed" {
				r.exec(t, "ANALYZE TABLE monitored_emails_tasks, monitored_emails_seen, monitored_emails_deliveries, "+
					"monitored_emails_once, monitored_emails_events, monitored_emails_arrivals")
			}
			for _, c := range []struct {
				name, table, typ, key, sql string
				args                       []any
				rows                       int64 // at most
			}{
				{"claim", tableTasks, "range", tasksClaim, due, []any{inboxID, 0, now, []int64{0, 1}, 8}, 1000},
				{"ledger by UID", "s", "range", "PRIMARY", sqlSeenByUID, []any{folderID, 1, uids}, 1000},
				{"ledger by range", "s", "range", "PRIMARY", sqlNoted, page, 1000},
				{"tasks of the ledger", "t", "eq_ref", "PRIMARY", sqlNoted, page, 1},
				{"ledger by content", "s", "range", seenFingerprint, sqlSeenByFingerprint, []any{keys}, 1000},
				{"its tasks", "t", "eq_ref", "PRIMARY", sqlSeenByFingerprint, []any{keys}, 1},
				{"ids of a page", tableTasks, "range", tasksMessage, sqlTaskIDs, []any{folderID, 1, uids}, 1000},
				{"due", tableTasks, "range", tasksClaim, sqlDueCounts, []any{boxes, now}, 2000},
				{"next due", tableTasks, "range", tasksClaim, sqlNextDue, []any{boxes, now}, 2000},
				{"live by inbox", tableTasks, "range", tasksClaim, sqlLiveCounts, []any{now, boxes}, 2000},
				{"counts", tableTasks, "range", tasksEnded, sqlCounts, []any{soon, soon, boxes[:4]}, 100_000},
				{"unreconciled", "t", "range", tasksClaim, sqlUnreconciled, []any{folderID, 2}, 1000},
				{"next", tableTasks, "range", tasksClaim, sqlNext, next, 1000},
				{"conflicts", "v", "range", eventsKind, sqlConflicts, []any{soon.Add(-2 * time.Hour)}, 1000},
				{"tasks of conflicts", "t", "eq_ref", "PRIMARY", sqlConflicts, []any{soon.Add(-2 * time.Hour)}, 1},
				{"ended long ago", tableTasks, "range", tasksEnded, r.Lock(sqlExpired), []any{boxes, old, 100}, 1000},
				{"a portion purged as", tableSeen, "range", seenTask, sqlPurgedAs, []any{"forwarded", ids}, 2000},
				{"search", tableTasks, "range", "PRIMARY", sqlCandidates, []any{1, 1000, 1000}, 2000},
				{"search among few", tableTasks, "range", "PRIMARY", sqlCandidatesOf, []any{ids}, 10},
				{"recipients of a search", tableDeliveries, "range", "PRIMARY", sqlRecipients, []any{ids}, 20},
				{"few in a state", tableTasks, "range", tasksEnded, sqlFew, []any{boxes[:fewRanges], dead, 100}, 1000},
				{"history", tableTasks, "range", tasksEnded, sqlHistory, []any{boxes[:4], endings, old, soon}, 100_000},
				{"trail of an inbox", tableEvents, "ref", eventsTask, sqlInboxEvents, []any{inboxID, 50}, 10},
				{"oldest events", tableEvents, "index", "PRIMARY", sqlExpiredEvents, []any{soon, 100, old}, 100_000},
				{"audit", "s", "range", "PRIMARY", sqlSeenBetween, page, 1000},
				{"tasks of an audit", "t", "eq_ref", "PRIMARY", sqlSeenBetween, page, 1},
				{"deliveries of an audit", "d", "ref", "PRIMARY", sqlSeenBetween, page, 10},
				{"left behind", "s", "range", "PRIMARY", sqlLeftBehind, page, 1000},
				{"tasks left behind", "t", "eq_ref", "PRIMARY", sqlLeftBehind, page, 1},
				{"found again", "n", "ref", seenTask, sqlLeftBehind, page, 10},
				{"lost", "s", "range", "PRIMARY", sqlLost, []any{folderID, 1, uids}, 1000},
				{"live", tableTasks, "range", tasksClaim, sqlLive, []any{inboxID}, 1000},
				{"claimed", tableTasks, "range", tasksEnded, sqlClaimed, []any{boxes[:4]}, 1000},
				{"still live", tableTasks, "range", "PRIMARY", r.Lock(sqlStillLive), []any{ids}, 1000},
				{"held", tableTasks, "range", "PRIMARY", sqlHold, touched(soon, ids, []string{"a", "b"}), 1000},
				{"deliveries", tableDeliveries, "range", "PRIMARY", r.Share(sqlDeliveries), []any{ids}, 1000},
				{"owners of a page", tableOnce, "range", "PRIMARY", r.Share(sqlOwners), owners, 1000},
				{"owned by some", tableOnce, "range", onceTask, r.Share(sqlOwnedBy), []any{ids}, 1000},
				{"given up", tableOnce, "range", onceTask, sqlGiveUp, []any{ids, desk}, 1000},
				{"given up by one", tableOnce, "range", onceTask, sqlGiveUp, []any{ids[:1], desk}, 10},
				{"owned by the lost", tableOnce, "range", onceTask, sqlGiveUpAll, []any{ids}, 1000},
				{"who waits for one of these", "d", "range", deliveriesDuplicate, sqlWaiting, []any{ids}, 10},
				{"deliveries of these", tableDeliveries, "range", "PRIMARY", sqlAround, []any{ids, ids}, 10},
				{"and who waits for them", "d", "range", deliveriesDuplicate, sqlAround, []any{ids, ids}, 10},
				{"duplicates of the lost", "d", "range", deliveriesDuplicate, sqlDuplicates, []any{ids}, 10},
				{"tasks of duplicates", "t", "eq_ref", "PRIMARY", sqlDuplicates, []any{ids}, 1},
				{"wake", tableTasks, "range", "PRIMARY", sqlWake, []any{now, 5, now}, 1},
				{"tasks of a page", tableTasks, "range", tasksMessage, sqlTasksBetween, page, 1000},
				{"list", "t", "range", "PRIMARY", list, listed, 100_000},
				{"arrivals", tableArrivals, "range", "PRIMARY", sqlArrivals, []any{ids}, 20},
				{"arrivals of an audit", "a", "eq_ref", "PRIMARY", sqlSeenBetween, page, 1},
				{"counts of arrivals", tableArrivals, "range", arrivalsInbox, sqlArrivalCounts, counted, 2000},
				{"bounces", tableArrivals, "range", arrivalsStatus, sqlBounces, []any{old}, 1000},
				{"sent as", tableTasks, "range", "PRIMARY", sentAs, []any{100, 300, old, "<a@b>", 20}, 1000},
				{"purged as", tableSeen, "range", seenTask, sqlPurgedAs, []any{"dead", []int64{1}}, 10},
			} {
				if c.name == "found again" && when == "as filled" {
					continue // nothing is known yet of an index that was empty a moment ago
				}
				if when == "as filled" {
					c.rows = math.MaxInt64 // a guess, until the server has counted
				}
				got := r.explain(t, c.sql, c.args...)[c.table]
				if got.Type != c.typ || got.Key != c.key || got.Rows > c.rows ||
					!sorted[c.name] && strings.Contains(got.Extra, "filesort") {
					t.Errorf("%s, %s: %+v; want %s by %s, not sorted, at most %d rows",
						c.name, when, got, c.typ, c.key, c.rows)
				}
			}
		}
	})
}

// TestSQLiteIndexes is TestIndexes for SQLite.
func TestSQLiteIndexes(t *testing.T) {
	r := newRegistry(t, "sqlite")
	keys, uids := keysAndUIDs(3)
	now, ids, desk := time.Now().UTC(), []int64{5, 6}, []string{"desk@firm.example"}
	f := tasks.Filter{Inboxes: []int64{1}, Within: time.Hour, Recipient: "Ann"}
	list, listed := New(r.DB).portion(f, now, 5, 500)
	bounced, inList := New(r.DB).portion(tasks.Filter{Bounced: true}, now, 5, 500)
	sorted := map[string]bool{
		"conflicts": true, "tasks of conflicts": true, "ledger by content": true, "duplicates of the lost": true,
		"counts of arrivals": true, "bounces": true, "next": true,
	}
	const (
		due      = tasksClaim + " (inbox_id=? AND priority=? AND visible_at<?)"
		live     = tasksClaim + " (inbox_id=? AND priority=? AND visible_at>?)"
		byUID    = " (folder_id=? AND uid_validity=? AND uid=?)"
		between  = "(folder_id=? AND uid_validity=? AND uid>? AND uid<?)"
		owner    = onceKeyIndex + " (scope=? AND fingerprint=? AND recipient=?)"
		ended    = tasksEnded + " (inbox_id=? AND status=? AND finished_at<?)"
		covering = "COVERING INDEX "
		created  = "SEARCH h USING " + covering + headersCreated + " (created_at<?)"
	)
	page, counted := []any{1, 1, 1, 9}, []any{now, ids, tasks.Troubles}
	for _, c := range []struct {
		name, want, sql string
		args            []any
	}{
		{"claim", due, sqlDue, []any{1, 0, 1, []int64{0}, 8}},
		{"ledger by UID", seenKey + byUID, sqlSeenByUID, []any{1, 1, uids}},
		{"ledger by range", seenKey + " " + between, sqlNoted, page},
		{"restated", seenKey + byUID, sqlRestate, []any{1, 2, 2, 1, 1, 9}},
		{"ledger by content", seenFingerprint + " (fingerprint=?)", sqlSeenByFingerprint, []any{keys}},
		{"ids of a page", tasksKey + byUID, sqlTaskIDs, []any{1, 1, uids}},
		{"due", covering + due, sqlDueCounts, []any{ids, 1}},
		{"next due", covering + live, sqlNextDue, []any{ids, 1}},
		{"live by inbox", live, sqlLiveCounts, []any{1, ids}},
		{"counts", covering + tasksEnded + " (inbox_id=?)", sqlCounts, []any{now, now, ids}},
		{"unreconciled", live, sqlUnreconciled, []any{1, 2}},
		{"next", covering + due, sqlNext, nextArgs(tasks.Want{InboxID: 1, Max: 8}, now)},
		{"conflicts", eventsKind + " (event=? AND at>?)", sqlConflicts, []any{now}},
		{"tasks of conflicts", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)", sqlConflicts, []any{now}},
		{"ended long ago", ended, sqlExpired, []any{ids, now, 100}},
		{"oldest events", "SCAN monitored_emails_events}", sqlExpiredEvents, []any{now, 100, now}},
		{"old headers", created, sqlOldHeaders, []any{now, now, 100}},
		{"tasks of old headers", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)", sqlOldHeaders, []any{now, now, 100}},
		{"audit", seenKey + " " + between, sqlSeenBetween, page},
		{"tasks of an audit", "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)", sqlSeenBetween, page},
		{"deliveries of an audit", "SEARCH d USING INDEX " + deliveriesKey + " (task_id=?)", sqlSeenBetween, page},
		{"left behind", "SEARCH s USING INDEX " + seenKey + " " + between, sqlLeftBehind, page},
		{"found again", seenTask + " (task_id=?)", sqlLeftBehind, page},
		{"lost", seenKey + byUID, sqlLost, []any{1, 1, uids}},
		{"live", live, sqlLive, []any{1}},
		{"claimed", tasksEnded + " (inbox_id=? AND status=?)", sqlClaimed, []any{ids}},
		{"deliveries", deliveriesKey + " (task_id=?)", sqlDeliveries, []any{ids}},
		{"who waits for one of these", deliveriesDuplicate + " (duplicate_of=?)", sqlWaiting, []any{ids}},
		{"deliveries and who waits for them", deliveriesDuplicate + " (duplicate_of=?)", sqlAround, []any{ids, ids}},
		{"owners of a page", owner, sqlOwners, []any{ids, keys, desk}},
		{"owned by some", onceTask + " (task_id=?)", sqlOwnedBy, []any{ids}},
		{"given up", onceTask + " (task_id=?)", sqlGiveUp, []any{ids, desk}},
		{"duplicates of the lost", deliveriesDuplicate + " (duplicate_of=?)", sqlDuplicates, []any{ids}},
		{"tasks of a page", between, sqlTasksBetween, []any{1, 1, 1, 100}},
		{"list", "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)", list, listed},
		{"purged as", seenTask + " (task_id=?)", sqlPurgedAs, []any{"dead", []int64{1}}},
		{"arrivals", arrivalsKey + " (task_id=?)", sqlArrivals, []any{ids}},
		{
			"arrivals of an audit", "SEARCH a USING INDEX " + arrivalsKey + " (task_id=? AND recipient=?)",
			sqlSeenBetween, page,
		},
		{"counts of arrivals", covering + arrivalsInbox + " (inbox_id=? AND status=?)", sqlArrivalCounts, counted},
		{"bounces", "INDEX " + arrivalsStatus + " (status=? AND reported_at>?)", sqlBounces, []any{now}},
		{
			"sent as",
			"SEARCH monitored_emails_tasks USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
			fmt.Sprintf(sqlSentAs, sameIDOnSQLite),
			[]any{1, 9, now, "<a@b>", 20},
		},
		{"list of the bounced", arrivalsStatus + " (status=?)", bounced, inList},
		{"search of the bounced", arrivalsStatus + " (status=?)", sqlBouncedCandidates, []any{1, 9, 5}},
		{"forgotten", seenTask + " (task_id=?)", sqlForget, []any{ids}},
		{"purged within a time", seenTask + " (task_id>?)", sqlPurged, []any{1, now, now}},
	} {
		var steps []struct{ Detail string }
		r.query(t, &steps, "EXPLAIN QUERY PLAN "+c.sql, c.args...)
		got := fmt.Sprint(steps)
		if !strings.Contains(got, c.want) || !sorted[c.name] && strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s: %s; want %s, not sorted", c.name, got, c.want)
		}
	}
}

// TestSecondWorker claims beside a claim that is under way.
func TestSecondWorker(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		inboxID, folderID := crowded(t, r, 20_000, 20)
		claimBesideAnother(t, r, inboxID, folderID)
	})
}
