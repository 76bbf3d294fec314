package memqueue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"postrider/internal/tasks"
)

// Requeue implements tasks.Queue.
func (q *Queue) Requeue(_ context.Context, by tasks.By, ids ...int64) (int, error) {
	from := among(tasks.FromByOperator(tasks.Received))
	may := func(t *task) bool { return from(t) && (t.Status != tasks.Forwarded || t.bounced()) }
	return q.change(by, "requeued", ids, may, func(t *task, now time.Time) {
		for i := range t.Deliveries {
			t.requeue(&t.Deliveries[i])
		}
		t.Attempts, t.LostLeases = 0, 0
		q.restart(t, now)
	}), nil
}

// requeue lets a delivery begin again, unless the recipient has the message.
func (t *task) requeue(d *tasks.Delivery) {
	switch {
	case d.Status != tasks.Delivered:
		t.InDoubt = t.InDoubt || d.Status == tasks.Sending
	case t.arrivals[d.Recipient].Status == tasks.Bounced:
		d.Code, d.Reply = 0, ""
	default:
		return
	}
	d.Status, d.DuplicateOf, d.DeliveredAt = tasks.Pending, 0, nil
	delete(t.arrivals, d.Recipient)
}

// Skip implements tasks.Queue.
func (q *Queue) Skip(_ context.Context, by tasks.By, ids ...int64) (int, error) {
	return q.change(by, "skipped", ids, among(tasks.FromByOperator(tasks.Skipped)), func(t *task, now time.Time) {
		q.end(t, tasks.Skipped, tasks.SkipOperator, tasks.BySkip(by), now)
		for _, d := range t.Deliveries {
			q.keep(t, d.Recipient)
		}
		q.wakeWaiting(t.ID, tasks.Settles(tasks.Skipped, t.Deliveries), now)
	}), nil
}

// keep has a task own a recipient in its inbox and everywhere, unless another task does: an
// operator does not say for which scope.
func (q *Queue) keep(t *task, recipient string) {
	if !t.Read {
		return
	}
	for _, dedupe := range []tasks.Dedupe{tasks.DedupeInbox, tasks.DedupeAll} {
		key := onceKeyOf(t, dedupe, recipient)
		if _, owned := q.once[key]; !owned {
			q.once[key] = t.ID
		}
	}
}

// Resolve implements tasks.Queue. A task with recipients that do not have the message goes on: for
// those that were deferred, and to report those that were refused.
func (q *Queue) Resolve(_ context.Context, by tasks.By, ids ...int64) (int, error) {
	return q.change(by, "resolved", ids, among(tasks.FromByOperator(tasks.Forwarded)), func(t *task, now time.Time) {
		for i := range t.Deliveries {
			if d := &t.Deliveries[i]; d.Status == tasks.Sending {
				d.Status, d.DeliveredAt = tasks.Delivered, &now
			}
		}
		if len(tasks.Without(t.Deliveries)) > 0 {
			t.Attempts, t.LostLeases = 0, 0
			q.restart(t, now)
		} else {
			q.end(t, tasks.Forwarded, "", "", now)
		}
		q.wakeWaiting(t.ID, tasks.Settles(t.Status, t.Deliveries), now)
	}), nil
}

// Purge implements tasks.Queue. The ledger, the audit trail and who got which content stay.
func (q *Queue) Purge(_ context.Context, by tasks.By, ids ...int64) (int, error) {
	return q.change(by, "purged", ids, among(tasks.Purgeable), func(t *task, now time.Time) { q.delete(t, now) }), nil
}

// delete deletes a task. Whoever waits for one of its deliveries finds that settled.
func (q *Queue) delete(t *task, now time.Time) {
	q.ledger.purge(t.ID, tasks.PurgedAs(t.Status, t.Skip))
	q.drop(t, now)
}

// drop deletes a task, which keeps what it owns.
func (q *Queue) drop(t *task, now time.Time) {
	delete(q.tasks, t.ID)
	for key, id := range q.once {
		if id == t.ID {
			q.once[key] = -id
		}
	}
	q.wakeWaiting(t.ID, recipientsOf(t), now)
}

func recipientsOf(t *task) []string {
	var out []string
	for _, d := range t.Deliveries {
		out = append(out, d.Recipient)
	}
	return out
}

// among reports which tasks stand in one of the states.
func among(states []tasks.Status) func(*task) bool {
	return func(t *task) bool { return slices.Contains(states, t.Status) }
}

// change changes those of the tasks that the command may change. Their receipts become stale.
func (q *Queue) change(by tasks.By, what string, ids []int64, may func(*task) bool, do func(*task, time.Time)) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	changed := 0
	for _, id := range ids {
		t := q.tasks[id]
		if t == nil || !by.Means(t.Status) || !may(t) {
			continue
		}
		do(t, now)
		q.withdrawDisabled(t, now)
		changed++
		t.receipt = ""
		q.event(now, id, by.Who, what, by.Detail())
	}
	return changed
}

