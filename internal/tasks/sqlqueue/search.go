package sqlqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// How a search reads. Each portion is a query of its own, so that SQLite's only reading connection
// is free in between, and its log can be emptied.
const (
	searchPortion = 1000   // tasks that are compared at once
	fewTasks      = 10_000 // up to this many are found by an index, and all of them are read
	// MySQL and MariaDB count the rows of up to this many ranges of an index. Beyond that they
	// estimate, and may read all of the index (eq_range_index_dive_limit).
	fewRanges = 199
	// Clocks of hosts differ, and a transaction takes a while: within this time the order of
	// registration need not be that of the IDs.
	orderSlack = time.Hour
)

// candidateInto is for a row of sqlCandidates: what a search compares of a task.
func candidateInto(t *tasks.Task) []any {
	id := &t.Identity
	return []any{&t.ID, &t.InboxID, &t.Status, &t.CreatedAt, &id.Sender, &id.Subject, &id.MessageID}
}

// Search implements tasks.Queue. Few tasks in some states or inboxes are found by
// monitored_emails_tasks_ended. Otherwise it reads the newest tasks, in the order of their IDs.
func (q *Queue) Search(ctx context.Context, s tasks.Search) (tasks.Found, error) {
	found, err := q.search(ctx, s)
	return found, wrap(err, "search tasks")
}

func (q *Queue) search(ctx context.Context, s tasks.Search) (tasks.Found, error) {
	first, last, err := q.idsBetween(ctx, s)
	if err != nil || first > last {
		return tasks.Found{}, err
	}
	w := &walk{queue: q, search: s, first: first, last: last}
	if !s.Bounced && (len(s.Statuses) > 0 || s.Inboxes != nil) {
		few, all, err := q.fewOf(ctx, s)
		if err != nil {
			return tasks.Found{}, err
		}
		if all {
			few = slices.DeleteFunc(few, func(id int64) bool { return id < first || id > last })
			slices.SortFunc(few, func(a, b int64) int { return cmp.Compare(b, a) })
			return w.through(ctx, few)
		}
	}
	return w.down(ctx)
}

// idsBetween are the lowest and the highest ID that can match, by Before and by time.
func (q *Queue) idsBetween(ctx context.Context, s tasks.Search) (first, last int64, err error) {
	newest, err := q.taskBefore(ctx, cmp.Or(s.Before, 1<<62)-1)
	if err != nil || newest == nil {
		return 1, 0, err
	}
	first, last = 1, newest.ID
	if !s.Until.IsZero() && newest.CreatedAt.After(s.Until.Add(orderSlack)) {
		if last, err = q.lastBefore(ctx, s.Until.Add(orderSlack), last); err != nil {
			return 1, 0, err
		}
	}
	if !s.Since.IsZero() {
		var before int64
		before, err = q.lastBefore(ctx, s.Since.Add(-orderSlack), last)
		first = before + 1
	}
	return first, last, err
}

// lastBefore is the highest ID up to last that was registered before a time; 0 when none was. It
// reads one row in each of some twenty steps.
func (q *Queue) lastBefore(ctx context.Context, at time.Time, last int64) (int64, error) {
	low, high := int64(0), last // what low has was registered before, what is above high was not
	for low < high {
		middle := low + (high-low+1)/2
		t, err := q.taskBefore(ctx, middle)
		switch {
		case err != nil:
			return 0, err
		case t == nil || t.ID <= low: // there are no tasks between low and middle
			low = middle
		case t.CreatedAt.Before(at):
			low = middle
		default:
			high = t.ID - 1
		}
	}
	return low, nil
}

// taskBefore is the newest task up to an ID; nil when there is none.
func (q *Queue) taskBefore(ctx context.Context, id int64) (*tasks.Task, error) {
	rows, err := q.candidates(ctx, sqlCandidates, 1, id, 1)
	if len(rows) == 0 {
		return nil, err
	}
	return &rows[0], err
}

func (q *Queue) candidates(ctx context.Context, sql string, args ...any) ([]tasks.Task, error) {
	return db.Read(ctx, q.db, candidateInto, sql, args...)
}

