package memqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/tasks"
)

// List implements tasks.Queue.
func (q *Queue) List(_ context.Context, f tasks.Filter, each func(tasks.Task) error) error {
	for _, t := range q.list(f) {
		if err := each(t); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) list(f tasks.Filter) []tasks.Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var out []tasks.Task
	for _, t := range q.tasks {
		if selects(f, t, now) {
			out = append(out, q.read(t))
		}
	}
	slices.SortFunc(out, func(a, b tasks.Task) int { return cmp.Compare(a.ID, b.ID) })
	if f.Limit > 0 {
		slices.Reverse(out)
		out = out[:min(len(out), f.Limit)]
	}
	return out
}

func selects(f tasks.Filter, t *task, now time.Time) bool {
	past := func(at *time.Time, ago time.Duration) bool { return at != nil && !at.After(now.Add(-ago)) }
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, t.Status)) &&
		(len(f.Inboxes) == 0 || slices.Contains(f.Inboxes, t.InboxID)) &&
		// The names of several routes are joined by "+".
		(f.Route == "" || strings.Contains("+"+t.Route+"+", "+"+f.Route+"+")) &&
		(f.Registered <= 0 || past(&t.CreatedAt, f.Registered)) &&
		(f.Within <= 0 || !t.CreatedAt.Before(now.Add(-f.Within))) &&
		(f.Ended <= 0 || past(t.FinishedAt, f.Ended)) &&
		(!f.Due || past(t.VisibleAt, 0)) &&
		(!f.Bounced || t.bounced()) &&
		f.Matches(t.copy())
}

// Get implements tasks.Queue.
func (q *Queue) Get(_ context.Context, id int64) (tasks.Task, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tasks[id]
	if t == nil {
		return tasks.Task{}, fmt.Errorf("task %d: %w", id, tasks.ErrNotFound)
	}
	return q.read(t), nil
}

// Events implements tasks.Queue.
func (q *Queue) Events(_ context.Context, taskID int64) ([]tasks.Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []tasks.Event
	for _, e := range q.trail {
		if e.TaskID == taskID {
			out = append(out, e)
		}
	}
	return out, nil
}

// Stats implements tasks.Queue.
func (q *Queue) Stats(_ context.Context, inboxIDs []int64) (map[int64]tasks.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[int64]tasks.Stats{}
	for _, id := range inboxIDs {
		out[id] = q.stats(id)
	}
	return out, nil
}

func (q *Queue) stats(inboxID int64) tasks.Stats {
	s := tasks.Stats{ByStatus: map[tasks.Status]int{}, Arrivals: map[tasks.ArrivalStatus]int{}, Now: q.now()}
	s.Due = q.countDue(inboxID, s.Now)
	yesterday := s.Now.Add(-24 * time.Hour)
	for _, t := range q.tasks {
		if t.InboxID != inboxID {
			continue
		}
		s.ByStatus[t.Status]++
		t.countArrivals(&s, yesterday)
		if at := t.QueuedAt; t.VisibleAt != nil && (s.Oldest == nil || at.Before(*s.Oldest)) {
			s.Oldest = &at
		}
		if (t.Status == tasks.Forwarded || t.Status == tasks.Dead) && t.FinishedAt.After(yesterday) {
			s.Ended++
			if t.Attempts > 1 {
				s.Retried++
			}
		}
	}
	for _, e := range q.trail {
		t := q.tasks[e.TaskID]
		if e.Event == "conflict" && e.At.After(yesterday) && t != nil && t.InboxID == inboxID {
			s.Conflicts++
		}
	}
	return s
}

// Next implements tasks.Queue.
func (q *Queue) Next(_ context.Context, want tasks.Want) (ids []int64, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.inboxes[want.InboxID]
	if in == nil {
		return nil, nil
	}
	for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
		for _, t := range in.due(priority, q.now(), want.InHand) {
			ids = append(ids, t.ID)
		}
	}
	return ids[:min(want.Max, len(ids))], nil
}

// DueOf implements tasks.Queue.
func (q *Queue) DueOf(_ context.Context, inboxIDs []int64) (map[int64]int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[int64]int{}
	for _, id := range inboxIDs {
		if n := q.countDue(id, q.now()); n > 0 {
			out[id] = n
		}
	}
	return out, nil
}

