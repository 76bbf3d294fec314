package sqlqueue

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
)

// Dispositions implements tasks.Queue. The ledger has a row for every message that is accounted
// for.
func (q *Queue) Dispositions(ctx context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Disposition, error) {
	out, err := q.accounted(ctx, sqlSeenBetween, folderID, epoch, from, to)
	return out, wrap(err, "read how folder %d is accounted for", folderID)
}

// Purged implements tasks.Queue.
func (q *Queue) Purged(ctx context.Context, inboxID int64, within time.Duration) (n int, err error) {
	now, err := q.db.Clock(ctx)
	if err == nil {
		since := now.Add(-within)
		err = q.db.View(ctx, func(tx *gorm.DB) error { return tx.Raw(sqlPurged, inboxID, since, since).Scan(&n).Error })
	}
	return n, wrap(err, "count the purged tasks of inbox %d", inboxID)
}

// LeftBehind implements tasks.Queue.
func (q *Queue) LeftBehind(ctx context.Context, folderID, before int64, each func(int64, tasks.Disposition) error) error {
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
func (q *Queue) pages(ctx context.Context, folderID, before int64, each func(epoch int64, first, last uint32) error) error {
	for epoch := int64(-1); ; {
		var next *int64
		err := q.db.View(ctx, func(tx *gorm.DB) error { return tx.Raw(sqlNextEpoch, folderID, epoch, before).Scan(&next).Error })
		if err != nil || next == nil {
			return wrap(err, "look for the epochs of folder %d", folderID)
		}
		epoch = *next
		if err := q.pagesOf(ctx, folderID, epoch, func(first, last uint32) error { return each(epoch, first, last) }); err != nil {
			return err
		}
	}
}

// pagesOf is pages for one epoch.
func (q *Queue) pagesOf(ctx context.Context, folderID, epoch int64, each func(first, last uint32) error) error {
	for last := int64(-1); ; {
		var page struct {
			First, Last *uint32
		}
		err := q.db.View(ctx, func(tx *gorm.DB) error { return tx.Raw(sqlNextPage, folderID, epoch, last, q.page).Scan(&page).Error })
		if err != nil || page.Last == nil {
			return wrap(err, "look for what folder %d had in an epoch", folderID)
		}
		if err := each(*page.First, *page.Last); err != nil {
			return err
		}
		last = int64(*page.Last)
	}
}

// accountedRow is a row of sqlAccounted.
type accountedRow struct {
	Noted       notedRow `gorm:"embedded"`
	TaskID      int64
	PurgedAs    string
	Status      tasks.Status // empty when the task was deleted
	SkipReason  tasks.SkipReason
	Reason      string
	QueuedAt    *time.Time
	VisibleAt   *int64
	Recipient   string // empty when there is no delivery
	Delivery    tasks.DeliveryStatus
	DuplicateOf *int64
	Code        int
	Reply       string
	Attempts    int
	DeliveredAt *time.Time
	Arrival     arrivedRow `gorm:"embedded;embeddedPrefix:arrival_"`
}

func (q *Queue) accounted(ctx context.Context, sql string, folderID, epoch int64, from, to uint32) ([]tasks.Disposition, error) {
	var out []tasks.Disposition
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		var rows []accountedRow
		if err := tx.Raw(sql, folderID, epoch, from, to).Scan(&rows).Error; err != nil {
			return err
		}
		out = nil
		for _, r := range rows {
			if len(out) == 0 || out[len(out)-1].UID != r.Noted.UID {
				out = append(out, r.disposition())
			}
			if d := &out[len(out)-1]; r.Recipient != "" {
				d.Deliveries = append(d.Deliveries, r.delivery())
			}
		}
		return nil
	})
	for _, d := range out { // the statement does not sort the deliveries
		slices.SortFunc(d.Deliveries, func(a, b tasks.Delivery) int { return strings.Compare(a.Recipient, b.Recipient) })
	}
	return out, err
}

func (r accountedRow) disposition() tasks.Disposition {
	d := tasks.Disposition{UID: r.Noted.UID, Noted: r.Noted.noted(), TaskID: r.TaskID, Status: r.Status, Skip: r.SkipReason, Reason: r.Reason}
	switch {
	case r.TaskID == 0:
	case r.Status == "":
		d.Status, d.Skip = tasks.EndedAs(r.PurgedAs)
		d.Purged = r.PurgedAs != ""
	default:
		d.QueuedAt, d.VisibleAt = *r.QueuedAt, moment(r.VisibleAt)
	}
	return d
}

func (r accountedRow) delivery() tasks.Delivery {
	d := deliveryRow{
		Recipient: r.Recipient, Status: r.Delivery, DuplicateOf: r.DuplicateOf, Code: r.Code, Reply: r.Reply,
		Attempts: r.Attempts, DeliveredAt: r.DeliveredAt,
	}.delivery()
	d.Arrival = r.Arrival.arrival()
	return d
}

// arrivedRow is what sqlAccounted has of an arrival, all of it null when there is none.
type arrivedRow struct {
	Status                          *tasks.ArrivalStatus
	Code                            *int
	Enhanced, Reply, Remote, Target *string
	At                              *time.Time
}

func (r arrivedRow) arrival() *tasks.Arrival {
	if r.Status == nil {
		return nil
	}
	return &tasks.Arrival{Status: *r.Status, Code: *r.Code, Enhanced: *r.Enhanced, Reply: *r.Reply, Remote: *r.Remote, Target: *r.Target, At: *r.At}
}
