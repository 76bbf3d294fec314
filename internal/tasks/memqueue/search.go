package memqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"postrider/internal/tasks"
)

// Search implements tasks.Queue. It reads all tasks: the limit on what is read is for databases.
func (q *Queue) Search(_ context.Context, s tasks.Search) (tasks.Found, error) {
	var found tasks.Found
	newest := q.list(tasks.Filter{Limit: len(q.tasks) + 1})
	for _, t := range newest {
		if s.Before != 0 && t.ID >= s.Before || !s.Matches(t) {
			continue
		}
		if len(found.Tasks) == s.Limit {
			found.Next = found.Tasks[s.Limit-1].ID
			break
		}
		found.Tasks = append(found.Tasks, t)
	}
	return found, nil
}

// History implements tasks.Queue.
func (q *Queue) History(_ context.Context, inboxIDs []int64, since time.Time) ([]tasks.Ended, error) {
	type hour struct {
		at     time.Time
		status tasks.Status
	}
	counts := map[hour]int{}
	for _, t := range q.list(tasks.Filter{}) {
		if t.FinishedAt != nil && !t.FinishedAt.Before(since) && slices.Contains(inboxIDs, t.InboxID) {
			counts[hour{t.FinishedAt.UTC().Truncate(time.Hour), t.Status}]++
		}
	}
	var out []tasks.Ended
	for h, n := range counts {
		out = append(out, tasks.Ended{Hour: h.at, Status: h.status, N: n})
	}
	slices.SortFunc(out, func(a, b tasks.Ended) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Status, b.Status))
	})
	return out, nil
}

// InboxEvents implements tasks.Queue.
func (q *Queue) InboxEvents(_ context.Context, inboxID int64, limit int) ([]tasks.Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	trail := slices.Clone(q.inboxTrail[inboxID])
	slices.Reverse(trail)
	return trail[:min(limit, len(trail))], nil
}