// Forget implements tasks.Queue. Only the queue itself can delete its tasks.
func (q *Queue) Forget(context.Context, string, int64, int64, ...uint32) (int, error) { return 0, nil }

// Disable implements tasks.Queue.
func (q *Queue) Disable(_ context.Context, by tasks.By, inboxID int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	if in := q.inboxes[inboxID]; in != nil && in.active {
		q.inboxTrail[inboxID] = append(q.inboxTrail[inboxID],
			tasks.Event{At: now, Worker: by.Who, Event: "disabled", Detail: by.Detail()})
	}
	q.disable(by.Who, inboxID, now)
	return nil
}

func (q *Queue) disable(who string, inboxID int64, now time.Time) {
	in := q.inboxes[inboxID]
	if in == nil {
		return
	}
	in.active = false
	live := slices.SortedFunc(maps.Values(in.live), func(a, b *task) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range live {
		if t.Status != tasks.InProgress || q.unclaim(who, t, now) {
			q.withdraw(t, now)
		}
	}
}

// unclaim ends a claim in a disabled inbox. When the relay may have the message, and its reply is
// not recorded yet, it does so only if the lease has run out.
func (q *Queue) unclaim(who string, t *task, now time.Time) bool {
	switch sending := len(tasks.Recipients(t.Deliveries, tasks.Sending)) > 0; {
	case sending && t.VisibleAt.After(now):
		return false
	case sending:
		t.LostLeases++
		t.receipt = ""
		q.finish(t, tasks.Abandoned(t.Task), now)
	default:
		t.Status, t.receipt, t.UpdatedAt = tasks.Received, "", now
		t.Attempts--
		q.show(t, now)
		q.event(now, t.ID, who, "released", tasks.Disabled)
	}
	return true
}

// EndAbandoned implements tasks.Queue.
func (q *Queue) EndAbandoned(context.Context) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	ended := 0
	for _, t := range q.tasks {
		if t.Status == tasks.InProgress && !q.inboxes[t.InboxID].active && !t.VisibleAt.After(now) {
			q.unclaim("", t, now)
			q.withdraw(t, now)
			ended++
		}
	}
	return ended, nil
}

// withdraw has a live task give up the recipients that it has not delivered to.
func (q *Queue) withdraw(t *task, now time.Time) {
	t.Revision = ""
	q.giveUp(t, tasks.Recipients(t.Deliveries, tasks.Pending), now)
}

// withdrawDisabled is withdraw for a task that waits in a disabled inbox, but not by Disable.
func (q *Queue) withdrawDisabled(t *task, now time.Time) {
	if (t.Status == tasks.Received || t.Status == tasks.Error) && !q.inboxes[t.InboxID].active {
		q.withdraw(t, now)
	}
}

// Remove implements tasks.Queue. What was delivered in the scope of all inboxes stays owned.
func (q *Queue) Remove(_ context.Context, who string, inboxID int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.disable(who, inboxID, now)
	for _, t := range q.tasks {
		if t.InboxID == inboxID && t.Status == tasks.InProgress {
			return tasks.ErrSending
		}
	}
	for _, t := range q.tasks {
		if t.InboxID != inboxID {
			continue
		}
		if t.Skip != tasks.SkipOperator {
			given := tasks.Recipients(t.Deliveries, tasks.Pending, tasks.Sending, tasks.Failed, tasks.Duplicated)
			q.giveUp(t, given, now)
		}
		q.drop(t, now)
	}
	maps.DeleteFunc(q.once, func(key onceKey, _ int64) bool { return key.scope == inboxID })
	for _, r := range q.ledger.at {
		if r.inboxID == inboxID {
			q.ledger.drop(r)
		}
	}
	maps.DeleteFunc(q.folders, func(_ int64, f *folder) bool { return f.inboxID == inboxID })
	delete(q.inboxes, inboxID)
	return nil
}

// Expire implements tasks.Queue.
func (q *Queue) Expire(_ context.Context, inboxIDs []int64, age time.Duration, limit int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	before := now.Add(-age)
	var old []*task
	for _, t := range q.tasks {
		if slices.Contains(inboxIDs, t.InboxID) && t.Status == tasks.Forwarded && t.FinishedAt.Before(before) {
			old = append(old, t)
		}
	}
	slices.SortFunc(old, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.InboxID, b.InboxID), a.FinishedAt.Compare(*b.FinishedAt), cmp.Compare(a.ID, b.ID))
	})
	old = old[:min(len(old), limit)]
	for _, t := range old {
		q.delete(t, now)
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
		old := n < limit && e.At.Before(before)
		if old {
			n++
		}
		return old
	})
	return n, nil
}
