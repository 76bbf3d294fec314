package sqlqueue

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

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
	ID           int64 `gorm:"column:id;primaryKey"`
	InboxID      int64
	FolderID     int64
	UIDValidity  int64  `gorm:"column:uid_validity"`
	UID          uint32 `gorm:"column:uid"`
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
	Task   taskRow `gorm:"embedded"`
	Inbox  string
	Folder string
}

func (r taskRow) task() tasks.Task {
	t := tasks.Task{
		ID: r.ID, InboxID: r.InboxID, FolderID: r.FolderID, Epoch: r.UIDValidity, UID: r.UID,
		Identity: tasks.Identity{
			Fingerprint: message.Fingerprint(r.Fingerprint), MessageID: r.MessageID,
			Subject: r.Subject, Sender: r.Sender, Size: r.Size,
		},
		Read: r.IsRead, Revision: r.Revision, Route: r.Route,
		Form: tasks.Form{Mode: r.Mode, ModeReason: r.ModeReason}, Priority: r.Priority,
		Status: r.Status, Skip: r.SkipReason, InDoubt: r.InDoubt,
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
		Priority: t.Priority, Status: t.Status, SkipReason: t.Skip, ErrorMessage: cut(t.Reason),
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
	TaskID      int64  `gorm:"column:task_id;primaryKey"`
	Recipient   string `gorm:"column:recipient;primaryKey"`
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
	Scope       int64  `gorm:"primaryKey;autoIncrement:false"`
	Fingerprint []byte `gorm:"primaryKey"`
	Recipient   string `gorm:"primaryKey"`
	TaskID      int64
}

// seenRow is a row of monitored_emails_seen.
type seenRow struct {
	FolderID    int64  `gorm:"column:folder_id;primaryKey"`
	UIDValidity int64  `gorm:"column:uid_validity;primaryKey"`
	UID         uint32 `gorm:"column:uid;primaryKey;autoIncrement:false"`
	InboxID     int64
	TaskID      int64
	Fingerprint []byte
	Received    *int64 // seconds
	Size        int64
	PurgedAs    string
}

// notedRow is a row of sqlNoted.
type notedRow struct {
	UID         uint32 `gorm:"column:uid"`
	Fingerprint []byte
	Received    *int64
	Size        int64
}

func (r notedRow) noted() tasks.Noted {
	n := tasks.Noted{UID: r.UID, Fingerprint: message.Fingerprint(r.Fingerprint), Stated: tasks.Stated{Size: r.Size}}
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

func insert[R any](tx *gorm.DB, table string, rows []R) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.Table(table).CreateInBatches(&rows, 200).Error
}

func upsert(tx *gorm.DB, rows []deliveryRow) error {
	return insert(tx.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "task_id"}, {Name: "recipient"}},
		DoUpdates: clause.AssignmentColumns(
			[]string{"status", "duplicate_of", "code", "reply", "attempts", "delivered_at"}),
	}), tableDeliveries, rows)
}

func taskByID(tx *gorm.DB, id int64) (row taskRow, err error) {
	err = tx.Raw(sqlTask, id).Scan(&row).Error
	return row, err
}

// deliveries are those of tasks, by task and recipient.
func deliveries(tx *gorm.DB, ids []int64) (map[int64][]tasks.Delivery, error) {
	return lockedDeliveries(tx, ids, unlocked)
}

func lockedDeliveries(tx *gorm.DB, ids []int64, lock func(string) string) (map[int64][]tasks.Delivery, error) {
	var rows []deliveryRow
	if err := tx.Raw(lock(sqlDeliveries), ids).Scan(&rows).Error; err != nil {
		return nil, err
	}
	out := map[int64][]tasks.Delivery{}
	for _, r := range rows {
		out[r.TaskID] = append(out[r.TaskID], r.delivery())
	}
	return out, nil
}
