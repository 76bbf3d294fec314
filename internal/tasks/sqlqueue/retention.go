package sqlqueue

import (
	"context"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// Expire implements tasks.Queue.
func (q *Queue) Expire(ctx context.Context, inboxID int64, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		ids, err = q.expire(tx, now, inboxID, age, limit)
		return err
	})
	return len(ids), wrap(err, "delete tasks that were forwarded long ago")
}

func (q *Queue) expire(tx *gorm.DB, now time.Time, inboxID int64, age time.Duration, limit int) (ids []int64, _ error) {
	if err := tx.Raw(q.db.Lock(sqlExpired), inboxID, now.Add(-age), limit).Scan(&ids).Error; err != nil || len(ids) == 0 {
		return nil, err
	}
	return ids, purge(tx, now, ids)
}

// purge deletes tasks that are locked. The ledger keeps how they ended. Who waits for one of their
// deliveries finds that settled.
func purge(tx *gorm.DB, now time.Time, ids []int64) error {
	known, err := notedOf(tx, ids)
	if err != nil {
		return err
	}
	as := map[string][]notedRow{}
	for _, r := range known {
		ended := tasks.PurgedAs(r.Status, r.SkipReason)
		as[ended] = append(as[ended], r)
	}
	for ended, rows := range as {
		if err := tx.Exec(sqlPurgedAs, ended, keysIn(rows), idsIn(rows)).Error; err != nil {
			return err
		}
	}
	return drop(tx, now, ids)
}

// drop deletes tasks, whose rows in monitored_emails_once are settled for good, and wakes who waits for one of their deliveries.
func drop(tx *gorm.DB, now time.Time, ids []int64) error {
	if err := tx.Exec(sqlKeepOwned, ids).Error; err != nil {
		return err
	}
	if err := tx.Exec(sqlDelete, ids).Error; err != nil {
		return err
	}
	waiting, err := waitingFor(tx, ids)
	if err != nil {
		return err
	}
	return wake(tx, now, waiting, waitedFor(waiting))
}

// notedRow is a row of sqlNoted.
type notedRow struct {
	ID                 int64
	Status             tasks.Status
	SkipReason         tasks.SkipReason
	Fingerprint, Noted []byte
}

func notedOf(tx *gorm.DB, ids []int64) (rows []notedRow, err error) {
	err = tx.Raw(sqlNoted, ids).Scan(&rows).Error
	return rows, err
}

// keysIn is what finds the rows of tasks in the ledger.
func keysIn(rows []notedRow) (keys [][]byte) {
	for _, r := range rows {
		keys = append(keys, r.Fingerprint, r.Noted)
	}
	return keys
}

func idsIn(rows []notedRow) (ids []int64) {
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids
}

// ExpireEvents implements tasks.Queue. Lines are written in the order of their ids, or nearly so.
func (q *Queue) ExpireEvents(ctx context.Context, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.change(ctx, func(tx *gorm.DB, now time.Time) error {
		ids = nil
		var oldest []struct {
			ID int64
			At time.Time
		}
		if err := tx.Raw(sqlOldestEvents, limit).Scan(&oldest).Error; err != nil {
			return err
		}
		for _, e := range oldest {
			if !e.At.Before(now.Add(-age)) {
				break
			}
			ids = append(ids, e.ID)
		}
		if len(ids) == 0 {
			return nil
		}
		return tx.Exec(sqlDeleteEvents, ids).Error
	})
	return len(ids), wrap(err, "delete old lines of the audit trail")
}
