package memqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"postrider/internal/tasks"
)

// arrival is what became of a delivery, and when that was recorded.
type arrival struct {
	tasks.Arrival
	reported time.Time
}

// Arrived implements tasks.Queue.
func (q *Queue) Arrived(_ context.Context, who string, taskID int64, recipient string, a tasks.Arrival) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	t := q.tasks[taskID]
	i := -1
	if t != nil {
		i = slices.IndexFunc(t.Deliveries, func(d tasks.Delivery) bool { return d.Recipient == recipient })
	}
	if i < 0 {
		return false, fmt.Errorf("task %d: record what became of the delivery to %s: %w",
			taskID, recipient, tasks.ErrNotFound)
	}
	if !tasks.Reached(t.Deliveries[i:i+1]) || !a.Beyond(t.arrivals[recipient].Arrival) ||
		t.Predates(a, t.Deliveries[i]) {
		return false, nil
	}
	a = a.Recorded(t.Deliveries[i].DeliveredAt, now)
	t.arrivals[recipient] = arrival{a, now}
	t.UpdatedAt = now
	q.event(now, taskID, who, string(a.Status), a.Line(recipient))
	return true, nil
}

// read returns the task for a reader, with what became of its deliveries.
func (q *Queue) read(t *task) tasks.Task {
	out := t.copy()
	out.Disabled = !q.inboxes[t.InboxID].active
	for i, d := range out.Deliveries {
		if a, known := t.arrivals[d.Recipient]; known {
			out.Deliveries[i].Arrival = &a.Arrival
		}
	}
	return out
}

// bounced reports whether a delivery of the task has bounced.
func (t *task) bounced() bool {
	for _, a := range t.arrivals {
		if a.Status == tasks.Bounced {
			return true
		}
	}
	return false
}

// SentAs implements tasks.Queue.
func (q *Queue) SentAs(_ context.Context, messageID string, within time.Duration) ([]int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since := q.now().Add(-within)
	var ids []int64
	for id, t := range q.tasks {
		if messageID != "" && t.Identity.MessageID == messageID &&
			!t.CreatedAt.Before(since) && tasks.Reached(t.Deliveries) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	return ids[:min(len(ids), tasks.SentAsMost)], nil
}

// Bounces implements tasks.Queue.
func (q *Queue) Bounces(_ context.Context, within time.Duration) (map[string]int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since := q.now().Add(-within)
	out := map[string]int{}
	for _, t := range q.tasks {
		for recipient, a := range t.arrivals {
			if a.Status == tasks.Bounced && a.OfMailbox() && a.reported.After(since) {
				out[recipient]++
			}
		}
	}
	return out, nil
}

// countArrivals counts what became of the deliveries of a task.
func (t *task) countArrivals(s *tasks.Stats, since time.Time) {
	if t.bounced() {
		s.Bounced++
	}
	for _, a := range t.arrivals {
		if slices.Contains(tasks.Troubles, a.Status) {
			s.Arrivals[a.Status]++
		}
		if a.Status == tasks.Bounced && a.reported.After(since) {
			s.Bounces++
		}
	}
}
