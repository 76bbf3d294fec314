package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"postrider/internal/tasks"
)

// taskDetails is all that is known of a task, as JSON.
type taskDetails struct {
	taskView
	Sender      string     `json:"sender"`
	EmailDate   *time.Time `json:"email_date"`
	Size        int64      `json:"size"`
	Fingerprint string     `json:"fingerprint"`
	Mode        string     `json:"mode"` // as what it went out; empty before
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

func (a *app) taskShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID [--json]",
		Short: "Show everything known about one message: its UID, the relay's replies, the audit trail",
		Args:  takes(1, 1, "the ID of one task"),
		RunE:  func(c *cobra.Command, args []string) error { return a.taskShow(c.Context(), args, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) taskShow(ctx context.Context, args []string, asJSON bool) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		t, err := s.queue.Get(ctx, ids[0])
		gone := errors.Is(err, tasks.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		events, err := s.queue.Events(ctx, ids[0])
		switch {
		case err != nil:
			return err
		case gone && len(events) == 0:
			return noTask(ids[0])
		case gone:
			return a.showGone(ids[0], events, asJSON)
		case asJSON:
			return a.printJSON(detailsOf(t, events))
		}
		return a.showTask(t, events)
	})
}

func noTask(id int64) error {
	return fmt.Errorf("there is no task %d; it may have been purged, or removed with its inbox (`postrider task list` shows those there are)", id)
}

// parseIDs reads the ids of tasks, each once.
func parseIDs(args []string) ([]int64, error) {
	var ids []int64
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 1 {
			return nil, usage(fmt.Errorf("%q is not the ID of a task; `postrider task list` shows them in its first column", arg))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func detailsOf(t tasks.Task, events []tasks.Event) taskDetails {
	d := taskDetails{
		taskView: viewTask(t), Sender: t.Sender, EmailDate: utc(t.Date), Size: t.Size, Fingerprint: t.Fingerprint.String(),
		Mode: t.Mode, ModeReason: t.ModeReason, Priority: priority(t), LostLeases: t.LostLeases, Worker: t.Worker, DueAt: utc(t.VisibleAt), CreatedAt: t.CreatedAt.UTC(),
		QueuedAt: t.QueuedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(), FinishedAt: utc(t.FinishedAt),
		Deliveries: []deliveryDetails{}, Events: viewEvents(events),
	}
	for i, del := range t.Deliveries {
		d.Deliveries = append(d.Deliveries, deliveryDetails{d.taskView.Deliveries[i], del.Attempts, utc(del.DeliveredAt)})
	}
	return d
}

func priority(t tasks.Task) string {
	if t.Priority == tasks.High {
		return "high"
	}
	return "normal"
}

func (a *app) showTask(t tasks.Task, events []tasks.Event) error {
	err := a.fields(
		"task", strconv.FormatInt(t.ID, 10), "status", string(t.Status), "reason", t.Reason, a.dueName(t), a.due(t),
		"inbox", t.Inbox, "folder", t.Folder, "UIDVALIDITY", strconv.FormatUint(uint64(t.UIDValidity()), 10),
		"UID", strconv.FormatUint(uint64(t.UID), 10), "Message-ID", t.MessageID, "from", t.Sender, "subject", t.Subject,
		"date", a.whenKnown(t.Date), "size", fmt.Sprintf("%d octets", t.Size), "fingerprint", t.Fingerprint.String(),
		"route", t.Route, "mode", t.Mode, "because", t.ModeReason, "priority", priority(t), "attempts", strconv.Itoa(t.Attempts), "lost leases", strconv.Itoa(t.LostLeases),
		"worker", t.Worker, "registered", a.when(&t.CreatedAt), "queued", a.when(&t.QueuedAt), "changed", a.when(&t.UpdatedAt),
		"finished", a.whenKnown(t.FinishedAt))
	if err != nil {
		return err
	}
	a.showDeliveries(t.Deliveries)
	a.showTrail(events)
	return nil
}

// textWidth is the widest that a column of running text gets, so that a long reply does not tear the table apart.
const textWidth = 60

func (a *app) showDeliveries(ds []tasks.Delivery) {
	if len(ds) == 0 {
		return
	}
	t := newTable(a.out, "recipient", "status", "code", "reply", "attempts", "delivered")
	t.SetColumnConfigs([]table.ColumnConfig{wrapped("reply")})
	for _, d := range ds {
		code := ""
		if d.Code != 0 {
			code = strconv.Itoa(d.Code)
		}
		t.AppendRow(table.Row{printable(d.Recipient), d.Status, code, printable(d.Reply), d.Attempts, a.whenKnown(d.DeliveredAt)})
	}
	t.Render()
}

func wrapped(column string) table.ColumnConfig {
	return table.ColumnConfig{Name: column, WidthMax: textWidth, WidthMaxEnforcer: text.WrapSoft}
}

// dueName says what the one clock of a live task stands for.
func (a *app) dueName(t tasks.Task) string {
	if t.Status == tasks.InProgress {
		return "lease until"
	}
	return "due"
}

func (a *app) due(t tasks.Task) string { return a.whenKnown(t.VisibleAt) }

// whenKnown is when, but empty for a time that there is not.
func (a *app) whenKnown(t *time.Time) string {
	if t == nil {
		return ""
	}
	return a.when(t)
}
