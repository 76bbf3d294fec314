package sqlqueue

import (
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

const (
	tableTasks      = "monitored_emails_tasks"
	tableDeliveries = "monitored_emails_deliveries"
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
	Subject      string
	Sender       string
	EmailDate    *time.Time
	Size         int64
	Route        string
	Mode         string
	ModeReason   string
	Priority     tasks.Priority
	Status       tasks.Status
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
		MessageID: r.MessageID, Subject: r.Subject, Sender: r.Sender, Date: r.EmailDate, Size: r.Size,
		Route: r.Route, Form: tasks.Form{Mode: r.Mode, ModeReason: r.ModeReason}, Priority: r.Priority, Status: r.Status, Attempts: r.AttemptCount, LostLeases: r.LostLeases,
		Worker: r.Worker, Reason: r.ErrorMessage,
		CreatedAt: r.CreatedAt, QueuedAt: r.QueuedAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt,
	}
	copy(t.Fingerprint[:], r.Fingerprint)
	if r.VisibleAt != nil {
		v := time.UnixMicro(*r.VisibleAt).UTC()
		t.VisibleAt = &v
	}
	return t
}

// deliveryRow is a row of monitored_emails_deliveries.
type deliveryRow struct {
	TaskID      int64  `gorm:"column:task_id;primaryKey"`
	Recipient   string `gorm:"column:recipient;primaryKey"`
	Status      tasks.DeliveryStatus
	Code        int
	Reply       string
	Attempts    int
	DeliveredAt *time.Time
}

func deliveryRows(taskID int64, ds []tasks.Delivery, now time.Time) []deliveryRow {
	rows := make([]deliveryRow, len(ds))
	for i, d := range ds {
		rows[i] = deliveryRow{
			TaskID: taskID, Recipient: d.Recipient, Status: d.Status, Code: d.Code, Reply: db.Cut(d.Reply, maxText),
			Attempts: d.Attempts, DeliveredAt: d.DeliveredAt,
		}
		if d.Status == tasks.Delivered && d.DeliveredAt == nil {
			rows[i].DeliveredAt = &now
		}
	}
	return rows
}

func (r deliveryRow) delivery() tasks.Delivery {
	return tasks.Delivery{
		Recipient: r.Recipient, Status: r.Status, Code: r.Code, Reply: r.Reply, Attempts: r.Attempts, DeliveredAt: r.DeliveredAt,
	}
}

// seenRow is a row of monitored_emails_seen.
type seenRow struct {
	FolderID    int64  `gorm:"column:folder_id;primaryKey"`
	UIDValidity int64  `gorm:"column:uid_validity;primaryKey"`
	UID         uint32 `gorm:"column:uid;primaryKey;autoIncrement:false"`
	InboxID     int64
	TaskID      int64
	Fingerprint []byte
	PurgedAs    string
}

// matchRow is a row of sqlSeenByFingerprint.
type matchRow struct {
	InboxID     int64
	FolderID    int64
	UIDValidity int64 `gorm:"column:uid_validity"`
	TaskID      int64
	Fingerprint []byte
	PurgedAs    string
	Reached     bool
	Status      tasks.Status // empty when there is no such task any more
	Route       string
	Reason      string
}

func (r matchRow) row() ledger.Row {
	return ledger.Row{
		InboxID: r.InboxID, FolderID: r.FolderID, Epoch: r.UIDValidity, TaskID: r.TaskID, Fingerprint: message.Fingerprint(r.Fingerprint),
		PurgedAs: r.PurgedAs, Reached: r.Reached, Status: r.Status, Route: r.Route, Reason: r.Reason,
	}
}

// seenLike are the rows of the ledger with one of the fingerprints, ordered by task.
func seenLike(tx *gorm.DB, keys ...[]byte) ([]ledger.Row, error) {
	var found []matchRow
	if err := tx.Raw(sqlSeenByFingerprint, keys).Scan(&found).Error; err != nil {
		return nil, err
	}
	rows := make([]ledger.Row, len(found))
	for i, r := range found {
		rows[i] = r.row()
	}
	return rows, nil
}
