package pass

import (
	"fmt"
	"strings"
	"time"

	"postrider/internal/forward"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// Would is what a pass would do with one message. It is what `run --dry-run --json` prints of it.
type Would struct {
	Inbox       string           `json:"inbox"`
	Folder      string           `json:"folder"`
	UIDValidity uint32           `json:"uid_validity"`
	UID         uint32           `json:"uid"`
	Task        *int64           `json:"task"` // nil: it is not registered yet
	MessageID   string           `json:"message_id"`
	Sender      string           `json:"sender"`
	Subject     string           `json:"subject"`
	Size        int64            `json:"size"`   // octets
	Status      tasks.Status     `json:"status"` // of the task, or that it would be registered with
	Skip        tasks.SkipReason `json:"skip_reason,omitempty"`
	Keep        tasks.KeepReason `json:"keep_reason,omitempty"`
	Route       string           `json:"route"`
	Recipients  []string         `json:"recipients"` // who would get it
	Outcome     string           `json:"outcome"`    // for a person
	// DeletedAt is when it would be deleted on the server, not before; nil: it is kept, or that is
	// not known yet.
	DeletedAt *time.Time `json:"deleted_at,omitempty"`
}

func would(t tasks.Task, outcome string) *Would {
	return &Would{
		Inbox: t.Inbox, Folder: t.Folder, UIDValidity: t.UIDValidity(), UID: t.UID,
		MessageID: t.Identity.MessageID, Sender: t.Identity.Sender, Subject: t.Identity.Subject, Size: t.Identity.Size,
		Status: t.Status, Keep: t.Keep, Route: t.Route,
		Recipients: append([]string{}, recipientsToDo(t.Deliveries)...), Outcome: outcome,
	}
}

// wouldRegister is what a pass would do with a message that it would register as t.
func wouldRegister(t tasks.Task, d *tasks.Decision) *Would {
	w := would(t, registering(t, d))
	w.Skip = t.Skip
	return w
}

// wouldProcess is what a pass would do with a task that is due. Without deliveries it has no
// decision of the current routes.
func wouldProcess(t tasks.Task) *Would {
	w := would(t, fmt.Sprintf("task %d (%s) would be processed", t.ID, t.Status)+withheld(t.Deliveries))
	if len(t.Deliveries) == 0 {
		w.Outcome = fmt.Sprintf("task %d (%s) would be decided by the current routes; "+
			"to see how: postrider route test --task %[1]d", t.ID, t.Status)
	}
	w.Task = &t.ID
	return w
}

// String is a line for a person.
func (w Would) String() string {
	from := "(no sender)"
	if w.Sender != "" {
		from = "from " + text.Line(w.Sender)
	}
	return fmt.Sprintf("%s %s UID %d %s %q: %s",
		w.Inbox, text.Line(w.Folder), w.UID, from, text.Cut(text.Line(w.Subject), 60), w.Outcome)
}

// registering says what would become of a message that would be registered as t.
func registering(t tasks.Task, d *tasks.Decision) string {
	switch {
	case t.Skip == tasks.SkipDuplicate:
		return "would be registered and skipped: duplicate"
	case d == nil:
		return "would be registered, and decided on when it can be read"
	case t.Skip == tasks.SkipTooLarge:
		return "would be registered and skipped: " + d.Reason
	case t.Status.Ended():
		return "would not be forwarded: " + d.Reason
	}
	what := "would be forwarded"
	if t.Form.Mode == string(forward.Notice) {
		what = "a notice would be sent"
	}
	to := recipientsToDo(t.Deliveries)
	what = fmt.Sprintf("%s to %s by route %s", what, strings.Join(to, ", "), d.Route)
	if len(to) == 0 {
		what = fmt.Sprintf("would end dead: all recipients of route %s are suspended", d.Route)
	}
	for _, n := range d.Notes {
		what += " (" + text.Line(n.Detail) + ")"
	}
	return what + withheld(t.Deliveries)
}

// withheld names the recipients that a pass would not try, and says why.
func withheld(ds []tasks.Delivery) (what string) {
	for _, d := range ds {
		if d.Status == tasks.Failed {
			what += "; nothing would be sent to " + d.Recipient + ": " + text.Line(d.Reply)
		}
	}
	return what
}

// String is who gets the message, and by which route.
func (f ReplayFate) String() string {
	const enough = 5
	if len(f.Recipients) == 0 {
		return "nobody: " + f.Reason
	}
	who := f.Route + ": " + strings.Join(text.Some(f.Recipients, enough), ", ")
	if f.LeftOut != "" {
		who += " (left out: " + f.LeftOut + ", the inbox's own address)"
	}
	return who
}
