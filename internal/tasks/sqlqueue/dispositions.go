package sqlqueue

import (
	"context"
	"slices"
	"strings"
	"time"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Dispositions implements tasks.Queue. The ledger has a row for every message that is accounted
// for.
func (q *Queue) Dispositions(ctx context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Disposition, error) {
	out, err := q.accounted(ctx, sqlSeenBetween, folderID, epoch, from, to)
	return out, wrap(err, "read how folder %d is accounted for", folderID)
}

// Highest implements tasks.Queue.
func (q *Queue) Highest(ctx context.Context, folderID, epoch int64) (uint32, error) {
	uid, err := one[uint32](ctx, q, sqlHighest, folderID, epoch)
	return uid, wrap(err, "read up to which UID folder %d is accounted for", folderID)
}

// Purged implements tasks.Queue.
func (q *Queue) Purged(ctx context.Context, inboxID int64, within time.Duration) (n int, err error) {
	now, err := q.db.Clock(ctx)
	if err == nil {
		since := now.Add(-within)
		n, err = one[int](ctx, q, sqlPurged, inboxID, since, since)
	}
	return n, wrap(err, "count the purged tasks of inbox %d", inboxID)
}

// LeftBehind implements tasks.Queue.
func (q *Queue) LeftBehind(
	ctx context.Context, folderID, before int64, each func(int64, tasks.Disposition) error,
) error {
	return q.pages(ctx, folderID, before, func(epoch int64, first, last uint32) error {
		left, err := q.accounted(ctx, sqlLeftBehind, folderID, epoch, first, last)
		if err != nil {
			return wrap(err, "read what folder %d had in an older epoch", folderID)
		}
		for _, d := range left {
			if err := each(epoch, d); err != nil {
				return err
			}
		}
		return nil
	})
}

// pages walks through the ledger's rows of a folder in the epochs before the given one, by
// ascending epoch and UID.
func (q *Queue) pages(
	ctx context.Context, folderID, before int64, each func(epoch int64, first, last uint32) error,
) error {
	for epoch := int64(-1); ; {
		next, err := one[*int64](ctx, q, sqlNextEpoch, folderID, epoch, before)
		if err != nil || next == nil {
			return wrap(err, "look for the epochs of folder %d", folderID)
		}
		epoch = *next
		err = q.pagesOf(ctx, folderID, epoch, func(first, last uint32) error { return each(epoch, first, last) })
		if err != nil {
			return err
		}
	}
}

// pagesOf is pages for one epoch.
func (q *Queue) pagesOf(ctx context.Context, folderID, epoch int64, each func(first, last uint32) error) error {
	for last := int64(-1); ; {
		type page struct{ from, to *uint32 } // nil when there are no more
		into := func(p *page) []any { return []any{&p.from, &p.to} }
		rows, err := db.Read(ctx, q.db, into, sqlNextPage, folderID, epoch, last, q.page)
		if err != nil || rows[0].to == nil {
			return wrap(err, "look for what folder %d had in an epoch", folderID)
		}
		if err := each(*rows[0].from, *rows[0].to); err != nil {
			return err
		}
		last = int64(*rows[0].to)
	}
}

// accountedRow is a row of sqlAccounted.
type accountedRow struct {
	noted     tasks.Noted
	taskID    int64
	purgedAs  string
	status    tasks.Status // empty when the task was deleted
	reason    string
	mode      string
	queuedAt  time.Time
	visibleAt *time.Time
	delivery  tasks.Delivery // without a recipient when there is none
	arrival   tasks.Arrival  // without a time when nothing is known
}

func (r *accountedRow) into() []any {
	return slices.Concat(notedInto(&r.noted), []any{
		&r.taskID, &r.purgedAs, &r.status, &r.reason, &r.mode, db.OrZero(&r.queuedAt), db.Micros(&r.visibleAt),
	}, deliveryInto(&r.delivery), arrivalInto(&r.arrival), []any{db.OrZero(&r.arrival.At)})
}

func (q *Queue) accounted(
	ctx context.Context, sql string, folderID, epoch int64, from, to uint32,
) (out []tasks.Disposition, _ error) {
	rows, err := db.Read(ctx, q.db, (*accountedRow).into, sql, folderID, epoch, from, to)
	for _, r := range rows {
		if len(out) == 0 || out[len(out)-1].UID != r.noted.UID {
			out = append(out, r.disposition())
		}
		if d := &out[len(out)-1]; r.delivery.Recipient != "" {
			d.Deliveries = append(d.Deliveries, r.delivered())
		}
	}
	for _, d := range out { // the statement does not sort the deliveries
		slices.SortFunc(d.Deliveries, func(a, b tasks.Delivery) int {
			return strings.Compare(a.Recipient, b.Recipient)
		})
	}
	return out, err
}

func (r accountedRow) disposition() tasks.Disposition {
	d := tasks.Disposition{
		UID: r.noted.UID, Noted: r.noted, TaskID: r.taskID,
		Status: r.status, Skip: r.noted.Skip, Reason: r.reason, Mode: r.mode,
	}
	switch {
	case r.taskID == 0:
	case r.status == "":
		d.Status, d.Skip = tasks.EndedAs(r.purgedAs)
		d.Purged = r.purgedAs != ""
	default:
		d.QueuedAt, d.VisibleAt = r.queuedAt, r.visibleAt
	}
	return d
}

// delivered is the delivery, with what became of it.
func (r accountedRow) delivered() tasks.Delivery {
	if !r.arrival.At.IsZero() {
		r.delivery.Arrival = &r.arrival
	}
	return r.delivery
}
