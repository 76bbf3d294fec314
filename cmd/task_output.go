package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

// taskView is a task as JSON; scripts depend on it.
type taskView struct {
	ID           int64          `json:"id"`
	Inbox        string         `json:"inbox"`
	Folder       string         `json:"folder"`
	UIDValidity  uint32         `json:"uid_validity"`
	UID          uint32         `json:"uid"`
	MessageID    string         `json:"message_id"`
	Subject      string         `json:"subject"`
	Status       tasks.Status   `json:"status"`
	AttemptCount int            `json:"attempt_count"`
	Route        string         `json:"route"`
	ErrorMessage string         `json:"error_message"`
	Deliveries   []deliveryView `json:"deliveries"`
}

type deliveryView struct {
	Recipient string               `json:"recipient"`
	Status    tasks.DeliveryStatus `json:"status"`
	Code      int                  `json:"code"`
	Reply     string               `json:"reply"`
}

func viewTask(t tasks.Task) taskView {
	v := taskView{
		ID: t.ID, Inbox: t.Inbox, Folder: t.Folder, UIDValidity: t.UIDValidity(), UID: t.UID, MessageID: t.MessageID,
		Subject: t.Subject, Status: t.Status, AttemptCount: t.Attempts, Route: t.Route, ErrorMessage: t.Reason,
		Deliveries: []deliveryView{},
	}
	for _, d := range t.Deliveries {
		v.Deliveries = append(v.Deliveries, deliveryView{d.Recipient, d.Status, d.Code, d.Reply})
	}
	return v
}

