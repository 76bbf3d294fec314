package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Expire implements tasks.Queue.
func (q *Queue) Expire(ctx context.Context, inboxIDs []int64, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		ids, err = q.expire(tx, now, inboxIDs, age, limit)
		return err
	})
	return len(ids), wrap(err, "delete tasks that were forwarded long ago")
}

func (q *Queue) expire(
	tx *gorm.DB, now time.Time, inboxIDs []int64, age time.Duration, limit int,
) (ids []int64, _ error) {
	for some := range slices.Chunk(inboxIDs, inboxesAtOnce) {
		if len(ids) == limit {
			break
		}
		old, err := db.Query(tx, db.Value[int64], q.db.Lock(sqlExpired), some, now.Add(-age), limit-len(ids))
		if err != nil {
			return nil, err
		}
		ids = append(ids, old...)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return ids, purge(tx, now, string(tasks.Forwarded), ids)
}

// purge deletes tasks; the ledger keeps how they ended.
func purge(tx *gorm.DB, now time.Time, as string, ids []int64) error {
	if err := db.Run(tx, sqlPurgedAs, as, ids); err != nil {
		return err
	}
	return drop(tx, now, ids)
}

// drop deletes tasks and wakes the tasks that wait for their deliveries. Their rows in
// monitored_emails_once stay.
func drop(tx *gorm.DB, now time.Time, ids []int64) error {
	if err := db.Run(tx, sqlKeepOwned, ids); err != nil {
		return err
	}
	if err := db.Run(tx, sqlDelete, ids); err != nil {
		return err
	}
	waiting, err := waitingFor(tx, ids)
	if err != nil {
		return err
	}
	return wake(tx, now, waiting, waitedFor(waiting))
}

// ExpireEvents implements tasks.Queue.
func (q *Queue) ExpireEvents(ctx context.Context, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		ids, err = db.Query(tx, db.Value[int64], sqlExpiredEvents, now, limit, now.Add(-age))
		if err != nil || len(ids) == 0 {
			return err
		}
		return db.Run(tx, sqlDeleteEvents, ids)
	})
	return len(ids), wrap(err, "delete old lines of the audit trail")
}
