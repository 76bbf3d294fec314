package sqlqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// The columns of monitored_emails_arrivals, in the order of arrivalRow.
const (
	tableArrivals  = "monitored_emails_arrivals"
	arrivalKeys    = "task_id, recipient"
	arrivalColumns = "inbox_id, status, code, enhanced, reply, remote, target, at, reported_at"
)

// arrivalRow is a row of monitored_emails_arrivals.
type arrivalRow struct {
	TaskID     int64
	Recipient  string
	InboxID    int64
	Arrival    tasks.Arrival
	ReportedAt time.Time
}

func (r *arrivalRow) into() []any {
	return slices.Concat([]any{&r.TaskID, &r.Recipient, &r.InboxID}, arrivalInto(&r.Arrival),
		[]any{&r.Arrival.At, &r.ReportedAt})
}

// errNoChange ends a transaction that would change nothing.
var errNoChange = errors.New("nothing changes")

// Arrived implements tasks.Queue.
func (q *Queue) Arrived(
	ctx context.Context, who string, taskID int64, recipient string, a tasks.Arrival,
) (bool, error) {
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		found, err := update(tx, sqlTouch, touched(now, taskID)...)
		if err == nil && !found {
			err = tasks.ErrNotFound
		}
		if err != nil {
			return err
		}
		return q.arrived(tx, now, who, taskID, recipient, a)
	})
	if errors.Is(err, errNoChange) {
		return false, nil
	}
	return err == nil, wrap(err, "task %d: record what became of the delivery to %s", taskID, recipient)
}

func (q *Queue) arrived(tx *gorm.DB, now time.Time, who string, taskID int64, recipient string, a tasks.Arrival) error {
	is, err := first(tx, (*deliveredRow).into, sqlDeliveryOf, taskID, recipient)
	switch {
	case err != nil:
		return err
	case is.task.InboxID == 0:
		return tasks.ErrNotFound
	case !tasks.Reached([]tasks.Delivery{is.delivery}), !a.Beyond(is.arrival), is.task.Predates(a, is.delivery):
		return errNoChange
	}
	a = a.Recorded(is.delivery.DeliveredAt, now)
	row := arrivalRow{TaskID: taskID, Recipient: recipient, InboxID: is.task.InboxID, Arrival: a, ReportedAt: now}
	if err := db.Upsert(tx, tableArrivals, arrivalKeys, arrivalColumns, [][]any{row.into()}); err != nil {
		return err
	}
	err = event(tx, now, taskID, who, string(a.Status), a.Line(recipient))
	if err != nil || a.Status != tasks.Bounced {
		return err
	}
	return q.note(tx, now, []outbox.Occurrence{{Kind: outbox.Bounced, TaskID: taskID}})
}

// deliveredRow is a row of sqlDeliveryOf.
type deliveredRow struct {
	task     tasks.Task
	delivery tasks.Delivery
	arrival  tasks.Arrival // its status and target
}

func (r *deliveredRow) into() []any {
	d, a := &r.delivery, &r.arrival
	return []any{&r.task.InboxID, &r.task.CreatedAt, &r.task.QueuedAt, &d.Status, &d.DeliveredAt, &a.Status, &a.Target}
}

// addArrivals adds to the deliveries of tasks what became of them.
func addArrivals(tx *gorm.DB, ids []int64, to map[int64][]tasks.Delivery) error {
	rows, err := db.Query(tx, (*arrivalRow).into, sqlArrivals, ids)
	for _, r := range rows {
		ds := to[r.TaskID]
		i := slices.IndexFunc(ds, func(d tasks.Delivery) bool { return d.Recipient == r.Recipient })
		if i >= 0 {
			a := r.Arrival
			ds[i].Arrival = &a
		}
	}
	return err
}

// SentAs implements tasks.Queue. It reads in portions, as a search does.
func (q *Queue) SentAs(ctx context.Context, messageID string, within time.Duration) (ids []int64, _ error) {
	now, err := q.db.Clock(ctx)
	if err != nil || messageID == "" {
		return nil, wrap(err, "look for a Message-ID")
	}
	since := now.Add(-within)
	first, last, err := q.idsBetween(ctx, tasks.Search{Since: since})
	sql := fmt.Sprintf(sqlSentAs, q.sameID())
	for err == nil && first <= last && len(ids) < tasks.SentAsMost {
		from := max(first, last-sentAsPortion+1)
		var found []int64
		err = q.db.View(ctx, func(tx *gorm.DB) (err error) {
			found, err = db.Query(tx, db.Value[int64], sql, from, last, since, messageID, sentAsLooked)
			if err != nil || len(found) == 0 {
				return err
			}
			ds, err := deliveries(tx, found)
			found = slices.DeleteFunc(found, func(id int64) bool { return !tasks.Reached(ds[id]) })
			return err
		})
		ids, last = append(ids, found...), from-1
	}
	ids = ids[:min(len(ids), tasks.SentAsMost)]
	return ids, wrap(err, "look for the Message-ID %s", messageID)
}

const (
	sentAsPortion = 20_000 // tasks that one statement compares
	sentAsLooked  = 500    // of these, tasks with the Message-ID that are looked at: the newest
)

func (q *Queue) sameID() string {
	if q.db.Dialect() == db.MySQL {
		return sameIDOnMySQL
	}
	return sameIDOnSQLite
}

// Bounces implements tasks.Queue.
func (q *Queue) Bounces(ctx context.Context, within time.Duration) (map[string]int, error) {
	now, err := q.db.Clock(ctx)
	var rows []bouncesRow
	if err == nil {
		rows, err = db.Read(ctx, q.db, (*bouncesRow).into, sqlBounces, now.Add(-within))
	}
	out := map[string]int{}
	for _, r := range rows {
		out[r.recipient] = r.n
	}
	return out, wrap(err, "count bounces")
}

// bouncesRow is a row of sqlBounces.
type bouncesRow struct {
	recipient string
	n         int
}

func (r *bouncesRow) into() []any { return []any{&r.recipient, &r.n} }

// countArrivals counts what became of the deliveries of some inboxes.
func countArrivals(tx *gorm.DB, inboxIDs []int64, now time.Time, all map[int64]*tasks.Stats) error {
	rows, err := db.Query(tx, (*arrivalCount).into, sqlArrivalCounts, now.Add(-day), inboxIDs, tasks.Troubles)
	for _, r := range rows {
		s := all[r.inboxID]
		s.Arrivals[r.status] = r.n
		if r.status == tasks.Bounced {
			s.Bounced, s.Bounces = r.tasks, r.lately
		}
	}
	return err
}

// arrivalCount is a row of sqlArrivalCounts.
type arrivalCount struct {
	inboxID          int64
	status           tasks.ArrivalStatus
	n, tasks, lately int
}

func (r *arrivalCount) into() []any { return []any{&r.inboxID, &r.status, &r.n, &r.tasks, &r.lately} }
