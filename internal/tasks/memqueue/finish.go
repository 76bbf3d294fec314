package memqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"postrider/internal/tasks"
)

// Sending implements tasks.Queue.
func (q *Queue) Sending(_ context.Context, c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	if !c.Recorded() {
		return q.claimSending(c, as, ds)
	}
	return q.withReceipt(c.Receipt, tasks.InProgress, false, func(t *task, now time.Time) {
		t.Form = as
		t.deliver(ds, now)
	})
}

// claimSending is Sending for a claim that was only offered. The second time it changes nothing.
func (q *Queue) claimSending(c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	switch t := q.tasks[c.Receipt.TaskID]; {
	case q.held(c.Receipt) != nil:
	case t == nil || t.receipt != "" || t.Status != tasks.Received || t.Revision != c.Task.Revision:
		return fmt.Errorf("task %d: %w", c.Receipt.TaskID, tasks.ErrTaken)
	default:
		t.Status, t.Worker, t.receipt = tasks.InProgress, c.Receipt.Worker, c.Receipt.Token
		t.Form, t.UpdatedAt = as, now
		t.Attempts++
		q.show(t, now.Add(c.Lease))
		t.deliver(ds, now)
	}
	return nil
}

// Note implements tasks.Queue.
func (q *Queue) Note(_ context.Context, r tasks.Receipt, n tasks.Note) error {
	return q.withReceipt(r, tasks.InProgress, false, func(t *task, now time.Time) {
		q.note(now, t.ID, r.Worker, n)
	})
}

// Reserve implements tasks.Queue.
func (q *Queue) Reserve(_ context.Context, r tasks.Receipt, res tasks.Reservation) (ds []tasks.Delivery, err error) {
	err = q.withReceipt(r, tasks.InProgress, false, func(t *task, now time.Time) {
		if res.Identity != nil {
			q.ledger.read(t.ID, t.Identity.Fingerprint, res.Identity.Fingerprint)
			t.identify(*res.Identity, t.Read || res.Identity.Fingerprint != t.Identity.Fingerprint)
		}
		if d := res.Decision; d != nil && !t.Begun() {
			q.redecide(t, d, now)
			for _, n := range d.Notes {
				q.note(now, t.ID, r.Worker, n)
			}
		}
		t.Revision, t.UpdatedAt = res.Revision, now
		q.own(t, res.Dedupe)
		ds = slices.Clone(t.Deliveries)
	})
	return ds, err
}

// redecide replaces the recipients of a task: those who stay keep their history, and those who are
// no longer among them are given up.
func (q *Queue) redecide(t *task, d *tasks.Decision, now time.Time) {
	before := t.Deliveries
	t.decide(d)
	var gone []string
	for _, old := range before {
		i := slices.IndexFunc(t.Deliveries, func(d tasks.Delivery) bool { return d.Recipient == old.Recipient })
		if i >= 0 {
			t.Deliveries[i] = old
		} else {
			gone = append(gone, old.Recipient)
		}
	}
	q.giveUp(t, gone, now)
}

// Finish implements tasks.Queue.
func (q *Queue) Finish(_ context.Context, r tasks.Receipt, res tasks.Result) error {
	if !res.Status.EndsClaim() {
		return fmt.Errorf("task %d: no claim ends as %q", r.TaskID, res.Status)
	}
	moved := false
	err := q.withReceipt(r, res.Status, false, func(t *task, now time.Time) {
		moved = res.Missed != nil && *res.Missed != (tasks.Place{Epoch: t.Epoch, UID: t.UID})
		if !moved {
			q.finish(t, res, now)
		}
	})
	if moved {
		return fmt.Errorf("task %d: %w", r.TaskID, tasks.ErrMoved)
	}
	return err
}

func (q *Queue) finish(t *task, res tasks.Result, now time.Time) {
	t.deliver(res.Deliveries, now)
	if res.Status.Ended() {
		q.end(t, res.Status, res.Skip, res.Reason, now)
	} else {
		t.Status, t.Reason, t.UpdatedAt = res.Status, res.Reason, now
		q.show(t, now.Add(res.Delay))
	}
	q.giveUp(t, tasks.GivesUp(res.Status, t.Deliveries), now)
	q.wakeWaiting(t.ID, tasks.Settles(res.Status, t.Deliveries), now)
	q.withdrawDisabled(t, now)
	if res.Status != tasks.Forwarded { // the deliveries say it
		q.event(now, t.ID, t.Worker, string(res.Status), res.Reason)
	}
}

// Release implements tasks.Queue.
func (q *Queue) Release(
	_ context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery,
) error {
	return q.withReceipt(c.Receipt, tasks.Received, !c.Recorded(), func(t *task, now time.Time) {
		t.deliver(ds, now)
		due := c.Due
		switch {
		case delay > 0:
			due = now.Add(delay)
		case q.waits(t):
			due = now.Add(tasks.WaitRecheck)
		}
		t.Status, t.Reason, t.UpdatedAt = tasks.Received, reason, now
		t.Attempts--
		q.show(t, due)
		q.giveUp(t, tasks.GivesUp(tasks.Received, t.Deliveries), now)
		q.wakeWaiting(t.ID, tasks.Settles(tasks.Received, t.Deliveries), now)
		q.withdrawDisabled(t, now)
	})
}

// waits reports whether all that a task could send waits for deliveries of others that are open.
func (q *Queue) waits(t *task) bool {
	return tasks.OnlyWaits(t.Deliveries) && !slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool {
		return d.Waits() && !q.open(d.DuplicateOf, d.Recipient)
	})
}

// withReceipt changes the task that the receipt is good for. Otherwise the lease was lost, unless
// the task stands in target by this very receipt: then it is the second time. A claim that was only
// offered may not have been made.
func (q *Queue) withReceipt(r tasks.Receipt, target tasks.Status, offered bool, change func(*task, time.Time)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	if t := q.held(r); t != nil {
		change(t, now)
		return nil
	}
	var holder task
	active := false
	if t := q.tasks[r.TaskID]; t != nil {
		holder, active = *t, q.inboxes[t.InboxID].active
	}
	if r.Token != "" && holder.receipt == r.Token && holder.Status == target {
		return nil
	}
	if offered {
		return fmt.Errorf("task %d: %w", r.TaskID, tasks.ErrTaken)
	}
	if holder.receipt == "" {
		holder.Worker = ""
	}
	stale := tasks.Stale(holder.Status, holder.Worker, active)
	q.event(now, r.TaskID, r.Worker, "conflict", tasks.Conflict(target, stale))
	return fmt.Errorf("task %d: %w: %s", r.TaskID, tasks.ErrLeaseLost, stale)
}

// deliver brings the rows of recipients up to date. Those that are not named stay.
func (t *task) deliver(ds []tasks.Delivery, now time.Time) {
	for _, d := range ds {
		d.Arrival = nil // a worker does not change it
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
