package sqlqueue

import (
	"context"
	"math"
	"time"

	"gorm.io/gorm"
)

// Remove implements tasks.Queue. With the first transaction the inbox has no live task, and nobody elsewhere waits for one of it: what is left
// is as good as purged. It goes page by page, since others would wait for minutes when a large registry goes at once. Each transaction
// begins as the first: a person may have put a task back meanwhile or enabled the inbox, and a task elsewhere have left its place to one here.
func (q *Queue) Remove(ctx context.Context, who string, inboxID int64) error {
	defer q.bell.ring()
	var folders []int64
	err := q.removing(ctx, who, inboxID, func(tx *gorm.DB) error {
		folders = nil
		return tx.Raw(sqlScopeInbox, inboxID).Scan(&folders).Error
	})
	for _, id := range folders {
		if err != nil {
			break
		}
		err = q.pages(ctx, id, math.MaxInt64, func(epoch int64, first, last uint32) error {
			return q.removing(ctx, who, inboxID, func(tx *gorm.DB) error {
				if err := tx.Exec(sqlDeleteTasksBetween, id, epoch, first, last).Error; err != nil {
					return err
				}
				return tx.Exec(sqlDeleteSeenBetween, id, epoch, first, last).Error
			})
		})
	}
	if err == nil {
		err = q.removing(ctx, who, inboxID, func(tx *gorm.DB) error { return tx.Exec(sqlDeleteInbox, inboxID).Error })
	}
	return wrap(err, "remove inbox %d", inboxID)
}

// removing is a transaction on an inbox that is out of use for good. Then it gives others a moment: on SQLite they only look now and then
// whether they can write.
func (q *Queue) removing(ctx context.Context, who string, inboxID int64, f func(tx *gorm.DB) error) error {
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		if err := q.takeOut(tx, who, inboxID, true); err != nil {
			return err
		}
		if err := tx.Exec(sqlNoCursors, inboxID).Error; err != nil {
			return err
		}
		return f(tx)
	})
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
	return err
}

// erase deletes tasks, and what is known of their messages.
func erase(tx *gorm.DB, ids []int64) error {
	keys, err := knownBy(tx, ids)
	if err != nil || len(keys) == 0 {
		return err
	}
	if err := tx.Exec(sqlForget, keys, ids).Error; err != nil {
		return err
	}
	return tx.Exec(sqlDelete, ids).Error
}

// knownBy is what finds the rows of tasks in the ledger: their fingerprints, and those of the rows where their messages are now.
func knownBy(tx *gorm.DB, ids []int64) (keys [][]byte, _ error) {
	var noted []struct{ Fingerprint, Noted []byte }
	err := tx.Raw(sqlNoted, append(ids, 0)).Scan(&noted).Error // no list is empty, and no task has the id 0
	for _, n := range noted {
		keys = append(keys, n.Fingerprint, n.Noted)
	}
	return keys, err
}
