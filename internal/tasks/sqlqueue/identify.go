package sqlqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Identify implements tasks.Queue. What could not be read when it was registered, or begins anew, may be a message that is known
// by its content. It is skipped in the same transaction: later, the original may have ended and left its place to nobody, or
// this process may have died, and the next one would take the task for one that is to be sent. Its own duplicates are those of
// the original from then on.
func (q *Queue) Identify(ctx context.Context, r tasks.Receipt, e tasks.Entry, dedupe tasks.Dedupe) (int64, error) {
	var of int64
	err := q.withReceipt(ctx, r, tasks.InProgress, func(tx *gorm.DB, now time.Time) (int64, error) {
		if done, err := duplicated(tx, r, of); done || err != nil {
			return 1, err
		}
		of = 0
		if err := q.lockHeirs(tx, r.TaskID, dedupe); err != nil {
			return 0, err
		}
		var self taskRow
		if res := tx.Raw(sqlIdentity, r.TaskID, r.Token).Scan(&self); res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		found, err := seenLike(tx, e.Fingerprint[:])
		if err != nil {
			return 0, err
		}
		this := ledger.Row{InboxID: self.InboxID, FolderID: self.FolderID, Epoch: self.UIDValidity, TaskID: r.TaskID}
		if i := slices.IndexFunc(found, func(row ledger.Row) bool { return row.Duplicates(this, dedupe) }); i >= 0 {
			of = found[i].TaskID
		}
		self.Route = cmp.Or(db.Cut(e.Route, 255), self.Route)
		if err := identify(tx, r, self, e, now); err != nil || of == 0 {
			return 1, err
		}
		return 1, q.endAsDuplicate(tx, r, self.Route, of, now)
	})
	return of, err
}

// endAsDuplicate skips the task of a claim, and makes its duplicates those of its original.
func (q *Queue) endAsDuplicate(tx *gorm.DB, r tasks.Receipt, route string, of int64, now time.Time) error {
	heirs, err := q.heirsOf(tx, r.TaskID)
	if err == nil {
		err = rename(tx, heirs, of)
	}
	if err != nil {
		return err
	}
	why := tasks.DuplicateOf(of)
	if err := tx.Exec(sqlFinish, tasks.Skipped, nil, route, why, now, now, r.TaskID, r.Token).Error; err != nil {
		return err
	}
	return tx.Exec(sqlHolderEvent, now, tasks.Skipped, why, r.TaskID).Error
}

// duplicated reports whether an earlier try has skipped the task as a duplicate of of: its commit went through without our
// hearing of it.
func duplicated(tx *gorm.DB, r tasks.Receipt, of int64) (bool, error) {
	if of == 0 {
		return false, nil
	}
	var holder taskRow
	err := tx.Raw(sqlHolder, r.TaskID).Scan(&holder).Error
	return holder.Receipt == r.Token && holder.Status == tasks.Skipped, err
}

func identify(tx *gorm.DB, r tasks.Receipt, self taskRow, e tasks.Entry, now time.Time) error {
	err := tx.Exec(sqlIdentify, e.Fingerprint[:], db.Cut(e.MessageID, maxText), db.Cut(e.Subject, maxText), db.Cut(e.Sender, maxText),
		storable(e.Date), e.Size, self.Route, now, r.TaskID, r.Token).Error
	if err != nil {
		return err
	}
	if err := tx.Exec(sqlReadSeen, e.Fingerprint[:], self.Fingerprint, r.TaskID).Error; err != nil {
		return err
	}
	return tx.Exec(sqlIdentifySeen, e.Fingerprint[:], self.FolderID, self.UIDValidity, self.UID).Error
}
