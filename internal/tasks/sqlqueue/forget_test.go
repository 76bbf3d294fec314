package sqlqueue

import (
	"testing"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// TestForgetBesideAPerson: a duplicate that a person puts back, and somebody reserves, while its lost original is forgotten goes on as it is: it
// takes no place, and keeps its route.
func TestForgetBesideAPerson(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		inboxID := r.inbox(t, "a@example.com")
		page := tasks.Page{InboxID: inboxID, FolderID: r.folder(t, inboxID, "INBOX", 1), Epoch: 1, Cursor: 2, Dedupe: tasks.DedupeInbox, Entries: entries(1, 2)}
		page.Entries[1].Fingerprint = page.Entries[0].Fingerprint
		q := New(r.again(t))
		regs, err := q.Register(t.Context(), page)
		if err != nil || regs[1].Fate != tasks.Duplicate {
			t.Fatalf("registered %v, %v; want the second as a duplicate", regs, err)
		}
		lost, copied := regs[0].TaskID, regs[1].TaskID
		r.exec(t, "DELETE FROM monitored_emails_tasks WHERE id = ?", lost)
		ended := make(chan error, 1)
		r.tx(t, func(tx *gorm.DB) error {
			err := tx.Exec("UPDATE monitored_emails_tasks SET status = 'in_progress', visible_at = 1, route = 'desk' WHERE id = ?", copied).Error
			go func() {
				_, err := q.Forget(t.Context(), "ann", page.FolderID, 1, 1)
				ended <- err
			}()
			r.waiting(t, 1)
			return err
		})
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		got, err := q.Get(t.Context(), copied)
		if err != nil || got.Route != "desk" {
			t.Errorf("it goes by %q, %v; want desk, as it was reserved", got.Route, err)
		}
		if events, err := q.Events(t.Context(), copied); err != nil || len(events) != 0 {
			t.Errorf("its trail is %+v, %v; want no line: it took nobody's place", events, err)
		}
	})
}
