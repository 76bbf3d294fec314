package sqlqueue

import (
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/message"
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
	ID           int64
	InboxID      int64
	FolderID     int64
	UIDValidity  int64
	UID          uint32
	MessageID    string
	Fingerprint  []byte
	IsRead       bool
	Subject      string
	Sender       string
	EmailDate    *time.Time
	Size         int64
	Revision     string
	Route        string
	Mode         string
	ModeReason   string
	Priority     tasks.Priority
	Status       tasks.Status
	SkipReason   tasks.SkipReason
	KeepReason   tasks.KeepReason
	InDoubt      bool
	AttemptCount int
	LostLeases   int
	VisibleAt    *int64
	Receipt      string
	Worker       string
	ErrorMessage string
	CreatedAt    time.Time
	QueuedAt     time.Time
	UpdatedAt    time.Time
	FinishedAt   *time.Time
}

// readRow is a row of sqlTasks.
type readRow struct {
	taskRow

	inbox, folder string
	disabled      bool
}

func (r *readRow) into() []any { return append(r.taskRow.into(), &r.inbox, &r.folder, &r.disabled) }

func (r taskRow) task() tasks.Task {
	t := tasks.Task{
		ID: r.ID, InboxID: r.InboxID, FolderID: r.FolderID, Epoch: r.UIDValidity, UID: r.UID,
		Identity: tasks.Identity{
			Fingerprint: message.Fingerprint(r.Fingerprint), MessageID: r.MessageID,
			Subject: r.Subject, Sender: r.Sender, Size: r.Size,
		},
		Read: r.IsRead, Revision: r.Revision, Route: r.Route,
		Form: tasks.Form{Mode: r.Mode, ModeReason: r.ModeReason}, Priority: r.Priority,
		Status: r.Status, Skip: r.SkipReason, Keep: r.KeepReason, InDoubt: r.InDoubt,
		Attempts: r.AttemptCount, LostLeases: r.LostLeases, VisibleAt: moment(r.VisibleAt),
		Worker: r.Worker, Reason: r.ErrorMessage,
		CreatedAt: r.CreatedAt, QueuedAt: r.QueuedAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt,
	}
	if r.EmailDate != nil {
		t.Identity.Date = *r.EmailDate
	}
	return t
}

// newRow is the row of a task that is not registered yet.
func newRow(t tasks.Task) taskRow {
	r := taskRow{
		InboxID: t.InboxID, FolderID: t.FolderID, UIDValidity: t.Epoch, UID: t.UID,
		MessageID: cut(t.Identity.MessageID), Fingerprint: t.Identity.Fingerprint[:], IsRead: t.Read,
		Subject: cut(t.Identity.Subject), Sender: cut(t.Identity.Sender), EmailDate: storable(t.Identity.Date),
		Size: t.Identity.Size, Revision: t.Revision, Route: db.Cut(t.Route, 255), Mode: t.Form.Mode,
		Priority: t.Priority, Status: t.Status, SkipReason: t.Skip, KeepReason: t.Keep, ErrorMessage: cut(t.Reason),
		CreatedAt: t.CreatedAt, QueuedAt: t.QueuedAt, UpdatedAt: t.UpdatedAt, FinishedAt: t.FinishedAt,
	}
	if t.VisibleAt != nil {
		micros := t.VisibleAt.UnixMicro()
		r.VisibleAt = &micros
	}
	return r
}

// moment is the time of a column in microseconds.
func moment(micros *int64) *time.Time {
	if micros == nil {
		return nil
	}
	at := time.UnixMicro(*micros).UTC()
	return &at
}

// storable is a date as the databases can hold it, nil when they cannot.
func storable(date time.Time) *time.Time {
	date = date.UTC()
	if date.Year() < 1000 || date.Year() > 9999 {
		return nil
	}
	return &date
}

// deliveryRow is a row of monitored_emails_deliveries.
type deliveryRow struct {
	TaskID      int64
	Recipient   string
	Status      tasks.DeliveryStatus
	DuplicateOf *int64
	Code        int
	Reply       string
	Attempts    int
	DeliveredAt *time.Time
}