// fewOf are the IDs of the tasks in the states and inboxes of a search, and whether these are all.
func (q *Queue) fewOf(ctx context.Context, s tasks.Search) (ids []int64, all bool, err error) {
	states, inboxes := s.Statuses, s.Inboxes
	if len(states) == 0 {
		states = tasks.Statuses
	}
	err = q.db.View(ctx, func(tx *gorm.DB) (err error) {
		if ids = nil; s.Inboxes == nil {
			if inboxes, err = db.Query(tx, db.Value[int64], sqlInboxIDs); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(inboxes, fewRanges/len(states)) {
			more, err := db.Query(tx, db.Value[int64], sqlFew, some, states, fewTasks+1-len(ids))
			if err != nil {
				return err
			}
			if ids = append(ids, more...); len(ids) > fewTasks {
				return nil
			}
		}
		return nil
	})
	return ids, len(ids) <= fewTasks, err
}

// walk is one search under way.
type walk struct {
	queue       *Queue
	search      tasks.Search
	first, last int64 // what is left to read
	examined    int
	ids         []int64 // found; one more than the limit when there are more
	oldest      time.Time
}

// enough reports whether the answer is full.
func (w *walk) enough() bool { return len(w.ids) > w.search.Limit }

// through looks at the tasks with these IDs.
func (w *walk) through(ctx context.Context, ids []int64) (tasks.Found, error) {
	for some := range slices.Chunk(ids, searchPortion) {
		rows, err := w.queue.candidates(ctx, sqlCandidatesOf, some)
		if err == nil {
			err = w.compare(ctx, rows)
		}
		if err != nil {
			return tasks.Found{}, err
		}
		if w.enough() {
			break
		}
	}
	return w.found(ctx, false)
}

// down looks at the tasks between first and last.
func (w *walk) down(ctx context.Context) (tasks.Found, error) {
	sql := sqlCandidates
	if w.search.Bounced {
		sql, w.search.Bounced = sqlBouncedCandidates, false // all of the candidates match
	}
	for !w.enough() && w.first <= w.last && w.examined < w.search.Examine {
		portion := min(searchPortion, w.search.Examine-w.examined)
		if !w.search.ByText() && len(w.search.Statuses) == 0 && w.search.Inboxes == nil {
			portion = min(portion, w.search.Limit+1)
		}
		rows, err := w.queue.candidates(ctx, sql, w.first, w.last, portion)
		if err == nil {
			err = w.compare(ctx, rows)
		}
		if err != nil {
			return tasks.Found{}, err
		}
		if len(rows) < portion {
			return w.found(ctx, false)
		}
		w.last = rows[len(rows)-1].ID - 1
	}
	return w.found(ctx, !w.enough() && w.first <= w.last)
}

// compare keeps those of the rows that match, in their order.
func (w *walk) compare(ctx context.Context, rows []tasks.Task) error {
	if len(rows) == 0 {
		return nil
	}
	w.examined += len(rows)
	w.oldest = rows[len(rows)-1].CreatedAt
	to := map[int64][]tasks.Delivery{}
	if w.search.ByRecipient() {
		ids := make([]int64, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		found, err := db.Read(ctx, w.queue.db, (*recipientRow).into, sqlRecipients, ids)
		if err != nil {
			return err
		}
		for _, r := range found {
			to[r.TaskID] = append(to[r.TaskID], tasks.Delivery{Recipient: r.Recipient})
		}
	}
	for _, t := range rows {
		if t.Deliveries = to[t.ID]; !w.enough() && w.search.Matches(t) {
			w.ids = append(w.ids, t.ID)
		}
	}
	return nil
}

// found reads the tasks that were found. more says that older ones were not looked at.
func (w *walk) found(ctx context.Context, more bool) (out tasks.Found, err error) {
	if w.enough() {
		w.ids = w.ids[:w.search.Limit]
		out.Next = w.ids[w.search.Limit-1]
	} else if more {
		out.Next, out.Until = w.last+1, &w.oldest
	}
	if len(w.ids) == 0 {
		return out, nil
	}
	out.Tasks, err = w.queue.read(ctx, sqlTasks+"\nWHERE t.id IN ?\nORDER BY t.id DESC", w.ids)
	return out, err
}

// recipientRow is a row of sqlRecipients.
type recipientRow struct {
	TaskID    int64
	Recipient string
}

func (r *recipientRow) into() []any { return []any{&r.TaskID, &r.Recipient} }

// endedRow is a row of sqlHistory.
type endedRow struct {
	Hour   string // such as 2006-01-02 15
	Status tasks.Status
	N      int
}

func (r *endedRow) into() []any { return []any{&r.Hour, &r.Status, &r.N} }

// historyPortion is the time whose ended tasks are counted in one transaction.
const historyPortion = 5 * 24 * time.Hour

// History implements tasks.Queue.
func (q *Queue) History(ctx context.Context, inboxIDs []int64, since time.Time) ([]tasks.Ended, error) {
	counts := map[tasks.Ended]int{} // N is 0 in the keys
	now, err := q.db.Clock(ctx)
	for from := since.UTC().Truncate(time.Hour); err == nil && !from.After(now); from = from.Add(historyPortion) {
		for some := range slices.Chunk(inboxIDs, inboxesAtOnce) {
			if err == nil {
				err = q.ended(ctx, some, from, counts)
			}
		}
	}
	var out []tasks.Ended
	for e, n := range counts {
		e.N = n
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b tasks.Ended) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Status, b.Status))
	})
	return out, wrap(err, "count ended tasks")
}

// ended adds the tasks of a few inboxes that ended in a portion of the time.
func (q *Queue) ended(ctx context.Context, inboxIDs []int64, from time.Time, counts map[tasks.Ended]int) error {
	rows, err := db.Read(ctx, q.db, (*endedRow).into, sqlHistory, inboxIDs, endings, from, from.Add(historyPortion))
	for _, r := range rows {
		hour, wrong := time.Parse("2006-01-02 15", r.Hour)
		if wrong != nil {
			return wrong
		}
		counts[tasks.Ended{Hour: hour, Status: r.Status}] += r.N
	}
	return err
}

// endings are the states in which a task has ended.
var endings = slices.DeleteFunc(slices.Clone(tasks.Statuses), func(s tasks.Status) bool { return !s.Ended() })
