package cmd

import (
	"fmt"
	"slices"
	"strconv"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) showTask(t tasks.Task, events []tasks.Event) {
	due := "due"
	if t.Status == tasks.InProgress {
		due = "lease until"
	}
	at := a.whenKnown(t.VisibleAt)
	if t.Shut() {
		at = "when its inbox is enabled: postrider inbox enable " + text.Arg(t.Inbox)
	}
	a.fields(
		"task", strconv.FormatInt(t.ID, 10), "status", string(t.Status), "reason", t.Reason, due, at,
		"inbox", t.Inbox, "folder", t.Folder, "UIDVALIDITY", strconv.FormatUint(uint64(t.UIDValidity()), 10),
		"UID", strconv.FormatUint(uint64(t.UID), 10), "Message-ID", t.Identity.MessageID,
		"from", t.Identity.Sender, "subject", t.Identity.Subject, "date", a.whenKnown(tasks.ViewOf(t).EmailDate),
		"size", fmt.Sprintf("%d octets", t.Identity.Size), "fingerprint", t.Identity.Fingerprint.String(),
		"route", t.Route, "mode", t.Form.Mode, "because", t.Form.ModeReason, "priority", t.Priority.Name(),
		"attempts", strconv.Itoa(t.Attempts), "lost leases", strconv.Itoa(t.LostLeases), "worker", t.Worker,
		"registered", a.when(&t.CreatedAt), "queued", a.when(&t.QueuedAt), "changed", a.when(&t.UpdatedAt),
		"finished", a.whenKnown(t.FinishedAt))
	a.showDeliveries(t.Deliveries)
	a.showTrail(events)
}

func (a *app) showDeliveries(ds []tasks.Delivery) {
	if len(ds) == 0 {
		return
	}
	g := a.painted(a.table("recipient", "status", "code", "reply", "attempts", "delivered"), "status", paintState)
	for _, d := range ds {
		code := ""
		if d.Code != 0 {
			code = strconv.Itoa(d.Code)
		}
		g.Add(d.Recipient, d.Status, code, d.Reply, d.Attempts, a.whenKnown(d.DeliveredAt))
	}
	a.printed(g.Print(a.out))
	for _, d := range ds {
		if became := d.Became(); became != "" {
			a.print("%s\n", text.Line(d.Recipient+" "+became))
		}
	}
}

// showTrail prints the audit trail, the oldest line first.
func (a *app) showTrail(events []tasks.Event) {
	if len(events) == 0 {
		return
	}
	g := a.table("at", "event", "detail", "by")
	for _, e := range events {
		g.Add(a.when(&e.At), e.Event, e.Detail, e.Worker)
	}
	a.printed(g.Print(a.out))
}

func (a *app) showGone(id int64, events []tasks.Event, asJSON bool) {
	if asJSON {
		a.printJSON(tasks.GoneView{ID: id, Gone: true, Events: tasks.EventsOf(events)})
		return
	}
	how := "is no longer in the registry"
	if slices.ContainsFunc(events, func(e tasks.Event) bool { return e.Event == "purged" }) {
		how = "was purged"
	}
	a.print("task %d %s; its trail:\n", id, how)
	a.showTrail(events)
}
