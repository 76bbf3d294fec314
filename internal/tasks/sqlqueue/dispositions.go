package sqlqueue

import (
	"context"
	"maps"
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
		at := map[int64]int{}
		for i, r := range rows {
			out[i] = tasks.Disposition{UID: r.UID, TaskID: r.TaskID}
			if r.TaskID != 0 {
				out[i].Status, out[i].Purged = ledger.Disposed(r.PurgedAs), true // unless the task is found
				at[r.TaskID] = i
			}
		}
		return describe(tx, out, at)
	})
	return out, wrap(err, "read how folder %d is accounted for", folderID)
}

// describe adds what the tasks say to their dispositions, which stand at the given places.
func describe(tx *gorm.DB, out []tasks.Disposition, at map[int64]int) error {
	const portion = 500
	ids := slices.Collect(maps.Keys(at))
	for part := range slices.Chunk(ids, portion) {
		var rows []taskRow
		if err := tx.Raw(sqlTasksByID, part).Scan(&rows).Error; err != nil {
			return err
		}
		ds, err := deliveries(tx, part)
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := &out[at[r.ID]]
			d.Status, d.Reason, d.Purged, d.Deliveries = r.Status, r.ErrorMessage, false, ds[r.ID]
		}
	}
	return nil
}
