package sqlqueue

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// TestPurgeBesideRegister: a vanished task is purged at the moment when its message is found again.
// The purge comes first, so the message is new.
func TestPurgeBesideRegister(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q, other := New(r.DB), New(r.again(t))
		inboxID := r.inbox(t, "desk@example.com")
		page := tasks.Page{
			InboxID: inboxID, FolderID: r.folder(t, inboxID, "INBOX", 1), Epoch: 1, Cursor: 1,
			Dedupe: tasks.DedupeInbox, Entries: entries(1, 1),
		}
		check := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		_, err := q.Register(t.Context(), page)
		check(err)
		want := tasks.Want{InboxID: inboxID, Max: 1, Lease: time.Minute, Worker: "w", MaxLostLeases: 3}
		claims, err := q.Receive(t.Context(), want)
		if err != nil || len(claims) != 1 {
			t.Fatalf("claimed %d, %v; want the message", len(claims), err)
		}
		check(q.Finish(t.Context(), claims[0].Receipt, tasks.Vanished(claims[0].Task, "expunged")))
		r.exec(t, `UPDATE monitored_folders SET uid_validity = 2, last_seen_uid = 0 WHERE id = ?`, page.FolderID)
		page.Epoch, page.Cursor, page.Entries[0].UID = 2, 7, 7

		ended := make(chan error, 2)
		r.tx(t, func(tx *gorm.DB) error { // both find the task locked, and follow one another
			lock := q.db.Lock(`SELECT id FROM monitored_emails_tasks WHERE id = ?`)
			if err := tx.Exec(lock, claims[0].Task.ID).Error; err != nil {
				return err
			}
			go func() { _, err := other.Purge(t.Context(), tasks.By{Who: "ann"}, claims[0].Task.ID); ended <- err }()
			r.waiting(t, 1)
			go func() { _, err := q.Register(t.Context(), page); ended <- err }()
			r.waiting(t, 2)
			return nil
		})
		check(<-ended)
		check(<-ended)
		again, err := q.Receive(t.Context(), want)
		if err != nil || len(again) != 1 || again[0].Task.ID == claims[0].Task.ID || again[0].Task.UID != 7 {
			t.Errorf("claimed %+v, %v; want a new task of UID 7", again, err)
		}
	})
}

// TestRequeueBesideRegister: a task that ended as vanished is requeued and claimed in the moment in
// which its message is found again. Its worker keeps it.
func TestRequeueBesideRegister(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q, other := New(r.DB), New(r.again(t))
		page := r.copies(t, 1)[0]
		register(t, q, page, tasks.New)
		r.exec(t, `UPDATE monitored_emails_tasks SET status = 'skipped', skip_reason = 'vanished', visible_at = NULL`)
		r.exec(t, `UPDATE monitored_folders SET uid_validity = 2, last_seen_uid = 0 WHERE id = ?`, page.FolderID)
		page.Epoch, page.Entries[0].UID = 2, 7
		r.beside(t, func(tx *gorm.DB) error {
			return tx.Exec(`UPDATE monitored_emails_tasks ` +
				`SET status = 'in_progress', skip_reason = '', receipt = 'r', visible_at = 1`).Error
		}, func() error { _, err := other.Register(t.Context(), page); return err })
		got, err := q.Get(t.Context(), r.taskOf(t, page))
		if err != nil || got.Status != tasks.InProgress || got.UID != 7 {
			t.Errorf("the task is %s with UID %d, %v; want it in progress, with UID 7", got.Status, got.UID, err)
		}
	})
}
