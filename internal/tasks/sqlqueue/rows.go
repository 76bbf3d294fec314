package sqlqueue

import (
	"database/sql"
	"database/sql/driver"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

const (
	tableTasks      = "monitored_emails_tasks"
	tableDeliveries = "monitored_emails_deliveries"
	tableOnce       = "monitored_emails_once"
	tableSeen       = "monitored_emails_seen"
)

// taskRow is a row of monitored_emails_tasks.
type taskRow struct {
	tasks.Task
	receipt string
}

// newRow is the row of a task that is not registered yet.
func newRow(t tasks.Task) *taskRow {
	id := &t.Identity
	id.MessageID, id.Subject, id.Sender = cut(id.MessageID), cut(id.Subject), cut(id.Sender)
	id.Date = storable(id.Date)
	t.Route, t.Reason = db.Cut(t.Route, 255), cut(t.Reason)
	return &taskRow{Task: t}
}

// storable is a date as the databases can hold it, zero when they cannot.
func storable(date time.Time) time.Time {
	if date = date.UTC(); date.Year() < 1000 || date.Year() > 9999 {
		return time.Time{}
	}
	return date
}

// deliveryRow is a row of monitored_emails_deliveries.
type deliveryRow struct {
	taskID int64
	tasks.Delivery
}

func deliveryRows(taskID int64, ds []tasks.Delivery, now time.Time) []deliveryRow {
	rows := make([]deliveryRow, len(ds))
	for i, d := range ds {
		d.Reply = cut(d.Reply)
		if d.Status == tasks.Delivered && d.DeliveredAt == nil {
			d.DeliveredAt = &now
		}
		rows[i] = deliveryRow{taskID, d}
	}
	return rows
}

// onceRow is a row of monitored_emails_once.
type onceRow struct {
	onceKey
	taskID int64
}

// seconds is the column received: a time in seconds since 1970, NULL when it is zero.
type seconds struct{ of *time.Time }

// Scan implements sql.Scanner.
func (c seconds) Scan(v any) error {
	var n sql.Null[int64]
	err := n.Scan(v)
	if *c.of = (time.Time{}); n.Valid {
		*c.of = time.Unix(n.V, 0).UTC()
	}
	return err
}

// Value implements driver.Valuer.
func (c seconds) Value() (driver.Value, error) {
	if c.of.IsZero() {
		return nil, nil
	}
	return c.of.Unix(), nil
}

// The columns of the tables whose rows are read and written all the time, in the order of the
// fields that columns or into point to.
const (
	taskColumns = "inbox_id, folder_id, uid_validity, uid, message_id, fingerprint, is_read, " +
		"subject, sender, email_date, size, revision, route, mode, mode_reason, priority, " +
		"status, skip_reason, keep_reason, in_doubt, attempt_count, lost_leases, visible_at, " +
		"receipt, worker, error_message, created_at, queued_at, updated_at, finished_at"
	deliveryKeys    = "task_id, recipient"
	deliveryColumns = "status, duplicate_of, code, reply, attempts, delivered_at"
	onceColumns     = "scope, fingerprint, recipient, task_id"
	seenColumns     = "folder_id, uid_validity, uid, inbox_id, task_id, fingerprint, received, size, purged_as"
)

func (r *taskRow) columns() []any {
	id := &r.Identity
	return []any{
		&r.InboxID, &r.FolderID, &r.Epoch, &r.UID, &id.MessageID, &id.Fingerprint, &r.Read,
		&id.Subject, &id.Sender, db.OrZero(&id.Date), &id.Size, &r.Revision, &r.Route,
		&r.Form.Mode, &r.Form.ModeReason, &r.Priority, &r.Status, &r.Skip, &r.Keep, &r.InDoubt, &r.Attempts,
		&r.LostLeases, db.Micros(&r.VisibleAt), &r.receipt, &r.Worker, &r.Reason, &r.CreatedAt, &r.QueuedAt,
		&r.UpdatedAt, &r.FinishedAt,
	}
}

func (r *taskRow) into() []any { return append([]any{&r.ID}, r.columns()...) }

// shown is into for a row of sqlTasks.
func (r *taskRow) shown() []any { return append(r.into(), &r.Inbox, &r.Folder, &r.Disabled) }

func (r *deliveryRow) into() []any { return append([]any{&r.taskID}, deliveryInto(&r.Delivery)...) }

func deliveryInto(d *tasks.Delivery) []any {
	return []any{
		&d.Recipient, &d.Status, db.OrZero(&d.DuplicateOf), &d.Code, &d.Reply, &d.Attempts, &d.DeliveredAt,
	}
}

func arrivalInto(a *tasks.Arrival) []any {
	return []any{&a.Status, &a.Code, &a.Enhanced, &a.Reply, &a.Remote, &a.Target}
}

func (r *onceRow) into() []any { return []any{&r.scope, &r.content, &r.mailbox, &r.taskID} }

// notedInto is for a row of sqlNoted.
func notedInto(n *tasks.Noted) []any {
	return []any{&n.UID, &n.Fingerprint, seconds{&n.Stated.Received}, &n.Stated.Size, &n.Skip}
}

func upsert(tx *gorm.DB, rows []deliveryRow) error {
	return db.Upsert(tx, tableDeliveries, deliveryKeys, deliveryColumns, values(rows, (*deliveryRow).into))
}

// values are the rows to insert. database/sql takes what the pointers lead to.
func values[R any](rows []R, columns func(*R) []any) [][]any {
	out := make([][]any, len(rows))
	for i := range rows {
		out[i] = columns(&rows[i])
	}
	return out
}

// countRow is a row of sqlCounts.
type countRow struct {
	InboxID            int64
	Status             tasks.Status
	N, Lately, Retried int
}

func (r *countRow) into() []any { return []any{&r.InboxID, &r.Status, &r.N, &r.Lately, &r.Retried} }

// liveRow is a row of sqlLiveCounts.
type liveRow struct {
	InboxID int64
	Due     int
	Oldest  db.Time
}

func (r *liveRow) into() []any { return []any{&r.InboxID, &r.Due, &r.Oldest} }

// inboxCount is a row of sqlDueCounts and sqlConflicts.
type inboxCount struct {
	InboxID int64
	N       int
}

func (r *inboxCount) into() []any { return []any{&r.InboxID, &r.N} }

// statuses are tasks of which only the ID, the status and the reason of a skip are read.
func statuses(tx *gorm.DB, ids []int64) ([]tasks.Task, error) {
	into := func(t *tasks.Task) []any { return []any{&t.ID, &t.Status, &t.Skip} }
	return db.Query(tx, into, sqlStatuses, ids)
}

// taskByID is a task without its deliveries.
func taskByID(tx *gorm.DB, id int64) (tasks.Task, error) {
	row, err := first(tx, (*taskRow).into, sqlTask, id)
	if err == nil && row.ID == 0 {
		err = tasks.ErrNotFound
	}
	return row.Task, err
}

// deliveries are those of tasks, by task and recipient.
func deliveries(tx *gorm.DB, ids []int64) (map[int64][]tasks.Delivery, error) {
	return lockedDeliveries(tx, ids, unlocked)
}

func lockedDeliveries(tx *gorm.DB, ids []int64, lock func(string) string) (map[int64][]tasks.Delivery, error) {
	rows, err := db.Query(tx, (*deliveryRow).into, lock(sqlDeliveries), ids)
	if err != nil {
		return nil, err
	}
	out := map[int64][]tasks.Delivery{}
	for _, r := range rows {
		out[r.taskID] = append(out[r.taskID], r.Delivery)
	}
	return out, nil
}
