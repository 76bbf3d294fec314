package sqlqueue

import (
	"errors"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// triggers let no task with UID 5 be deleted.
var triggers = map[string]string{
	db.SQLite: `CREATE TRIGGER stop BEFORE DELETE ON monitored_emails_tasks ` +
		`WHEN OLD.uid = 5 BEGIN SELECT RAISE(ABORT, 'stop'); END`,
	db.MySQL: `CREATE TRIGGER stop BEFORE DELETE ON monitored_emails_tasks FOR EACH ROW
IF OLD.uid = 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stop'; END IF`,
}

// TestRemoveCutShort stops a removal in the middle. A copy elsewhere that waited goes out, nothing
// of the inbox is sent or registered any more, and doing it again removes the rest, whatever was
// done with it meanwhile.
func TestRemoveCutShort(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := small(r.DB)
		first, next := r.inbox(t, "a@example.com"), r.inbox(t, "b@example.com")
		page := tasks.Page{
			InboxID: first, FolderID: r.folder(t, first, "INBOX", 1), Epoch: 1, Cursor: 7,
			Dedupe: tasks.DedupeAll, Entries: entries(1, 7),
		}
		elsewhere := tasks.Page{
			InboxID: next, FolderID: r.folder(t, next, "INBOX", 1), Epoch: 1, Cursor: 7,
			Dedupe: tasks.DedupeAll, Entries: entries(7, 1),
		}
		for _, p := range []tasks.Page{page, elsewhere} {
			if _, err := q.Register(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		want := tasks.Want{InboxID: first, Max: 10, Lease: time.Hour, Worker: "worker", MaxLostLeases: 3}
		claims, err := q.Receive(t.Context(), want)
		if err != nil || len(claims) != 7 {
			t.Fatalf("claimed %d, %v; want 7", len(claims), err)
		}
		forwarded := tasks.Result{
			Status:     tasks.Forwarded,
			Deliveries: []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Delivered}},
		}
		for _, c := range claims[:6] {
			if err := q.Finish(t.Context(), c.Receipt, forwarded); err != nil {
				t.Fatal(err)
			}
		}
		r.exec(t, triggers[r.Dialect()])
		if err := q.Remove(t.Context(), "ann", first); err == nil {
			t.Fatal("it was removed, want it to stop in the middle")
		}
		left := func(query string, args ...any) (n int) {
			r.query(t, &n, "SELECT COUNT(*) FROM "+query, args...)
			return n
		}
		if n := left("monitored_emails_tasks WHERE inbox_id = ?", first); n != 2 {
			t.Errorf("%d tasks are left, want the last two that were forwarded", n)
		}
		if n := left("monitored_folders WHERE inbox_id = ? AND initialized_at IS NOT NULL", first); n != 0 {
			t.Errorf("%d folders have a cursor, want none: once enabled, the inbox begins again", n)
		}
		if _, err := q.Register(t.Context(), page); !errors.Is(err, tasks.ErrEpochChanged) {
			t.Errorf("register what is half removed: %v, want %v", err, tasks.ErrEpochChanged)
		}
		err = q.Finish(t.Context(), claims[6].Receipt, tasks.Result{Status: tasks.Forwarded})
		if !errors.Is(err, tasks.ErrLeaseLost) {
			t.Errorf("finish what is removed: %v, want %v", err, tasks.ErrLeaseLost)
		}
		want.InboxID = next
		copies, err := q.Receive(t.Context(), want)
		if err != nil || len(copies) != 1 {
			t.Fatalf("elsewhere are claimed %+v, %v; want the copy that waited", copies, err)
		}
		ds, err := q.Reserve(t.Context(), copies[0].Receipt, tasks.Reservation{Revision: "r1", Dedupe: tasks.DedupeAll})
		if err != nil || len(ds) != 1 || ds[0].Status != tasks.Pending || ds[0].Waits() {
			t.Errorf("the deliveries of the copy are %+v, %v; want it to be sent", ds, err)
		}

		r.exec(t, "DROP TRIGGER stop")
		r.exec(t, "UPDATE monitored_emails SET is_active = 1 WHERE id = ?", first)
		r.exec(t, "UPDATE monitored_emails_tasks SET status = 'dead' WHERE inbox_id = ?", first)
		if n, err := q.Requeue(t.Context(), tasks.By{Who: "ann"}, claims[4].Task.ID); n != 1 || err != nil {
			t.Fatalf("requeued %d, %v; want 1", n, err)
		}
		if err := q.Remove(t.Context(), "ann", first); err != nil {
			t.Fatal(err)
		}
		if n := left("monitored_emails_once WHERE scope = 0"); n != 7 {
			t.Errorf("%d contents are owned everywhere, want the 6 that were delivered and the one elsewhere", n)
		}
		for _, table := range []string{
			"monitored_emails WHERE id = ?",
			"monitored_folders WHERE inbox_id = ?",
			"monitored_emails_tasks WHERE inbox_id = ?",
			"monitored_emails_seen WHERE inbox_id = ?",
			"monitored_emails_once WHERE scope = ?",
		} {
			if n := left(table, first); n != 0 {
				t.Errorf("%d rows are left of %s, want none", n, table)
			}
		}
		const ofNone = "monitored_emails_deliveries WHERE task_id NOT IN (SELECT id FROM monitored_emails_tasks)"
		if n := left(ofNone); n != 0 {
			t.Errorf("%d deliveries are left of no task", n)
		}
	})
}
