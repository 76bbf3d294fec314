package sqlqueue

import (
	"context"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
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
		var found []match
		if err := tx.Raw(sqlSeenByFingerprint, [][]byte{e.Fingerprint[:]}).Scan(&found).Error; err != nil {
			return 0, err
		}
		for _, m := range found {
			if of == 0 && m.TaskID != r.TaskID && m.forwards() && counts(m, self, dedupe) {
				of = m.TaskID
			}
		}
		return 1, identify(tx, r, self, e, now)
	})
	return of, err
}

// counts reports whether an equal message makes a duplicate of the task: by the scope, or since it is the same
// message of an older epoch.
func counts(m match, self taskRow, dedupe tasks.Dedupe) bool {
	switch {
	case m.FolderID == self.FolderID && m.UIDValidity != self.UIDValidity, dedupe == tasks.DedupeAll:
		return true
	}
	return dedupe == tasks.DedupeInbox && m.InboxID == self.InboxID
}

func identify(tx *gorm.DB, r tasks.Receipt, self taskRow, e tasks.Entry, now time.Time) error {
	var date *time.Time
	if !e.Date.IsZero() {
		utc := e.Date.UTC()
		date = &utc
	}
	err := tx.Exec(sqlIdentify, e.Fingerprint[:], clean(e.MessageID, maxText), clean(e.Subject, maxText), clean(e.Sender, maxText),
		date, e.Size, now, r.TaskID, r.Token).Error
	if err != nil {
		return err
	}
	return tx.Exec(sqlIdentifySeen, e.Fingerprint[:], self.FolderID, self.UIDValidity, self.UID).Error
}
