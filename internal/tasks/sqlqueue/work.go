package sqlqueue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/address"
	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Sending implements tasks.Queue.
func (q *Queue) Sending(ctx context.Context, c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	reason := db.Cut(as.ModeReason, 500)
	return q.journal.Commit(ctx, &change{
		receipt: c.Receipt, offered: !c.Recorded(), target: tasks.InProgress, deliveries: ds,
		row: func(now time.Time) (string, []any) {
			if c.Recorded() {
				return sqlSending, touched(now, as.Mode, reason)
			}
			// The statement adds the ids, so that claims share it.
			of := strings.TrimSuffix(c.Receipt.Token, tasks.Token("", c.Receipt.TaskID))
			return sqlClaimSending, []any{
				now.Add(c.Lease).UnixMicro(), of, db.Cut(c.Receipt.Worker, 255), now, as.Mode, reason, c.Task.Revision,
			}
		},
	})
}

// Note implements tasks.Queue.
func (q *Queue) Note(ctx context.Context, r tasks.Receipt, n tasks.Note) error {
	return q.journal.Commit(ctx, &change{
		receipt: r, target: tasks.InProgress,
		row: func(now time.Time) (string, []any) { return sqlHold, touched(now) },
		also: func(tx *gorm.DB, now time.Time, _ []tasks.Delivery) error {
			return noteOnce(tx, now, r.TaskID, r.Worker, n)
		},
	})
}

// Finish implements tasks.Queue.
func (q *Queue) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if !res.Status.EndsClaim() {
		return fmt.Errorf("task %d: no claim ends as %q", r.TaskID, res.Status)
	}
	if res.Status == tasks.Forwarded { // the next message does not wait for this
		return q.journal.Join(ctx, finishing(r, res))
	}
	return q.journal.Commit(ctx, finishing(r, res))
}

func finishing(r tasks.Receipt, res tasks.Result) *change {
	c := &change{
		receipt: r, target: res.Status, deliveries: res.Deliveries,
		row: func(now time.Time) (string, []any) { return finished(now, res) },
	}
	if res.Status != tasks.Forwarded { // otherwise the deliveries say it
		c.also = func(tx *gorm.DB, now time.Time, _ []tasks.Delivery) error {
			return event(tx, now, r.TaskID, r.Worker, string(res.Status), res.Reason)
		}
	}
	return c
}

// finished is the row of a task whose claim has ended, and when it is due again.
func finished(now time.Time, res tasks.Result) (update string, args []any) {
	var visible, ended any
	if res.Status.Ended() {
		ended = now
	} else {
		visible = now.Add(res.Delay).UnixMicro()
	}
	args = []any{res.Status, res.Skip, visible, cut(res.Reason), now, ended}
	if at := res.Missed; at != nil {
		return sqlFinishAt, append(args, at.Epoch, at.UID)
	}
	return sqlFinish, args
}

// Release implements tasks.Queue.
func (q *Queue) Release(
	ctx context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery,
) error {
	return q.journal.Commit(ctx, &change{
		receipt: c.Receipt, offered: !c.Recorded(), target: tasks.Received, deliveries: ds,
		row: func(now time.Time) (string, []any) {
			due := c.Due
			if delay > 0 {
				due = now.Add(delay)
			}
			return sqlRelease, []any{due.UnixMicro(), cut(reason), now}
		},
		also: func(tx *gorm.DB, now time.Time, all []tasks.Delivery) error {
			if delay > 0 {
				return nil
			}
			waits, err := q.waits(tx, all)
			if err != nil || !waits {
				return err
			}
			return db.Run(tx, sqlPostpone, now.Add(tasks.WaitRecheck).UnixMicro(), c.Receipt.TaskID)
		},
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
	owned, err := db.Query(tx, (*onceRow).into, q.db.Share(sqlOwnedBy), ids)
	if err != nil {
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
	mailbox := address.Mailbox(d.Recipient)
	return slices.ContainsFunc(owned, func(r onceRow) bool {
		return r.taskID == d.DuplicateOf && r.mailbox == mailbox &&
			tasks.OwnerOf(r.taskID, s.status[r.taskID], s.deliveries[r.taskID], mailbox).Open
	})
}
