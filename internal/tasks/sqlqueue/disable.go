package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// Disable implements tasks.Queue. It locks, in this order, what keeps others from registering and reserving, the live tasks, so that
// nobody claims or sends by one of them meanwhile, and then the inbox (sqlScopeInbox says why not before).
func (q *Queue) Disable(ctx context.Context, who string, inboxID int64, forGood bool) error {
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		if err := q.lockScope(tx, inboxID, tasks.DedupeAll); err != nil {
			return err
		}
		_, now, err := q.now(tx)
		if err != nil {
			return err
		}
		live, err := q.lockLive(tx, inboxID)
		if err != nil {
			return err
		}
		if err := tx.Exec(sqlDisable, now, inboxID).Error; err != nil {
			return err
		}
		for part := range slices.Chunk(live, portion) {
			if err := leave(tx, now, who, inboxID, part, forGood); err != nil {
				return err
			}
		}
		return nil
	})
	q.bell.ring()
	return wrap(err, "take inbox %d out of use", inboxID)
}

// portion is how many tasks a statement is about: more of them are rare, and so are statements of any length.
const portion = 500

// lockLive locks the live tasks of an inbox, and reads their states.
func (q *Queue) lockLive(tx *gorm.DB, inboxID int64) (live []taskRow, err error) {
	var ids []int64
	if err := tx.Raw(sqlLive, inboxID).Scan(&ids).Error; err != nil {
		return nil, err
	}
	slices.Sort(ids)
	for part := range slices.Chunk(ids, portion) {
		var rows []taskRow
		if err := tx.Raw(q.db.Lock(sqlStillLive), part).Scan(&rows).Error; err != nil {
			return nil, err
		}
		live = append(live, rows...)
	}
	return live, nil
}

// leave has live tasks leave their claims and their place, but for those that somebody got unless it is for good.
func leave(tx *gorm.DB, now time.Time, who string, inboxID int64, live []taskRow, forGood bool) error {
	ids := make([]int64, len(live))
	for i, r := range live {
		ids[i] = r.ID
	}
	var reached []int64
	if err := tx.Raw(sqlReachedOf, ids).Scan(&reached).Error; err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool { return slices.Contains(reached, id) })
	if err := undecide(tx, append(ids, 0)); err != nil { // no list is empty, and no task has the id 0
		return err
	}
	if forGood {
		ids = append(ids, reached...)
	}
	for _, r := range live {
		if r.Status != tasks.InProgress || !slices.Contains(ids, r.ID) {
			continue
		}
		if err := tx.Exec(sqlUnclaim, now.UnixMicro(), now, r.ID).Error; err != nil {
			return err
		}
		if err := event(tx, now, r.ID, who, "released", tasks.OutOfUse); err != nil {
			return err
		}
	}
	return yield(tx, now, inboxID, ids)
}

// yield leaves the places of tasks to their duplicates in other inboxes.
func yield(tx *gorm.DB, now time.Time, inboxID int64, ids []int64) error {
	var noted []struct{ Fingerprint []byte }
	var reasons []string
	if err := tx.Raw(sqlNoted, append(ids, 0)).Scan(&noted).Error; err != nil || len(noted) == 0 {
		return err
	}
	keys := make([][]byte, len(noted))
	for i, n := range noted {
		keys[i] = n.Fingerprint
	}
	if err := tx.Raw(sqlSkippedElsewhere, keys, inboxID).Scan(&reasons).Error; err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.Contains(reasons, tasks.DuplicateOf(id)) {
			continue
		}
		if err := inherit(tx, now, id, tasks.OutOfUse, tasks.DedupeAll); err != nil { // there are no heirs elsewhere in another scope
			return err
		}
	}
	return nil
}
