package sqlqueue

import (
	"context"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Remove implements tasks.Queue. The first transaction ends all live tasks of the inbox. The rest
// is deleted in portions: otherwise others would wait for minutes while a large registry is
// deleted. Each transaction begins like the first: meanwhile an operator may have requeued a task
// or enabled the inbox.
func (q *Queue) Remove(ctx context.Context, who string, inboxID int64) error {
	var folders []int64
	err := q.removing(ctx, who, inboxID, func(tx *gorm.DB, _ time.Time) (err error) {
		folders, err = db.Query(tx, db.Value[int64], sqlFolders, inboxID)
		return err
	})
	for _, id := range folders {
		if err != nil {
			break
		}
		err = q.pages(ctx, id, math.MaxInt64, func(epoch int64, first, last uint32) error {
			return q.removing(ctx, who, inboxID, func(tx *gorm.DB, now time.Time) error {
				return erasePage(tx, now, id, epoch, first, last)
			})
		})
	}
	for more := err == nil; more && err == nil; {
		err = q.removing(ctx, who, inboxID, func(tx *gorm.DB, _ time.Time) error {
			upTo, err := first(tx, db.Value[[]byte], sqlOnceUpTo, inboxID, q.page)
			if more = upTo != nil; err != nil || !more {
				return err
			}
			return db.Run(tx, sqlDeleteOnceUpTo, inboxID, upTo)
		})
	}
	if err == nil {
		err = q.removing(ctx, who, inboxID, func(tx *gorm.DB, _ time.Time) error {
			return db.Run(tx, sqlDeleteInbox, inboxID)
		})
	}
	return wrap(err, "remove inbox %d", inboxID)
}

// removing runs a transaction on an inbox that is disabled and has no cursors and no live tasks.
// When one of its messages is being sent, it only disables the inbox: what the task owns stays
// owned until the reply is recorded. Then it pauses: on SQLite others poll for their turn.
func (q *Queue) removing(ctx context.Context, who string, inboxID int64, f func(*gorm.DB, time.Time) error) error {
	var sending []int64
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		live, err := q.disable(tx, now, who, inboxID)
		if err == nil {
			sending, err = db.Query(tx, db.Value[int64], sqlBeingSent, inboxID)
		}
		if err != nil || len(sending) > 0 {
			return err
		}
		for part := range slices.Chunk(live, portion) {
			if err := erase(tx, now, part); err != nil {
				return err
			}
		}
		if err := db.Run(tx, sqlNoCursors, inboxID); err != nil {
			return err
		}
		return f(tx, now)
	})
	if err == nil && len(sending) > 0 {
		return tasks.ErrSending
	}
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
	return err
}

// erasePage deletes the ledger's rows of a folder between two UIDs, and their tasks.
func erasePage(tx *gorm.DB, now time.Time, folderID, epoch int64, first, last uint32) error {
	ids, err := db.Query(tx, db.Value[int64], sqlTasksBetween, folderID, epoch, first, last)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, portion) {
		if err := erase(tx, now, part); err != nil {
			return err
		}
	}
	return db.Run(tx, sqlDeleteSeenBetween, folderID, epoch, first, last)
}

// erase deletes tasks with their part of the ledger. They still own the recipients that have the
// message, or that an operator skipped.
func erase(tx *gorm.DB, now time.Time, ids []int64) error {
	rows, err := statuses(tx, ids)
	if err != nil {
		return err
	}
	ds, err := deliveries(tx, ids)
	if err != nil {
		return err
	}
	given := map[int64][]string{}
	for _, r := range rows {
		if r.Skip != tasks.SkipOperator {
			given[r.ID] = tasks.Recipients(ds[r.ID], tasks.Pending, tasks.Sending, tasks.Failed, tasks.Duplicated)
		}
	}
	if err := giveUp(tx, given); err != nil {
		return err
	}
	if err := db.Run(tx, sqlForget, ids); err != nil {
		return err
	}
	return drop(tx, now, ids)
}
