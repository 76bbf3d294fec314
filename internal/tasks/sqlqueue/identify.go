package sqlqueue

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Identify implements tasks.Queue. What could not be read when it was registered may be a message that is known by
// its content.
func (q *Queue) Identify(ctx context.Context, r tasks.Receipt, e tasks.Entry, dedupe tasks.Dedupe) (int64, error) {
	var of int64
	err := q.withReceipt(ctx, r, tasks.InProgress, func(tx *gorm.DB, now time.Time) (int64, error) {
		of = 0
		if err := q.lockHeirs(tx, r.TaskID); err != nil {
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
		return 1, identify(tx, r, self, e, now)
	})
	return of, err
}

func identify(tx *gorm.DB, r tasks.Receipt, self taskRow, e tasks.Entry, now time.Time) error {
	err := tx.Exec(sqlIdentify, e.Fingerprint[:], clean(e.MessageID, maxText), clean(e.Subject, maxText), clean(e.Sender, maxText),
		storable(e.Date), e.Size, now, r.TaskID, r.Token).Error
	if err != nil {
		return err
	}
	if err := tx.Exec(sqlReadSeen, e.Fingerprint[:], self.Fingerprint, r.TaskID).Error; err != nil {
		return err
	}
	return tx.Exec(sqlIdentifySeen, e.Fingerprint[:], self.FolderID, self.UIDValidity, self.UID).Error
}
