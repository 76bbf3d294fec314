package sqlqueue

import (
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// lockHeirs keeps a duplicate from being registered while its original ends: it would find nobody to take its place.
func (q *Queue) lockHeirs(tx *gorm.DB, taskID int64, dedupe tasks.Dedupe) error {
	var inboxID int64
	if err := tx.Raw(sqlInboxOf, taskID).Scan(&inboxID).Error; err != nil {
		return err
	}
	return q.lockScope(tx, inboxID, dedupe)
}

// heir is a task that was skipped as the duplicate of another.
type heir struct {
	ID     int64
	Active bool // its inbox is in use
}

// heirsOf are the duplicates of a task, those first whose inbox is in use.
func heirsOf(tx *gorm.DB, taskID int64) (heirs []heir, _ error) {
	err := tx.Raw(sqlHeirs, tasks.DuplicateOf(taskID), taskID).Scan(&heirs).Error
	return heirs, err
}

// rename makes tasks the duplicates of another original.
func rename(tx *gorm.DB, heirs []heir, original int64) error {
	if len(heirs) == 0 {
		return nil
	}
	ids := make([]int64, len(heirs))
	for i, h := range heirs {
		ids[i] = h.ID
	}
	return tx.Exec(sqlNewOriginal, tasks.DuplicateOf(original), ids).Error
}

// inherit puts the first duplicate of a task that leaves its place there, and makes the others its duplicates. When none
// is of an inbox in use, all go on, each to be reserved when its own inbox is: none has to wait for another's.
func inherit(tx *gorm.DB, now time.Time, taskID int64, why string, dedupe tasks.Dedupe) error {
	heirs, err := heirsOf(tx, taskID)
	if err != nil {
		return err
	}
	return bequeath(tx, now, taskID, heirs, why, dedupe)
}

// bequeath is inherit for heirs that are known.
func bequeath(tx *gorm.DB, now time.Time, taskID int64, heirs []heir, why string, dedupe tasks.Dedupe) error {
	if len(heirs) == 0 {
		return nil
	}
	other, err := another(tx, taskID, heirs[0].ID, dedupe)
	if err != nil {
		return err
	}
	if other != 0 {
		return rename(tx, heirs, other)
	}
	ds, err := deliveries(tx, []int64{taskID})
	if err != nil {
		return err
	}
	reached, next := tasks.Reached(ds[taskID]), 1
	if !reached && !heirs[0].Active {
		next = len(heirs)
	}
	for _, h := range heirs[:next] {
		if err := revive(tx, now, h.ID, tasks.InPlaceOf(taskID, why)); err != nil {
			return err
		}
	}
	if reached {
		if err := handOver(tx, now, taskID, heirs[0].ID, ds[taskID]); err != nil {
			return err
		}
	}
	return rename(tx, heirs[next:], heirs[0].ID)
}

// another is a task that accounts for the message of an heir anyway, 0 when there is none.
func another(tx *gorm.DB, gone, heir int64, dedupe tasks.Dedupe) (int64, error) {
	var h taskRow
	if err := tx.Raw(sqlTask, heir).Scan(&h).Error; err != nil {
		return 0, err
	}
	found, err := seenLike(tx, h.Fingerprint)
	this := ledger.Row{InboxID: h.InboxID, FolderID: h.FolderID, Epoch: h.UIDValidity, TaskID: heir}
	for _, r := range found {
		if r.TaskID != gone && r.Duplicates(this, dedupe) {
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
