package tasks

import (
	"time"

	"postrider/internal/text"
)

// View is a task as JSON. Scripts depend on it.
type View struct {
	ID    int64  `json:"id"`
	Inbox string `json:"inbox"`

	Labels map[string]string `json:"labels,omitempty"` // of the inbox; the caller fills it in

	Folder       string         `json:"folder"`
	UIDValidity  uint32         `json:"uid_validity"`
	UID          uint32         `json:"uid"`
	MessageID    string         `json:"message_id"`
	Sender       string         `json:"sender"`
	Subject      string         `json:"subject"`
	Status       Status         `json:"status"`
	AttemptCount int            `json:"attempt_count"`
	Route        string         `json:"route"`
	ErrorMessage string         `json:"error_message"`
	EmailDate    *time.Time     `json:"email_date"` // as the message says
	DueAt        *time.Time     `json:"due_at"`     // null once the task has ended
	CreatedAt    time.Time      `json:"created_at"` // registered
	QueuedAt     time.Time      `json:"queued_at"`  // registered, or requeued by an operator
	UpdatedAt    time.Time      `json:"updated_at"`
	FinishedAt   *time.Time     `json:"finished_at"`
	Deliveries   []DeliveryView `json:"deliveries"`
}

// DeliveryView is a delivery as JSON.
type DeliveryView struct {
	Recipient   string         `json:"recipient"`
	Status      DeliveryStatus `json:"status"`
	Code        int            `json:"code"`
	Reply       string         `json:"reply"`
	DeliveredAt *time.Time     `json:"delivered_at"`
	Arrival     *ArrivalView   `json:"arrival,omitempty"` // what became of it then; absent when nothing is known
}

// ArrivalView is what became of a delivery, as JSON.
type ArrivalView struct {
	Status   ArrivalStatus `json:"status"`
	Code     int           `json:"code"` // of the remote server's reply; 0 when unknown
	Enhanced string        `json:"enhanced"`
	Reply    string        `json:"reply"`
	Remote   string        `json:"remote"` // the remote server; empty when unknown
	Target   string        `json:"target"` // the mailbox it is about, if not the recipient: a member of an alias, say
	At       time.Time     `json:"at"`
}

// ViewOf is the JSON of a task.
func ViewOf(t Task) View {
	v := View{
		ID: t.ID, Inbox: t.Inbox, Folder: t.Folder, UIDValidity: t.UIDValidity(), UID: t.UID,
		MessageID: t.Identity.MessageID, Sender: t.Identity.Sender, Subject: t.Identity.Subject,
		Status: t.Status, AttemptCount: t.Attempts, Route: t.Route, ErrorMessage: t.Reason,
		DueAt: text.UTC(t.VisibleAt), CreatedAt: t.CreatedAt.UTC(),
		QueuedAt: t.QueuedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
		FinishedAt: text.UTC(t.FinishedAt), Deliveries: []DeliveryView{},
	}
	if date := t.Identity.Date; !date.IsZero() {
		v.EmailDate = text.UTC(&date)
	}
	for _, d := range t.Deliveries {
		v.Deliveries = append(v.Deliveries, DeliveryView{
			d.Recipient, d.Status, d.Code, d.Reply, text.UTC(d.DeliveredAt), arrivalView(d.Arrival),
		})
	}
	return v
}

func arrivalView(a *Arrival) *ArrivalView {
	if a == nil {
		return nil
	}
	return &ArrivalView{a.Status, a.Code, a.Enhanced, a.Reply, a.Remote, a.Target, a.At.UTC()}
}

// Details is everything known of a task, as JSON.
type Details struct {
	View
	Size        int64      `json:"size"`
	Fingerprint string     `json:"fingerprint"`
	Mode        string     `json:"mode"` // in which it went out; empty before
	ModeReason  string     `json:"mode_reason"`
	Priority    string     `json:"priority"`
	LostLeases  int        `json:"lost_leases"`
	Worker      string     `json:"worker"`
	SkipReason  SkipReason `json:"skip_reason,omitempty"`
	KeepReason  KeepReason `json:"keep_reason,omitempty"`

	Deliveries []DeliveryDetails `json:"deliveries"`
	Events     []EventView       `json:"events"`
}

// DeliveryDetails is everything known of a delivery, as JSON.
type DeliveryDetails struct {
	DeliveryView
	DuplicateOf int64 `json:"duplicate_of,omitempty"` // see Delivery.DuplicateOf
	Attempts    int   `json:"attempts"`
}

// EventView is a line of the audit trail, as JSON.
type EventView struct {
	At     time.Time `json:"at"`
	Worker string    `json:"worker"`
	Event  string    `json:"event"`
	Detail string    `json:"detail"`
}

// GoneView is what is left of a task that is no longer in the registry, as JSON.
type GoneView struct {
	ID     int64       `json:"id"`
	Gone   bool        `json:"gone"`
	Events []EventView `json:"events"`
}

// DetailsOf is the JSON of everything known of a task.
func DetailsOf(t Task, events []Event) Details {
	d := Details{
		View: ViewOf(t), Size: t.Identity.Size,
		Fingerprint: t.Identity.Fingerprint.String(), SkipReason: t.Skip, KeepReason: t.Keep,
		Mode: t.Form.Mode, ModeReason: t.Form.ModeReason, Priority: t.Priority.Name(),
		LostLeases: t.LostLeases, Worker: t.Worker,
		Deliveries: []DeliveryDetails{}, Events: EventsOf(events),
	}
	for i, del := range t.Deliveries {
		d.Deliveries = append(d.Deliveries, DeliveryDetails{
			d.View.Deliveries[i], del.DuplicateOf, del.Attempts,
		})
	}
	return d
}

// EventsOf is the JSON of an audit trail.
func EventsOf(events []Event) []EventView {
	out := []EventView{}
	for _, e := range events {
		out = append(out, EventView{e.At.UTC(), e.Worker, e.Event, e.Detail})
	}
	return out
}

// Name is high or normal.
func (p Priority) Name() string {
	if p == High {
		return "high"
	}
	return "normal"
}
