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
		res := tx.Raw(q.db.Lock(sqlPurgeable), id, tasks.Purgeable, tasks.DuplicatePrefix).Scan(&t)
		if res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		var reached int
		if err := tx.Raw(sqlReached, id).Scan(&reached).Error; err != nil {
			return 0, err
		}
		as := ledger.PurgedAs(t.Status, t.ErrorMessage, reached > 0)
		return 1, remove(tx, as, [][]byte{t.Fingerprint, t.Noted}, []int64{id})
	})
}

const deletedByOthers = "others had deleted it"

// Forget implements tasks.Queue. What is forgotten leaves its place to its duplicates: nobody knows whether it went out.
func (q *Queue) Forget(ctx context.Context, who string, folderID, epoch int64, uids ...uint32) (int, error) {
	var ids []int64
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		ids = nil
		_, now, err := q.now(tx)
		if err != nil {
			return err
		}
		var lost []struct {
			TaskID      int64
			Fingerprint []byte
		}
		if err := tx.Raw(sqlLost, folderID, epoch, uids).Scan(&lost).Error; err != nil || len(lost) == 0 {
			return err
		}
		var keys [][]byte
		for _, r := range lost {
			ids, keys = append(ids, r.TaskID), append(keys, r.Fingerprint)
			if err := event(tx, now, r.TaskID, who, "forgotten", deletedByOthers); err != nil {
				return err
			}
			heirs, err := q.lockDuplicates(tx, r.TaskID, sqlHeirsOfLost, r.Fingerprint)
			if err != nil {
				return err
			}
			by := leaving{task: r.TaskID, why: deletedByOthers, dedupe: tasks.DedupeOff} // the scope is looked at again before one goes out
			if err := bequeath(tx, now, by, heirs); err != nil {
				return err
			}
		}
		return tx.Exec(sqlForget, keys, ids).Error
	})
	return len(ids), wrap(err, "forget tasks of folder %d that others have deleted", folderID)
}

// Expire implements tasks.Queue.
func (q *Queue) Expire(ctx context.Context, inboxID int64, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		_, now, err := q.now(tx)
		if err == nil {
			ids, err = q.expire(tx, inboxID, now.Add(-age), limit)
		}
		return err
	})
	return len(ids), wrap(err, "delete tasks that were forwarded long ago")
}

func (q *Queue) expire(tx *gorm.DB, inboxID int64, before time.Time, limit int) (ids []int64, _ error) {
	var old []struct {
		ID                 int64
		Fingerprint, Noted []byte
	}
	if err := tx.Raw(q.db.Lock(sqlExpired), inboxID, before, limit).Scan(&old).Error; err != nil || len(old) == 0 {
		return nil, err
	}
	var keys [][]byte
	for _, t := range old {
		ids, keys = append(ids, t.ID), append(keys, t.Fingerprint, t.Noted)
	}
	return ids, remove(tx, string(tasks.Forwarded), keys, ids)
}

// remove deletes tasks that ended so. The keys are the fingerprints of the tasks and those of their rows in the ledger.
func remove(tx *gorm.DB, as string, keys [][]byte, ids []int64) error {
	if err := tx.Exec(sqlPurgedAs, as, keys, ids).Error; err != nil {
		return err
	}
	return tx.Exec(sqlDelete, ids).Error
}

// ExpireEvents implements tasks.Queue. Lines are written in the order of their ids, or nearly so.
func (q *Queue) ExpireEvents(ctx context.Context, age time.Duration, limit int) (int, error) {
	var ids []int64
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		ids = nil
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
