package sqlqueue

import (
	"strings"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
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
		Route: r.Route, Priority: r.Priority, Status: r.Status, Attempts: r.AttemptCount, LostLeases: r.LostLeases,
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
			TaskID: taskID, Recipient: d.Recipient, Status: d.Status, Code: d.Code, Reply: clean(d.Reply, maxText),
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
}

// match is a row of sqlSeenByFingerprint: a message of the same content and the task it belongs to.
type match struct {
	InboxID     int64
	FolderID    int64
	UIDValidity int64 `gorm:"column:uid_validity"`
	TaskID      int64
	Fingerprint []byte
	Status      tasks.Status // empty when the task has been purged: it was forwarded
	Route       string
	Reason      string
}

// vanished reports whether the match's task ended because its message was not there any more.
func (m match) vanished() bool {
	return m.Status == tasks.Skipped && strings.HasPrefix(m.Reason, tasks.VanishedPrefix)
}

// forwards reports whether the match's task was, or is to be, forwarded.
func (m match) forwards() bool {
	if m.TaskID == 0 {
		return false
	}
	switch m.Status {
	case "", tasks.Forwarded:
		return true
	case tasks.Skipped, tasks.SkippedNoMatch, tasks.Dead:
		return false
	}
	return m.Route != ""
}

func (m match) key() message.Fingerprint { return message.Fingerprint(m.Fingerprint) }
