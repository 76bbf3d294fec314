package sqlqueue

import (
	"context"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Purge implements tasks.Queue. The ledger and the audit trail keep what they know of the tasks deleted.
func (q *Queue) Purge(ctx context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(ctx, who, "purged", ids, func(tx *gorm.DB, id, _ int64, _ time.Time) (int64, error) {
		var t struct {
			Status             tasks.Status
			ErrorMessage       string
			Fingerprint, Noted []byte
		}
		res := tx.Raw(q.lock(sqlPurgeable), id, tasks.Purgeable, tasks.DuplicatePrefix).Scan(&t)
		if res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		var reached int
		if err := tx.Raw(sqlReached, id).Scan(&reached).Error; err != nil {
			return 0, err
		}
		if err := tx.Exec(sqlPurgedAs, ledger.PurgedAs(t.Status, t.ErrorMessage, reached > 0), [][]byte{t.Fingerprint, t.Noted}, id).Error; err != nil {
			return 0, err
		}
		return 1, tx.Exec(sqlDelete, []int64{id}).Error
	})
}

// Expire implements tasks.Queue.
func (q *Queue) Expire(ctx context.Context, inboxID int64, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		ids = nil
		_, now, err := q.now(tx)
		if err != nil {
			return err
		}
		if err := tx.Raw(sqlExpired, inboxID, now.Add(-age), limit).Scan(&ids).Error; err != nil || len(ids) == 0 {
			return err
		}
		return tx.Exec(sqlDelete, ids).Error
	})
	return len(ids), wrap(err, "delete tasks that were forwarded long ago")
}

// ExpireEvents implements tasks.Queue. Lines are written in the order of their ids, or nearly so.
func (q *Queue) ExpireEvents(ctx context.Context, age time.Duration, limit int) (int, error) {
	n := 0
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		n = 0
		_, now, err := q.now(tx)
		if err != nil {
			return err
		}
		var oldest []struct {
			ID int64
			At time.Time
		}
		if err := tx.Raw(sqlOldestEvents, limit).Scan(&oldest).Error; err != nil {
			return err
		}
		for n < len(oldest) && oldest[n].At.Before(now.Add(-age)) {
			n++
		}
		if n == 0 {
			return nil
		}
		return tx.Exec(sqlDeleteEvents, oldest[n-1].ID).Error
	})
	return n, wrap(err, "delete old lines of the audit trail")
}
