package sqlqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Sending implements tasks.Queue.
func (q *Queue) Sending(ctx context.Context, r tasks.Receipt, as tasks.Form, ds []tasks.Delivery) error {
	return q.withReceipt(ctx, r, tasks.InProgress, func(tx *gorm.DB, now time.Time) (bool, error) {
		held, err := update(tx, sqlSending, touched(now, as.Mode, db.Cut(as.ModeReason, 500), r.TaskID, r.Token)...)
		if err != nil || !held {
			return false, err
		}
		return true, upsert(tx, deliveryRows(r.TaskID, ds, now))
	})
}

// Note implements tasks.Queue.
func (q *Queue) Note(ctx context.Context, r tasks.Receipt, n tasks.Note) error {
	return q.withReceipt(ctx, r, tasks.InProgress, func(tx *gorm.DB, now time.Time) (bool, error) {
		held, err := update(tx, sqlHold, touched(now, r.TaskID, r.Token)...)
		if err != nil || !held {
			return false, err
		}
		return true, noteOnce(tx, now, r.TaskID, r.Worker, n)
	})
}

// Finish implements tasks.Queue.
func (q *Queue) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if !res.Status.EndsClaim() {
		return fmt.Errorf("task %d: no claim ends as %q", r.TaskID, res.Status)
	}
	return q.withReceipt(ctx, r, res.Status, func(tx *gorm.DB, now time.Time) (bool, error) {
		held, err := finish(tx, now, r, res)
		if err != nil || !held {
			return false, err
		}
		if _, err = settle(tx, now, r.TaskID, res.Status, res.Deliveries); err != nil || res.Status == tasks.Forwarded {
			return true, err // the deliveries say it
		}
		return true, event(tx, now, r.TaskID, r.Worker, string(res.Status), res.Reason)
	})
}

func finish(tx *gorm.DB, now time.Time, r tasks.Receipt, res tasks.Result) (bool, error) {
	var visible *int64
	finished := &now
	if !res.Status.Ended() {
		micros := now.Add(res.Delay).UnixMicro()
		visible, finished = &micros, nil
	}
	query, args := sqlFinish, []any{res.Status, res.Skip, visible, cut(res.Reason), now, finished, r.TaskID, r.Token}
	if at := res.Missed; at != nil {
		query, args = sqlFinishAt, append(args, at.Epoch, at.UID)
	}
	return update(tx, query, args...)
}

// Release implements tasks.Queue.
func (q *Queue) Release(ctx context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery) error {
	r := c.Receipt
	return q.withReceipt(ctx, r, tasks.Received, func(tx *gorm.DB, now time.Time) (bool, error) {
		due := c.Due
		if delay > 0 {
			due = now.Add(delay)
		}
		held, err := update(tx, sqlRelease, due.UnixMicro(), cut(reason), now, r.TaskID, r.Token)
		if err != nil || !held {
			return false, err
		}
		all, err := settle(tx, now, r.TaskID, tasks.Received, ds)
		if err != nil || delay > 0 {
			return true, err
		}
		waits, err := q.waits(tx, all)
		if err != nil || !waits {
			return true, err
		}
		return true, tx.Exec(sqlPostpone, now.Add(tasks.WaitRecheck).UnixMicro(), r.TaskID).Error
	})
}

// waits reports whether all that a task could send waits for deliveries of others that are open.
func (q *Queue) waits(tx *gorm.DB, ds []tasks.Delivery) (bool, error) {
	if !tasks.OnlyWaits(ds) {
		return false, nil
	}
	var ids []int64
	for _, d := range ds {
		if d.Waits() {
			ids = append(ids, d.DuplicateOf)
		}
	}
	var owned []onceRow
	if err := tx.Raw(q.db.Share(sqlOwnedBy), ids).Scan(&owned).Error; err != nil {
		return false, err
	}
	s, err := progressOf(tx, ids, q.db.Share)
	for _, d := range ds {
		if d.Waits() && !open(owned, s, d) {
			return false, err
		}
	}
	return true, err
}

// open reports whether the task that a delivery waits for owns the recipient, and its own delivery
// is open.
func open(owned []onceRow, s progress, d tasks.Delivery) bool {
	mailbox := tasks.Mailbox(d.Recipient)
	return slices.ContainsFunc(owned, func(r onceRow) bool {
		return r.TaskID == d.DuplicateOf && r.Recipient == mailbox &&
			tasks.OwnerOf(r.TaskID, s.status[r.TaskID], s.deliveries[r.TaskID], mailbox).Open
	})
}

// withReceipt runs change, which reports whether the receipt is good. Otherwise the lease was lost,
// unless the task stands in target by this very receipt: then an earlier try was committed and the
// answer lost.
func (q *Queue) withReceipt(ctx context.Context, r tasks.Receipt, target tasks.Status,
	change func(*gorm.DB, time.Time) (held bool, _ error),
) error {
	var stale error
	err := q.change(ctx, func(tx *gorm.DB, now time.Time) error {
		stale = nil
		held, err := change(tx, now)
		if err != nil || held {
			return err
		}
		var is holder
		if err := tx.Raw(sqlHolder, r.TaskID).Scan(&is).Error; err != nil {
			return err
		}
		if r.Token != "" && is.Receipt == r.Token && is.Status == target {
			return nil
		}
		if is.Receipt == r.Token && is.Status == tasks.InProgress {
			stale = tasks.ErrMoved
			return nil
		}
		why := is.stale()
		stale = fmt.Errorf("%w: %s", tasks.ErrLeaseLost, why)
		return event(tx, now, r.TaskID, r.Worker, "conflict", tasks.Conflict(target, why))
	})
	if err != nil {
		return fmt.Errorf("task %d: record %s: %w", r.TaskID, target, err)
	}
	return wrap(stale, "task %d", r.TaskID)
}

// holder is a row of sqlHolder.
type holder struct {
	Status          tasks.Status
	Receipt, Worker string
	IsActive        bool
}

// stale is why a receipt is no longer good.
func (h holder) stale() string {
	if h.Receipt == "" {
		h.Worker = ""
	}
	return tasks.Stale(h.Status, h.Worker, h.IsActive)
}