// taskDetails is everything known of a task, as JSON.
type taskDetails struct {
	taskView
	Sender      string     `json:"sender"`
	EmailDate   *time.Time `json:"email_date"`
	Size        int64      `json:"size"`
	Fingerprint string     `json:"fingerprint"`
	Mode        string     `json:"mode"` // in which it went out; empty before
	ModeReason  string     `json:"mode_reason"`
	Priority    string     `json:"priority"`
	LostLeases  int        `json:"lost_leases"`
	Worker      string     `json:"worker"`
	DueAt       *time.Time `json:"due_at"` // null once the task has ended
	CreatedAt   time.Time  `json:"created_at"`
	QueuedAt    time.Time  `json:"queued_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	FinishedAt  *time.Time `json:"finished_at"`

	Deliveries []deliveryDetails `json:"deliveries"`
	Events     []eventView       `json:"events"`
}

type deliveryDetails struct {
	deliveryView
	Attempts    int        `json:"attempts"`
	DeliveredAt *time.Time `json:"delivered_at"`
}

// eventView is a line of the audit trail, as JSON.
type eventView struct {
	At     time.Time `json:"at"`
	Worker string    `json:"worker"`
	Event  string    `json:"event"`
	Detail string    `json:"detail"`
}

// goneTask is what is left of a task that is no longer in the registry, as JSON.
type goneTask struct {
	ID     int64       `json:"id"`
	Gone   bool        `json:"gone"`
	Events []eventView `json:"events"`
}

func detailsOf(t tasks.Task, events []tasks.Event) taskDetails {
	d := taskDetails{
		taskView: viewTask(t), Sender: t.Sender, EmailDate: utc(t.Date), Size: t.Size, Fingerprint: t.Fingerprint.String(),
		Mode: t.Mode, ModeReason: t.ModeReason, Priority: priority(t), LostLeases: t.LostLeases, Worker: t.Worker,
		DueAt: utc(t.VisibleAt), CreatedAt: t.CreatedAt.UTC(), QueuedAt: t.QueuedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
		FinishedAt: utc(t.FinishedAt), Deliveries: []deliveryDetails{}, Events: viewEvents(events),
	}
	for i, del := range t.Deliveries {
		d.Deliveries = append(d.Deliveries, deliveryDetails{d.taskView.Deliveries[i], del.Attempts, utc(del.DeliveredAt)})
	}
	return d
}

func viewEvents(events []tasks.Event) []eventView {
	out := []eventView{}
	for _, e := range events {
		out = append(out, eventView{e.At.UTC(), e.Worker, e.Event, e.Detail})
	}
	return out
}

func priority(t tasks.Task) string {
	if t.Priority == tasks.High {
		return "high"
	}
	return "normal"
}

func (a *app) taskTable(ctx context.Context, queue tasks.Reader, filter tasks.Filter, next string) error {
	limit := filter.Limit
	if limit == 0 {
		limit = tableLimit
		filter.Limit = limit + 1
	}
	g := a.table("id", "inbox", "folder", "uid", "status", "attempts", "subject", "route", "reason")
	more := false
	err := queue.List(ctx, filter, func(t tasks.Task) error {
		if more = g.Len() == limit; more {
			return nil
		}
		g.Add(t.ID, t.Inbox, t.Folder, t.UID, t.Status, t.Attempts, text.Cut(text.Line(t.Subject), 40), t.Route, text.Cut(text.Line(t.Reason), 60))
		return nil
	})
	if err != nil {
		return err
	}
	err = a.show(g, next)
	if more {
		_, said := fmt.Fprintf(a.out, "These are the newest %d; --limit N shows more, --json all.\n", limit)
		err = errors.Join(err, said)
	}
	return err
}

func (a *app) showTask(t tasks.Task, events []tasks.Event) error {
	due := "due"
	if t.Status == tasks.InProgress {
		due = "lease until"
	}
	err := a.fields(
		"task", strconv.FormatInt(t.ID, 10), "status", string(t.Status), "reason", t.Reason, due, a.whenKnown(t.VisibleAt),
		"inbox", t.Inbox, "folder", t.Folder, "UIDVALIDITY", strconv.FormatUint(uint64(t.UIDValidity()), 10),
		"UID", strconv.FormatUint(uint64(t.UID), 10), "Message-ID", t.MessageID, "from", t.Sender, "subject", t.Subject,
		"date", a.whenKnown(t.Date), "size", fmt.Sprintf("%d octets", t.Size), "fingerprint", t.Fingerprint.String(),
		"route", t.Route, "mode", t.Mode, "because", t.ModeReason, "priority", priority(t),
		"attempts", strconv.Itoa(t.Attempts), "lost leases", strconv.Itoa(t.LostLeases), "worker", t.Worker,
		"registered", a.when(&t.CreatedAt), "queued", a.when(&t.QueuedAt), "changed", a.when(&t.UpdatedAt),
		"finished", a.whenKnown(t.FinishedAt))
	return errors.Join(err, a.showDeliveries(t.Deliveries), a.showTrail(events))
}

func (a *app) showDeliveries(ds []tasks.Delivery) error {
	if len(ds) == 0 {
		return nil
	}
	g := a.table("recipient", "status", "code", "reply", "attempts", "delivered")
	for _, d := range ds {
		code := ""
		if d.Code != 0 {
			code = strconv.Itoa(d.Code)
		}
		g.Add(d.Recipient, d.Status, code, d.Reply, d.Attempts, a.whenKnown(d.DeliveredAt))
	}
	return g.Print(a.out)
}

// showTrail prints the audit trail, the oldest line first.
func (a *app) showTrail(events []tasks.Event) error {
	if len(events) == 0 {
		return nil
	}
	g := a.table("at", "event", "detail", "by")
	for _, e := range events {
		g.Add(a.when(&e.At), e.Event, e.Detail, e.Worker)
	}
	return g.Print(a.out)
}

func (a *app) showGone(id int64, events []tasks.Event, asJSON bool) error {
	if asJSON {
		return a.printJSON(goneTask{ID: id, Gone: true, Events: viewEvents(events)})
	}
	how := "is not in the registry any more: `retention` let it expire, or its inbox was removed"
	if slices.ContainsFunc(events, func(e tasks.Event) bool { return e.Event == "purged" }) {
		how = "was purged"
	}
	if _, err := fmt.Fprintf(a.out, "task %d %s; its trail:\n", id, how); err != nil {
		return err
	}
	return a.showTrail(events)
}
