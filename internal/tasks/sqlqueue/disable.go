package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// Disable implements tasks.Queue. It is one transaction, however many tasks wait: of one that is killed half-way, copies elsewhere would wait
// for those that were not reached.
func (q *Queue) Disable(ctx context.Context, who string, inboxID int64) error {
	err := q.db.Tx(ctx, func(tx *gorm.DB) error { return q.takeOut(tx, who, inboxID, false) })
	q.bell.ring()
	return wrap(err, "take inbox %d out of use", inboxID)
}

// takeOut locks, in this order, what keeps others from registering and reserving, the live tasks, so that nobody claims or sends by one of
// them meanwhile, and then the inbox (sqlScopeInbox says why not before).
func (q *Queue) takeOut(tx *gorm.DB, who string, inboxID int64, forGood bool) error {
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
		if err := q.leave(tx, now, who, inboxID, part, forGood); err != nil {
			return err
		}
	}
	return nil
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

// leave has live tasks leave their claims and their place, but for those that somebody got unless it is for good: then they are deleted.
func (q *Queue) leave(tx *gorm.DB, now time.Time, who string, inboxID int64, live []taskRow, forGood bool) error {
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
	if err := q.yield(tx, now, inboxID, ids, forGood); err != nil || !forGood {
		return err
	}
	return erase(tx, ids)
}

// yield leaves the places of tasks to their duplicates in other inboxes. When it is for good none of the inbox's own can take a place, or
// account for the message.
func (q *Queue) yield(tx *gorm.DB, now time.Time, inboxID int64, ids []int64, forGood bool) error {
	keys, err := knownBy(tx, ids)
	if err != nil || len(keys) == 0 {
		return err
	}
	var reasons []string
	if err := tx.Raw(sqlSkippedElsewhere, keys, inboxID).Scan(&reasons).Error; err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.Contains(reasons, tasks.DuplicateOf(id)) {
			continue
		}
		heirs, err := q.heirsOf(tx, id)
		if err != nil {
			return err
		}
		by := leaving{id, tasks.OutOfUse, tasks.DedupeAll, 0} // there are no heirs elsewhere in another scope
		if forGood {
			by.inbox = inboxID
			heirs = slices.DeleteFunc(heirs, func(h heir) bool { return h.InboxID == inboxID })
		}
		if err := bequeath(tx, now, by, heirs); err != nil {
			return err
		}
	}
	return nil
}
