package sqlqueue

import (
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// lockHeirs keeps a duplicate from being registered while its original ends: it would find nobody to take its place. For one that
// accounts for its message the scope is that of all inboxes, whatever it is here: it may be on another host, while that is changed.
func (q *Queue) lockHeirs(tx *gorm.DB, taskID int64, dedupe tasks.Dedupe) error {
	var self struct {
		InboxID  int64
		Accounts bool
	}
	if err := tx.Raw(sqlMayHaveHeirs, taskID).Scan(&self).Error; err != nil {
		return err
	}
	if self.Accounts {
		dedupe = tasks.DedupeAll
	}
	return q.lockScope(tx, self.InboxID, dedupe)
}

// heir is a task that was skipped as the duplicate of another.
type heir struct {
	ID, InboxID int64
	Active      bool   // its inbox is in use
	Route       string // that it would have taken
}

// heirsOf are the duplicates of a task, those first whose inbox is in use.
func (q *Queue) heirsOf(tx *gorm.DB, taskID int64) ([]heir, error) {
	return q.lockDuplicates(tx, taskID, sqlHeirs, taskID)
}

// lockDuplicates are the duplicates of a task that a query finds by key. They are locked, so that no person puts one back meanwhile.
func (q *Queue) lockDuplicates(tx *gorm.DB, taskID int64, query string, key any) (heirs []heir, _ error) {
	reason := tasks.DuplicateOf(taskID)
	if err := tx.Raw(query, reason, key).Scan(&heirs).Error; err != nil || len(heirs) == 0 {
		return nil, err
	}
	var still []int64
	err := tx.Raw(q.db.Lock(sqlStillHeirs), heirIDs(heirs), reason).Scan(&still).Error
	return slices.DeleteFunc(heirs, func(h heir) bool { return !slices.Contains(still, h.ID) }), err
}

func heirIDs(heirs []heir) []int64 {
	ids := make([]int64, len(heirs))
	for i, h := range heirs {
		ids[i] = h.ID
	}
	return ids
}

// rename makes tasks the duplicates of another original.
func rename(tx *gorm.DB, heirs []heir, original int64) error {
	if len(heirs) == 0 {
		return nil
	}
	return tx.Exec(sqlNewOriginal, tasks.DuplicateOf(original), heirIDs(heirs)).Error
}

// inherit leaves the place of a task that ended so to its duplicates; of one that was refused to those by another route.
func (q *Queue) inherit(tx *gorm.DB, now time.Time, taskID int64, res tasks.Result) error {
	heirs, err := q.heirsOf(tx, taskID)
	if err != nil {
		return err
	}
	if res.Refused {
		heirs = slices.DeleteFunc(heirs, func(h heir) bool { return h.Route == db.Cut(res.Route, 255) })
	}
	return bequeath(tx, now, leaving{task: taskID, why: res.Reason, dedupe: res.Dedupe}, heirs)
}

// leaving is a task that leaves its place.
type leaving struct {
	task   int64
	why    string
	dedupe tasks.Dedupe
	inbox  int64 // that is removed with it; 0 for none
}

// bequeath puts the first heir of a task that leaves its place there, and makes the others its duplicates. When none
// is of an inbox in use, all go on, each to be reserved when its own inbox is: none has to wait for another's.
func bequeath(tx *gorm.DB, now time.Time, by leaving, heirs []heir) error {
	if len(heirs) == 0 {
		return nil
	}
	other, err := another(tx, by, heirs[0].ID)
	if err != nil {
		return err
	}
	if other != 0 {
		return rename(tx, heirs, other)
	}
	ds, err := deliveries(tx, []int64{by.task})
	if err != nil {
		return err
	}
	reached, next := tasks.Reached(ds[by.task]), 1
	if !reached && !heirs[0].Active {
		next = len(heirs)
	}
	for _, h := range heirs[:next] {
		if err := revive(tx, now, h.ID, tasks.InPlaceOf(by.task, by.why)); err != nil {
			return err
		}
	}
	if reached {
		if err := handOver(tx, now, by.task, heirs[0].ID, ds[by.task]); err != nil {
			return err
		}
	}
	return rename(tx, heirs[next:], heirs[0].ID)
}

// another is a task that accounts for the message of an heir anyway, 0 when there is none. One that waits in the inbox that is removed does
// not.
func another(tx *gorm.DB, by leaving, heir int64) (int64, error) {
	var h taskRow
	if err := tx.Raw(sqlTask, heir).Scan(&h).Error; err != nil {
		return 0, err
	}
	found, err := seenLike(tx, h.Fingerprint)
	this := ledger.Row{InboxID: h.InboxID, FolderID: h.FolderID, Epoch: h.UIDValidity, TaskID: heir}
	for _, r := range found {
		goes := r.TaskID == by.task || r.InboxID == by.inbox && !r.Status.Ended()
		if !goes && r.Duplicates(this, by.dedupe) {
			return r.TaskID, err
		}
	}
	return 0, err
}

// revive lets a task that was skipped go on.
func revive(tx *gorm.DB, now time.Time, taskID int64, why string) error {
	if err := tx.Exec(sqlInherit, now.UnixMicro(), now, now, taskID).Error; err != nil {
		return err
	}
	if _, err := forget(tx, taskID); err != nil {
		return err
	}
	return event(tx, now, taskID, "", "requeued", why)
}

// forget has the routes of today decide on a task that begins anew, unless somebody got it.
func forget(tx *gorm.DB, taskID int64) (reached bool, _ error) {
	var n int
	if err := tx.Raw(sqlReached, taskID).Scan(&n).Error; err != nil || n > 0 {
		return n > 0, err
	}
	return false, undecide(tx, []int64{taskID})
}

// undecide leaves tasks without a route, and without deliveries.
func undecide(tx *gorm.DB, ids []int64) error {
	if err := tx.Exec(sqlForgetRoute, ids).Error; err != nil {
		return err
	}
	return tx.Exec(sqlForgetDeliveries, ids).Error
}

// handOver gives the heir the route and the deliveries of a task that somebody has got the message by: nobody gets it twice. What
// is still to be delivered is the heir's alone from then on.
func handOver(tx *gorm.DB, now time.Time, taskID, heir int64, ds []tasks.Delivery) error {
	var gone taskRow
	if err := tx.Raw(sqlDecided, taskID).Scan(&gone).Error; err != nil {
		return err
	}
	if err := tx.Exec(sqlDecide, gone.Route, gone.Mode, gone.ModeReason, heir).Error; err != nil {
		return err
	}
	if err := upsert(tx, deliveryRows(heir, ds, now)); err != nil {
		return err
	}
	return tx.Exec(sqlKeepDelivered, taskID).Error
}