// NextDue implements tasks.Queue.
func (q *Queue) NextDue(_ context.Context, inboxIDs []int64) (in time.Duration, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for _, id := range inboxIDs {
		box := q.inboxes[id]
		if box == nil {
			continue
		}
		for _, t := range box.live {
			if left := t.VisibleAt.Sub(now); left > 0 && (!ok || left < in) {
				in, ok = left, true
			}
		}
	}
	return in, ok, nil
}

func (q *Queue) countDue(inboxID int64, now time.Time) int {
	n := 0
	if in := q.inboxes[inboxID]; in != nil {
		for _, t := range in.live {
			if !t.VisibleAt.After(now) {
				n++
			}
		}
	}
	return n
}

// Dispositions implements tasks.Queue. The ledger has a row for every message that is accounted
// for.
func (q *Queue) Dispositions(_ context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Disposition, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []tasks.Disposition
	for _, r := range q.ledger.at {
		if r.place.folderID == folderID && r.place.epoch == epoch && from <= r.place.uid && r.place.uid <= to {
			out = append(out, q.disposition(r))
		}
	}
	slices.SortFunc(out, func(a, b tasks.Disposition) int { return cmp.Compare(a.UID, b.UID) })
	return out, nil
}

// Highest implements tasks.Queue.
func (q *Queue) Highest(_ context.Context, folderID, epoch int64) (uid uint32, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.ledger.at {
		if r.place.folderID == folderID && r.place.epoch == epoch {
			uid = max(uid, r.place.uid)
		}
	}
	return uid, nil
}

// Purged implements tasks.Queue. IDs ascend: if a task, or an event of a task, is older than that
// time, all tasks with lower IDs were registered before that time.
func (q *Queue) Purged(_ context.Context, inboxID int64, within time.Duration) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since, older := q.now().Add(-within), int64(0)
	for id, t := range q.tasks {
		if t.CreatedAt.Before(since) {
			older = max(older, id)
		}
	}
	for _, e := range q.trail {
		if e.At.Before(since) {
			older = max(older, e.TaskID)
		}
	}
	found := map[int64]bool{} // a message that was found again has several rows
	for _, r := range q.ledger.at {
		if r.inboxID == inboxID && r.purgedAs != "" && r.taskID > older {
			found[r.taskID] = true
		}
	}
	return len(found), nil
}

// LeftBehind implements tasks.Queue.
func (q *Queue) LeftBehind(_ context.Context, folderID, before int64, each func(int64, tasks.Disposition) error) error {
	for _, r := range q.leftBehind(folderID, before) {
		if err := each(r.epoch, r.d); err != nil {
			return err
		}
	}
	return nil
}

type left struct {
	epoch int64
	d     tasks.Disposition
}

func (q *Queue) leftBehind(folderID, before int64) []left {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := map[int64]*row{} // where the message of each task was seen last
	for _, r := range q.ledger.at {
		if r.place.folderID == folderID && r.taskID != 0 &&
			(last[r.taskID] == nil || last[r.taskID].place.epoch < r.place.epoch) {
			last[r.taskID] = r
		}
	}
	var out []left
	for _, r := range last {
		if r.place.epoch < before {
			out = append(out, left{r.place.epoch, q.disposition(r)})
		}
	}
	slices.SortFunc(out, func(a, b left) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.d.UID, b.d.UID))
	})
	return out
}

func (q *Queue) disposition(r *row) tasks.Disposition {
	d := tasks.Disposition{UID: r.place.uid, Noted: q.noted(r), TaskID: r.taskID}
	if t := q.tasks[r.taskID]; t != nil {
		d.Status, d.Skip, d.Reason, d.Deliveries = t.Status, t.Skip, t.Reason, q.read(t).Deliveries
		d.Mode, d.QueuedAt, d.VisibleAt = t.Form.Mode, t.QueuedAt, t.VisibleAt
	} else if r.taskID != 0 {
		d.Status, d.Skip = tasks.EndedAs(r.purgedAs)
		d.Purged = true
	}
	return d
}
