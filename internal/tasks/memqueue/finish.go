package memqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Sending implements tasks.Queue.
func (q *Queue) Sending(_ context.Context, r tasks.Receipt, route string, as tasks.Form, ds []tasks.Delivery) error {
	return q.withReceipt(r, tasks.InProgress, func(t *task, now time.Time) {
		t.Route, t.Form = route, as
		t.deliver(ds, now)
	})
}

// Note implements tasks.Queue.
func (q *Queue) Note(_ context.Context, r tasks.Receipt, name, detail string) error {
	return q.withReceipt(r, tasks.InProgress, func(t *task, now time.Time) {
		if !slices.ContainsFunc(q.trail, func(e tasks.Event) bool { return e.TaskID == t.ID && e.Event == name && e.Detail == detail }) {
			q.event(now, t.ID, r.Worker, name, detail)
		}
	})
}

// Identify implements tasks.Queue.
func (q *Queue) Identify(_ context.Context, r tasks.Receipt, e tasks.Entry, dedupe tasks.Dedupe) (duplicateOf int64, err error) {
	err = q.withReceipt(r, tasks.InProgress, func(t *task, now time.Time) {
		this := ledger.Row{InboxID: t.InboxID, FolderID: t.FolderID, Epoch: t.Epoch, TaskID: t.ID}
		found := q.alike(e.Fingerprint)
		if i := slices.IndexFunc(found, func(r ledger.Row) bool { return r.Duplicates(this, dedupe) }); i >= 0 {
			duplicateOf = found[i].TaskID
		}
		q.ledger.read(t.ID, t.Fingerprint, e.Fingerprint)
		t.describe(e)
		t.UpdatedAt = now
		if r := q.ledger.at[place{t.FolderID, t.Epoch, t.UID}]; r != nil {
			q.ledger.rekey(r, e.Fingerprint)
		}
		t.Route = cmp.Or(e.Route, t.Route)
		if duplicateOf != 0 {
			rename(q.heirsOf(t), duplicateOf)
			q.end(t, tasks.Skipped, tasks.DuplicateOf(duplicateOf), now)
			q.event(now, t.ID, t.Worker, string(tasks.Skipped), t.Reason)
		}
	})
	return duplicateOf, err
}

// Finish implements tasks.Queue.
func (q *Queue) Finish(_ context.Context, r tasks.Receipt, res tasks.Result) error {
	if !res.Status.EndsClaim() {
		return fmt.Errorf("task %d: no claim ends as %q", r.TaskID, res.Status)
	}
	moved := false
	err := q.withReceipt(r, res.Status, func(t *task, now time.Time) {
		if moved = res.Missed != nil && *res.Missed != (tasks.Place{Epoch: t.Epoch, UID: t.UID}); moved {
			return
		}
		t.Route = res.Route
		t.deliver(res.Deliveries, now)
		if res.Status.Ended() {
			q.end(t, res.Status, res.Reason, now)
		} else {
			t.Status, t.Reason, t.UpdatedAt = res.Status, res.Reason, now
			q.show(t, now.Add(res.Delay))
		}
		if res.Status == tasks.Forwarded {
			return // the deliveries tell it
		}
		if res.Yields {
			q.inherit(t, res, now)
		}
		q.event(now, t.ID, t.Worker, string(res.Status), res.Reason)
	})
	if moved {
		return fmt.Errorf("task %d: %w", r.TaskID, tasks.ErrMoved)
	}
	return err
}

// Release implements tasks.Queue.
func (q *Queue) Release(_ context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery) error {
	return q.withReceipt(c.Receipt, tasks.Received, func(t *task, now time.Time) {
		due := c.Due
		if delay > 0 {
			due = now.Add(delay)
		}
		t.Status, t.Reason, t.UpdatedAt = tasks.Received, reason, now
		t.Attempts--
		t.deliver(ds, now)
		q.show(t, due)
	})
}

// withReceipt changes the task that the receipt is good for. Without one the lease was lost, unless the task stands in
// target by this very receipt: then it is the second time.
func (q *Queue) withReceipt(r tasks.Receipt, target tasks.Status, change func(*task, time.Time)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	if t := q.held(r); t != nil {
		change(t, now)
		return nil
	}
	var holder task
	inUse := false
	if t := q.tasks[r.TaskID]; t != nil {
		holder, inUse = *t, q.inboxes[t.InboxID].active
	}
	if r.Token != "" && holder.receipt == r.Token && holder.Status == target {
		return nil
	}
	if holder.receipt == "" {
		holder.Worker = ""
	}
	standing := tasks.Standing(holder.Status, holder.Worker, inUse)
	q.event(now, r.TaskID, r.Worker, "conflict", tasks.Conflict(target, standing))
	return fmt.Errorf("task %d: %w: %s", r.TaskID, tasks.ErrLeaseLost, standing)
}

// deliver brings the rows of recipients up to date. Those that are not named stay.
func (t *task) deliver(ds []tasks.Delivery, now time.Time) {
	for _, d := range ds {
		if d.Status == tasks.Delivered && d.DeliveredAt == nil {
			d.DeliveredAt = &now
		}
		i, found := slices.BinarySearchFunc(t.Deliveries, d.Recipient, func(d tasks.Delivery, recipient string) int {
			return cmp.Compare(d.Recipient, recipient)
		})
		if found {
			t.Deliveries[i] = d
		} else {
			t.Deliveries = slices.Insert(t.Deliveries, i, d)
		}
	}
}
