package sqlqueue

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Dispositions implements tasks.Queue. The ledger has a row for every message that is accounted for.
func (q *Queue) Dispositions(ctx context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Disposition, error) {
	var out []tasks.Disposition
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		var rows []struct {
			UID      uint32 `gorm:"column:uid"`
			TaskID   int64
			PurgedAs string
		}
		if err := tx.Raw(sqlSeenBetween, folderID, epoch, from, to).Scan(&rows).Error; err != nil {
			return err
		}
		out = make([]tasks.Disposition, len(rows))
		for i, r := range rows {
			out[i] = tasks.Disposition{UID: r.UID, TaskID: r.TaskID}
			if r.TaskID != 0 {
				out[i].Status, out[i].Purged = ledger.Disposed(r.PurgedAs), true // unless the task is found
			}
		}
		return describe(tx, out)
	})
	return out, wrap(err, "read how folder %d is accounted for", folderID)
}

// describe adds what the tasks say that are still there.
func describe(tx *gorm.DB, out []tasks.Disposition) error {
	const portion = 500
	for part := range slices.Chunk(out, portion) {
		ids := make([]int64, len(part))
		for i, d := range part {
			ids[i] = d.TaskID
		}
		var rows []taskRow
		if err := tx.Raw(sqlTasksByID, ids).Scan(&rows).Error; err != nil {
			return err
		}
		ds, err := deliveries(tx, ids)
		if err != nil {
			return err
		}
		found := map[int64]taskRow{}
		for _, r := range rows {
			found[r.ID] = r
		}
		for i := range part {
			d := &part[i]
			if r, ok := found[d.TaskID]; ok {
				d.Status, d.Reason, d.Purged, d.Deliveries = r.Status, r.ErrorMessage, false, ds[r.ID]
			}
		}
	}
	return nil
}