func deliveryRows(taskID int64, ds []tasks.Delivery, now time.Time) []deliveryRow {
	rows := make([]deliveryRow, len(ds))
	for i, d := range ds {
		rows[i] = deliveryRow{
			TaskID: taskID, Recipient: d.Recipient, Status: d.Status, Code: d.Code, Reply: cut(d.Reply),
			Attempts: d.Attempts, DeliveredAt: d.DeliveredAt,
		}
		if d.DuplicateOf != 0 {
			rows[i].DuplicateOf = &d.DuplicateOf
		}
		if d.Status == tasks.Delivered && d.DeliveredAt == nil {
			rows[i].DeliveredAt = &now
		}
	}
	return rows
}

func (r deliveryRow) delivery() tasks.Delivery {
	d := tasks.Delivery{
		Recipient: r.Recipient, Status: r.Status, Code: r.Code, Reply: r.Reply, Attempts: r.Attempts,
		DeliveredAt: r.DeliveredAt,
	}
	if r.DuplicateOf != nil {
		d.DuplicateOf = *r.DuplicateOf
	}
	return d
}

// onceRow is a row of monitored_emails_once.
type onceRow struct {
	Scope       int64
	Fingerprint []byte
	Recipient   string
	TaskID      int64
}

// seenRow is a row of monitored_emails_seen.
type seenRow struct {
	FolderID    int64
	UIDValidity int64
	UID         uint32
	InboxID     int64
	TaskID      int64
	Fingerprint []byte
	Received    *int64 // seconds
	Size        int64
	PurgedAs    string
}

// notedRow is a row of sqlNoted.
type notedRow struct {
	UID         uint32
	Fingerprint []byte
	Received    *int64
	Size        int64
	Skip        tasks.SkipReason // of the task
}

func (r *notedRow) into() []any {
	return []any{&r.UID, &r.Fingerprint, &r.Received, &r.Size, &r.Skip}
}

func (r notedRow) noted() tasks.Noted {
	n := tasks.Noted{
		UID: r.UID, Fingerprint: message.Fingerprint(r.Fingerprint), Stated: tasks.Stated{Size: r.Size},
		Gone: tasks.Seen{Skip: r.Skip}.Gone(),
	}
	if r.Received != nil {
		n.Stated.Received = time.Unix(*r.Received, 0).UTC()
	}
	return n
}

// seconds is a time as the column received has it.
func seconds(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	s := at.Unix()
	return &s
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
	return []any{
		&r.InboxID, &r.FolderID, &r.UIDValidity, &r.UID, &r.MessageID, &r.Fingerprint, &r.IsRead,
		&r.Subject, &r.Sender, &r.EmailDate, &r.Size, &r.Revision, &r.Route, &r.Mode, &r.ModeReason, &r.Priority,
		&r.Status, &r.SkipReason, &r.KeepReason, &r.InDoubt, &r.AttemptCount, &r.LostLeases, &r.VisibleAt,
		&r.Receipt, &r.Worker, &r.ErrorMessage, &r.CreatedAt, &r.QueuedAt, &r.UpdatedAt, &r.FinishedAt,
	}
}

func (r *taskRow) into() []any { return append([]any{&r.ID}, r.columns()...) }

func (r *deliveryRow) into() []any {
	return []any{&r.TaskID, &r.Recipient, &r.Status, &r.DuplicateOf, &r.Code, &r.Reply, &r.Attempts, &r.DeliveredAt}
}

func (r *onceRow) into() []any { return []any{&r.Scope, &r.Fingerprint, &r.Recipient, &r.TaskID} }

func (r *seenRow) columns() []any {
	return []any{
		&r.FolderID, &r.UIDValidity, &r.UID, &r.InboxID, &r.TaskID, &r.Fingerprint, &r.Received, &r.Size, &r.PurgedAs,
	}
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

// statusRow is a row of sqlStatuses.
type statusRow struct {
	ID         int64
	Status     tasks.Status
	SkipReason tasks.SkipReason
}

func (r *statusRow) into() []any { return []any{&r.ID, &r.Status, &r.SkipReason} }

func statuses(tx *gorm.DB, ids []int64) ([]statusRow, error) {
	return db.Query(tx, (*statusRow).into, sqlStatuses, ids)
}

// taskByID is a task without its deliveries.
func taskByID(tx *gorm.DB, id int64) (tasks.Task, error) {
	row, err := first(tx, (*taskRow).into, sqlTask, id)
	if err == nil && row.ID == 0 {
		err = tasks.ErrNotFound
	}
	if err != nil {
		return tasks.Task{}, err
	}
	return row.task(), nil
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
		out[r.TaskID] = append(out[r.TaskID], r.delivery())
	}
	return out, nil
}
