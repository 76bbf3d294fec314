package sqlqueue

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Sending implements tasks.Queue.
func (q *Queue) Sending(ctx context.Context, r tasks.Receipt, route string, as tasks.Form, ds []tasks.Delivery) error {
	return q.withReceipt(ctx, r, tasks.InProgress, func(tx *gorm.DB, now time.Time) (int64, error) {
		res := tx.Exec(sqlSending, db.Cut(route, 255), as.Mode, db.Cut(as.ModeReason, 500), r.TaskID, r.Token)
		if res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		return 1, upsert(tx, deliveryRows(r.TaskID, ds, now))
	})
}

// Note implements tasks.Queue.
func (q *Queue) Note(ctx context.Context, r tasks.Receipt, name, detail string) error {
	return q.withReceipt(ctx, r, tasks.InProgress, func(tx *gorm.DB, now time.Time) (int64, error) {
		var self taskRow
		if res := tx.Raw(q.db.Lock(sqlIdentity), r.TaskID, r.Token).Scan(&self); res.Error != nil || res.RowsAffected == 0 {
			return 0, res.Error
		}
		var noted int64
		if err := tx.Raw(sqlEventLike, r.TaskID, name, db.Cut(detail, maxText)).Scan(&noted).Error; err != nil || noted > 0 {
			return 1, err
		}
		return 1, event(tx, now, r.TaskID, r.Worker, name, detail)
	})
}

// Finish implements tasks.Queue.
func (q *Queue) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if !res.Status.EndsClaim() {
		return fmt.Errorf("task %d: no claim ends as %q", r.TaskID, res.Status)
	}
	return q.withReceipt(ctx, r, res.Status, func(tx *gorm.DB, now time.Time) (int64, error) {
		if res.Yields {
			if err := q.lockHeirs(tx, r.TaskID, res.Dedupe); err != nil {
				return 0, err
			}
		}
		if err := q.stillMissed(tx, r, res.Missed); err != nil {
			return 0, err
		}
		var visible *int64
		finished := &now
		if !res.Status.Ended() {
			v := now.Add(res.Delay).UnixMicro()
			visible, finished = &v, nil
		}
		done := tx.Exec(sqlFinish, res.Status, visible, db.Cut(res.Route, 255), db.Cut(res.Reason, maxText), now, finished, r.TaskID, r.Token)
		if done.Error != nil || done.RowsAffected == 0 {
			return 0, done.Error
		}
		if err := upsert(tx, deliveryRows(r.TaskID, res.Deliveries, now)); err != nil {
			return 0, err
		}
		if res.Status == tasks.Forwarded {
			return 1, nil // the deliveries tell it
		}
		if res.Yields {
			if err := q.inherit(tx, now, r.TaskID, res); err != nil {
				return 0, err
			}
		}
		return 1, tx.Exec(sqlHolderEvent, now, res.Status, db.Cut(res.Reason, maxText), r.TaskID).Error
	})
}

// stillMissed fails with ErrMoved when the task is no longer at the place where its message was missed.
func (q *Queue) stillMissed(tx *gorm.DB, r tasks.Receipt, missed *tasks.Place) error {
	if missed == nil {
		return nil
	}
	var self taskRow
	res := tx.Raw(q.db.Lock(sqlIdentity), r.TaskID, r.Token).Scan(&self)
	if res.Error == nil && res.RowsAffected > 0 && *missed != (tasks.Place{Epoch: self.UIDValidity, UID: self.UID}) {
		return tasks.ErrMoved
	}
	return res.Error
}

// Release implements tasks.Queue.
func (q *Queue) Release(ctx context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery) error {
	r := c.Receipt
	return q.withReceipt(ctx, r, tasks.Received, func(tx *gorm.DB, now time.Time) (int64, error) {
		due := c.Due
		if delay > 0 {
			due = now.Add(delay)
		}
		done := tx.Exec(sqlRelease, due.UnixMicro(), db.Cut(reason, maxText), now, r.TaskID, r.Token)
		if done.Error != nil || done.RowsAffected == 0 {
			return 0, done.Error
		}
		return 1, upsert(tx, deliveryRows(r.TaskID, ds, now))
	})
}

// withReceipt runs change, which reports how many rows the receipt opened. None means that the lease was lost, unless
// the task stands in target by this very receipt: then an earlier try was committed without our hearing of it.
func (q *Queue) withReceipt(ctx context.Context, r tasks.Receipt, target tasks.Status, change func(*gorm.DB, time.Time) (int64, error)) error {
	var lost string // why
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		lost = ""
		_, now, err := q.now(tx)
		if err != nil {
			return err
		}
		rows, err := change(tx, now)
		if err != nil || rows > 0 {
			return err
		}
		var holder struct {
			Status          tasks.Status
			Receipt, Worker string
			InUse           bool
		}
		if err := tx.Raw(sqlHolder, r.TaskID).Scan(&holder).Error; err != nil {
			return err
		}
		if r.Token != "" && holder.Receipt == r.Token && holder.Status == target && target != tasks.InProgress {
			return nil
		}
		if holder.Receipt == "" {
			holder.Worker = ""
		}
		lost = tasks.Standing(holder.Status, holder.Worker, holder.InUse)
		return event(tx, now, r.TaskID, r.Worker, "conflict", tasks.Conflict(target, lost))
	})
	switch {
	case err != nil:
		return fmt.Errorf("task %d: record %s: %w", r.TaskID, target, err)
	case lost != "":
		return fmt.Errorf("task %d: %w: %s", r.TaskID, tasks.ErrLeaseLost, lost)
	case target != tasks.InProgress && target != tasks.Forwarded: // the task itself, or its heir, may be due
		q.bell.ring()
	}
	return nil
}

func upsert(tx *gorm.DB, rows []deliveryRow) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.Table(tableDeliveries).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "task_id"}, {Name: "recipient"}},
		DoUpdates: clause.AssignmentColumns([]string{"status", "code", "reply", "attempts", "delivered_at"}),
	}).CreateInBatches(&rows, 200).Error
}

func deliveries(tx *gorm.DB, ids []int64) (map[int64][]tasks.Delivery, error) {
	var rows []deliveryRow
	if err := tx.Raw(sqlDeliveries, ids).Scan(&rows).Error; err != nil {
		return nil, err
	}
	out := map[int64][]tasks.Delivery{}
	for _, r := range rows {
		out[r.TaskID] = append(out[r.TaskID], r.delivery())
	}
	return out, nil
}
