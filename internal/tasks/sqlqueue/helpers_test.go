package sqlqueue

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// registerIn registers a page in a transaction that stays open.
func registerIn(tx *gorm.DB, q *Queue, page tasks.Page) error {
	now, err := q.db.Now(tx)
	if err != nil {
		return err
	}
	_, err = q.register(tx, now, page, false)
	return err
}

// wantOf is what a worker asks an inbox for.
func wantOf(inboxID int64, n int) tasks.Want {
	return tasks.Want{InboxID: inboxID, Max: n, Lease: time.Hour, Worker: "w", MaxLostLeases: 3}
}

// The transactions that wait for a lock.
const (
	waitingOnMySQL   = `SELECT COUNT(DISTINCT requesting_engine_transaction_id) FROM performance_schema.data_lock_waits`
	waitingOnMariaDB = `SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'`
)

// waiting waits until so many transactions wait for a lock of the server. MariaDB does not look
// again sooner than after 100 ms. MySQL cannot list transactions while one has a statement with
// octets that are no text.
func (r registry) waiting(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		locked := -1
		err := r.View(t.Context(), func(tx *gorm.DB) error {
			err := tx.Raw(waitingOnMySQL).Scan(&locked).Error
			if err != nil {
				err = tx.Raw(waitingOnMariaDB).Scan(&locked).Error
			}
			return err
		})
		switch {
		case locked >= n:
			return
		case time.Now().After(deadline):
			t.Errorf("%d transactions wait for a lock, %v; want %d", locked, err, n)
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}
