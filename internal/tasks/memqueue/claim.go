package memqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"postrider/internal/tasks"
)

// Receive implements tasks.Queue.
func (q *Queue) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.inboxes[want.InboxID]
	if in == nil || !in.active {
		return nil, nil
	}
	now := q.now()
	var taken []*task
	for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
		for len(taken) == 0 || losses(taken[0]) == 0 {
			next, ended := q.take(want, now, taken, in.due(priority, now, want.InHand))
			if !ended {
				taken = next
				break
			} // else what waited for one that has ended may be due
		}
	}
	var claims []tasks.Claim
	for _, t := range taken {
		claims = append(claims, q.claim(t, want, now))
	}
	return claims, nil
}

// due are the tasks of a priority that are due and not in the caller's hands.
func (in *inbox) due(p tasks.Priority, now time.Time, inHand []int64) []*task {
	var due []*task
	for _, t := range in.live {
		if t.Priority == p && !t.VisibleAt.After(now) && !slices.Contains(inHand, t.ID) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *task) int {
		return cmp.Or(a.VisibleAt.Compare(*b.VisibleAt), cmp.Compare(a.ID, b.ID))
	})
	return due
}

// losses is how many leases a task that is due has lost.
func losses(t *task) int {
	if t.Status == tasks.InProgress {
		return t.LostLeases + 1
	}
	return t.LostLeases
}

// take picks from what is due: tasks that never lost a lease, or a single one that did. It ends
// those that lost too many.
func (q *Queue) take(want tasks.Want, now time.Time, taken, due []*task) (_ []*task, ended bool) {
	for _, t := range due {
		if len(taken) == want.Max {
			break
		}
		lost := losses(t)
		if t.Status == tasks.InProgress && lost > want.MaxLostLeases {
			q.poisoned(t, lost, now)
			if want.Poisoned != nil {
				want.Poisoned(t.copy())
			}
			ended = true
			continue
		}
		if lost > 0 && len(taken) > 0 {
			break
		}
		taken = append(taken, t)
		if lost > 0 {
			break
		}
	}
	return taken, ended
}

func (q *Queue) poisoned(t *task, lost int, now time.Time) {
	t.LostLeases, t.receipt = lost, ""
	q.finish(t, tasks.Poisoned(t.Task), now)
}

func (q *Queue) claim(t *task, want tasks.Want, now time.Time) tasks.Claim {
	if t.Status == tasks.InProgress {
		q.event(now, t.ID, want.Worker, "lease_lost", tasks.TakenOver(t.Worker, t.Deliveries))
	}
	due, until := *t.VisibleAt, now.Add(want.Lease)
	t.LostLeases = losses(t)
	t.Status, t.VisibleAt, t.Worker, t.UpdatedAt = tasks.InProgress, &until, want.Worker, now
	t.receipt = rand.Text()
	t.Attempts++
	return tasks.Claim{
		Task:    t.copy(),
		Receipt: tasks.Receipt{TaskID: t.ID, Token: t.receipt, Worker: want.Worker},
		Alone:   t.LostLeases > 0,
		At:      now,
		Due:     due,
	}
}

// Extend implements tasks.Queue.
func (q *Queue) Extend(_ context.Context, lease time.Duration, receipts []tasks.Receipt) ([]tasks.Receipt, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var lost []tasks.Receipt
	for _, r := range receipts {
		if t := q.held(r); t != nil {
			q.show(t, now.Add(lease))
		} else {
			lost = append(lost, r)
		}
	}
	return lost, nil
}

// held is the task that a receipt is good for, nil when there is none.
func (q *Queue) held(r tasks.Receipt) *task {
	t := q.tasks[r.TaskID]
	if t == nil || t.Status != tasks.InProgress || t.receipt != r.Token {
		return nil
	}
	return t
}
