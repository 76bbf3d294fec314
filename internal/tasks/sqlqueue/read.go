package sqlqueue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// List implements tasks.Queue. It reads in portions, so that any number of tasks costs little
// memory.
func (q *Queue) List(ctx context.Context, f tasks.Filter, each func(tasks.Task) error) error {
	const portion = 500
	last, left := int64(0), f.Limit
	now, err := q.db.Clock(ctx)
	if err != nil {
		return wrap(err, "list tasks")
	}
	for {
		limit := portion
		if f.Limit > 0 && !f.ByText() {
			limit = min(left, portion)
		}
		sql, args := q.portion(f, now, last, limit)
		batch, err := q.read(ctx, sql, args...)
		if err != nil {
			return wrap(err, "list tasks")
		}
		for _, t := range batch {
			if !f.Matches(t) {
				continue
			}
			if err := each(t); err != nil {
				return err
			}
			if left--; left == 0 { // never without a limit
				return nil
			}
		}
		if len(batch) < limit {
			return nil
		}
		last = batch[len(batch)-1].ID
	}
}

// portion is the query of one portion behind the task last, 0 for the first one: upwards, or
// downwards for a filter with a limit.
func (q *Queue) portion(f tasks.Filter, now time.Time, last int64, limit int) (sql string, args []any) {
	var where []string
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if len(f.Statuses) > 0 {
		add("t.status IN ?", f.Statuses)
	}
	switch {
	case len(f.Inboxes) == 0:
	case len(f.Inboxes) == 1 && len(f.Statuses) > 0:
		add("t.inbox_id = ?", f.Inboxes[0])
	default: // by no index of the inbox: all of its tasks would be sorted for each portion
		add("t.inbox_id + 0 IN ?", f.Inboxes)
	}
	if f.Route != "" { // the names of several are joined by "+"
		routes := "CONCAT('+', t.route, '+')"
		if q.db.Dialect() == db.MySQL { // whose collation would take Desk for desk
			routes = "CAST(" + routes + " AS BINARY)"
		}
		add("INSTR("+routes+", ?) > 0", "+"+f.Route+"+")
	}
	if f.Registered > 0 {
		add("t.created_at <= ?", now.Add(-f.Registered))
	}
	if f.Within > 0 {
		add("t.created_at >= ?", now.Add(-f.Within))
	}
	if f.Ended > 0 {
		add("t.finished_at <= ?", now.Add(-f.Ended))
	}
	if f.Bounced {
		where = append(where, "t.id"+bouncedTasks)
	}
	if f.Due {
		add("t.visible_at <= ?", now.UnixMicro())
	}
	q.texts(f, add)
	order := "t.id"
	if f.Limit > 0 {
		add("t.id < ?", cmp.Or(last, math.MaxInt64))
		order = "t.id DESC"
	} else {
		add("t.id > ?", last)
	}
	return fmt.Sprintf("%s\nWHERE %s\nORDER BY %s LIMIT %d", sqlTasks, strings.Join(where, " AND "), order, limit), args
}

// Get implements tasks.Queue.
func (q *Queue) Get(ctx context.Context, id int64) (tasks.Task, error) {
	found, err := q.read(ctx, sqlTasks+"\nWHERE t.id = ?", id)
	if err == nil && len(found) == 0 {
		err = tasks.ErrNotFound
	}
	if err != nil {
		return tasks.Task{}, wrap(err, "task %d", id)
	}
	return found[0], nil
}

func (q *Queue) read(ctx context.Context, sql string, args ...any) ([]tasks.Task, error) {
	var out []tasks.Task
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		out = nil
		rows, err := db.Query(tx, (*taskRow).shown, sql, args...)
		if err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]int64, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		ds, err := deliveries(tx, ids)
		if err == nil {
			err = addArrivals(tx, ids, ds)
		}
		for _, r := range rows {
			r.Deliveries = ds[r.ID]
			out = append(out, r.Task)
		}
		return err
	})
	return out, err
}

// Events implements tasks.Queue.
func (q *Queue) Events(ctx context.Context, taskID int64) ([]tasks.Event, error) {
	trails, err := q.Trails(ctx, []int64{taskID})
	return trails[taskID], err
}

// Tasks are those of the tasks that are there, by their IDs.
func (q *Queue) Tasks(ctx context.Context, ids []int64) (map[int64]tasks.Task, error) {
	out := map[int64]tasks.Task{}
	for some := range slices.Chunk(ids, 500) {
		found, err := q.read(ctx, sqlTasks+"\nWHERE t.id IN ?", some)
		if err != nil {
			return nil, wrap(err, "read tasks")
		}
		for _, t := range found {
			out[t.ID] = t
		}
	}
	return out, nil
}

