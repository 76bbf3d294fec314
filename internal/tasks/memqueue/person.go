package memqueue

import (
	"context"
	"slices"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Requeue implements tasks.Queue.
func (q *Queue) Requeue(_ context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(who, "requeued", ids, tasks.FromByPerson(tasks.Received), func(t *task, now time.Time) bool {
		t.forget()
		t.turn(tasks.Pending, tasks.Failed, tasks.Sending)
		q.restart(t, now)
		return true
	}), nil
}

// Skip implements tasks.Queue.
func (q *Queue) Skip(_ context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(who, "skipped", ids, tasks.FromByPerson(tasks.Skipped), func(t *task, now time.Time) bool {
		q.end(t, tasks.Skipped, tasks.ByPersonPrefix+who, now)
		return true
	}), nil
}

// Resolve implements tasks.Queue. A task with recipients that do not have the message goes on: for those that were
// put off, and to say who was refused.
func (q *Queue) Resolve(_ context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(who, "resolved", ids, tasks.FromByPerson(tasks.Forwarded), func(t *task, now time.Time) bool {
		for i := range t.Deliveries {
			if d := &t.Deliveries[i]; d.Status == tasks.Sending {
				d.Status, d.DeliveredAt = tasks.Delivered, &now
			}
		}
		if t.stands(tasks.Pending, tasks.Failed) {
			q.restart(t, now)
		} else {
			q.end(t, tasks.Forwarded, "", now)
		}
		return true
	}), nil
}

// Purge implements tasks.Queue. The ledger and the audit trail keep what they know of the tasks deleted.
func (q *Queue) Purge(_ context.Context, who string, ids ...int64) (int, error) {
	return q.byPerson(who, "purged", ids, tasks.Purgeable, func(t *task, _ time.Time) bool {
		if t.Status == tasks.Skipped && q.needed(t) {
			return false
		}
		q.ledger.purge(t.ID, ledger.PurgedAs(t.Status, t.Reason, tasks.Reached(t.Deliveries)))
		delete(q.tasks, t.ID)
		return true
	}), nil
}

// needed reports whether the task may still have to take the place of the one that it is a duplicate of.
func (q *Queue) needed(t *task) bool {
	return slices.ContainsFunc(q.ledger.like[t.Fingerprint], func(r *row) bool {
		other := q.tasks[r.taskID]
		return other != nil && other.Status != tasks.Forwarded && t.Reason == tasks.DuplicateOf(other.ID)
	})
}

// byPerson changes those tasks that stand in one of the states. What a person has changed, no receipt is good for any more.
func (q *Queue) byPerson(who, what string, ids []int64, from []tasks.Status, change func(*task, time.Time) bool) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	changed := 0
	for _, id := range ids {
		t := q.tasks[id]
		if t == nil || !slices.Contains(from, t.Status) || !change(t, now) {
			continue
		}
		changed++
		t.receipt = ""
		q.event(now, id, who, what, "by a person")
	}
	return changed
}

// restart lets a task begin anew.
func (q *Queue) restart(t *task, now time.Time) {
	t.Status, t.Reason, t.Attempts, t.LostLeases, t.QueuedAt, t.UpdatedAt = tasks.Received, "", 0, 0, now, now
	q.show(t, now)
}

// stands reports whether a delivery of the task is in one of the states.
func (t *task) stands(in ...tasks.DeliveryStatus) bool {
	return slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool { return slices.Contains(in, d.Status) })
}

// turn makes deliveries that are in one of the states stand elsewhere.
func (t *task) turn(to tasks.DeliveryStatus, from ...tasks.DeliveryStatus) {
	for i := range t.Deliveries {
		if slices.Contains(from, t.Deliveries[i].Status) {
			t.Deliveries[i].Status = to
		}
	}
}

// Forget implements tasks.Queue. Nobody but the queue itself can delete a task of it.
func (q *Queue) Forget(context.Context, string, int64, int64, ...uint32) (int, error) { return 0, nil }

// Expire implements tasks.Queue.
func (q *Queue) Expire(_ context.Context, inboxID int64, age time.Duration, limit int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.now().Add(-age)
	var old []*task
	for _, t := range q.tasks {
		if t.InboxID == inboxID && t.Status == tasks.Forwarded && t.FinishedAt.Before(before) {
			old = append(old, t)
		}
	}
	slices.SortFunc(old, func(a, b *task) int { return a.FinishedAt.Compare(*b.FinishedAt) })
	old = old[:min(len(old), limit)]
	for _, t := range old {
		q.ledger.purge(t.ID, string(tasks.Forwarded))
		delete(q.tasks, t.ID)
	}
	return len(old), nil
}

// ExpireEvents implements tasks.Queue. The trail is in the order in which it was written.
func (q *Queue) ExpireEvents(_ context.Context, age time.Duration, limit int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.now().Add(-age)
	n := 0
	q.trail = slices.DeleteFunc(q.trail, func(e tasks.Event) bool {
		old := n < limit && e.At.Before(before) && !q.doubts(e)
		if old {
			n++
		}
		return old
	})
	return n, nil
}

// doubts reports whether a line tells that an outcome was unknown, of a task that is there and was not forwarded.
func (q *Queue) doubts(e tasks.Event) bool {
	t := q.tasks[e.TaskID]
	return e.Event == string(tasks.Uncertain) && t != nil && t.Status != tasks.Forwarded
}
