package sqlqueue

import (
	"testing"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// TestScopeOutlivesItsFolder: who waited for the folder that all lock, and finds it removed with its inbox, locks the next one: else
// two would reserve at once. It keeps out those of the inbox, too, whose scope is the inbox yet.
func TestScopeOutlivesItsFolder(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		first := r.folder(t, r.inbox(t, "a@example.com"), "INBOX", 1)
		next := r.folder(t, r.inbox(t, "b@example.com"), "INBOX", 1)
		inboxID := r.inbox(t, "c@example.com")
		own := r.folder(t, inboxID, "INBOX", 1)
		q, ended := New(r.again(t)), make(chan error, 1)
		r.tx(t, func(tx *gorm.DB) error {
			if err := tx.Exec(q.db.Lock(sqlScopeOne), first).Error; err != nil {
				return err
			}
			go func() {
				ended <- q.db.Tx(t.Context(), func(tx *gorm.DB) error {
					if err := q.lockScope(tx, inboxID, tasks.DedupeAll); err != nil {
						return err
					}
					var free []int64
					err := r.View(t.Context(), func(tx *gorm.DB) error {
						return tx.Raw(q.db.LockFree(`SELECT id FROM monitored_folders WHERE id IN ?`), []int64{next, own}).Scan(&free).Error
					})
					if len(free) > 0 {
						t.Errorf("of the folders %d and %d, these are free: %v; want the one locked instead of the one that is gone, and that of the inbox, too",
							next, own, free)
					}
					return err
				})
			}()
			r.waiting(t, 1)
			return tx.Exec("DELETE FROM monitored_folders WHERE id = ?", first).Error
		})
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