// Trails are the audit trails of tasks, in order.
func (q *Queue) Trails(ctx context.Context, ids []int64) (map[int64][]tasks.Event, error) {
	out := map[int64][]tasks.Event{}
	for some := range slices.Chunk(ids, 500) {
		found, err := db.Read(ctx, q.db, eventInto, sqlTrails, some)
		if err != nil {
			return nil, wrap(err, "read audit trails")
		}
		for _, e := range found {
			out[e.TaskID] = append(out[e.TaskID], e)
		}
	}
	return out, nil
}

func eventInto(e *tasks.Event) []any {
	return []any{&e.TaskID, &e.At, &e.Worker, &e.Event, &e.Detail}
}

// InboxEvents implements tasks.Queue.
func (q *Queue) InboxEvents(ctx context.Context, inboxID int64, limit int) ([]tasks.Event, error) {
	out, err := db.Read(ctx, q.db, eventInto, sqlInboxEvents, inboxID, limit)
	return out, wrap(err, "read the audit trail of an inbox")
}

// inboxesAtOnce is how many inboxes one statement is for. MariaDB turns a list of 1,000 into a
// join.
const inboxesAtOnce = 512

// Stats implements tasks.Queue.
func (q *Queue) Stats(ctx context.Context, inboxIDs []int64) (map[int64]tasks.Stats, error) {
	var all map[int64]*tasks.Stats
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		now, err := q.db.Now(tx)
		all = map[int64]*tasks.Stats{}
		for _, id := range inboxIDs {
			all[id] = &tasks.Stats{ByStatus: map[tasks.Status]int{}, Arrivals: map[tasks.ArrivalStatus]int{}, Now: now}
		}
		for ids := range slices.Chunk(inboxIDs, inboxesAtOnce) {
			if err == nil {
				err = count(tx, ids, now, all)
			}
			if err == nil {
				err = countArrivals(tx, ids, now, all)
			}
		}
		if err != nil {
			return err
		}
		return countConflicts(tx, now.Add(-day), all)
	})
	out := map[int64]tasks.Stats{}
	for id, s := range all {
		out[id] = *s
	}
	return out, wrap(err, "count tasks")
}

const day = 24 * time.Hour

// count counts the tasks of some inboxes.
func count(tx *gorm.DB, inboxIDs []int64, now time.Time, all map[int64]*tasks.Stats) error {
	counts, err := db.Query(tx, (*countRow).into, sqlCounts, now.Add(-day), now.Add(-day), inboxIDs)
	if err != nil {
		return err
	}
	for _, c := range counts {
		s := all[c.InboxID]
		s.ByStatus[c.Status] = c.N
		if c.Status == tasks.Forwarded || c.Status == tasks.Dead {
			s.Ended += c.Lately
			s.Retried += c.Retried
		}
	}
	live, err := db.Query(tx, (*liveRow).into, sqlLiveCounts, now.UnixMicro(), inboxIDs)
	for _, l := range live {
		s := all[l.InboxID]
		s.Due, s.Oldest = l.Due, &l.Oldest.Time
	}
	return err
}

func countConflicts(tx *gorm.DB, since time.Time, all map[int64]*tasks.Stats) error {
	counts, err := db.Query(tx, (*inboxCount).into, sqlConflicts, since)
	for _, c := range counts {
		if s := all[c.InboxID]; s != nil {
			s.Conflicts = c.N
		}
	}
	return err
}

// DueOf implements tasks.Queue.
func (q *Queue) DueOf(ctx context.Context, inboxIDs []int64) (map[int64]int, error) {
	due := map[int64]int{}
	now, err := q.db.Clock(ctx)
	for ids := range slices.Chunk(inboxIDs, inboxesAtOnce) {
		var rows []inboxCount
		if err == nil {
			rows, err = db.Read(ctx, q.db, (*inboxCount).into, sqlDueCounts, ids, now.UnixMicro())
		}
		for _, r := range rows {
			due[r.InboxID] = r.N
		}
	}
	return due, wrap(err, "count tasks that are due")
}

// NextDue implements tasks.Queue.
func (q *Queue) NextDue(ctx context.Context, inboxIDs []int64) (in time.Duration, ok bool, err error) {
	now, err := q.db.Clock(ctx)
	for ids := range slices.Chunk(inboxIDs, inboxesAtOnce) {
		var at *int64
		if err == nil {
			at, err = one[*int64](ctx, q, sqlNextDue, ids, now.UnixMicro())
		}
		if at == nil {
			continue
		}
		if left := time.UnixMicro(*at).Sub(now); !ok || left < in {
			in, ok = left, true
		}
	}
	return in, ok, wrap(err, "find when the next task is due")
}
