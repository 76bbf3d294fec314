package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

// What a digest has room for; the rest is counted.
const (
	maxTasks      = 50
	maxInboxes    = 50
	maxDeliveries = 20
	maxText       = 500 // characters of a subject, a reason, a reply
)

// Digest is what is told. Its JSON is what the hook gets: keys are added to it, none change.
type Digest struct {
	Version     int       `json:"version"` // 1
	At          time.Time `json:"at"`
	Host        string    `json:"host"` // that tells it
	Counts      Counts    `json:"counts"`
	Tasks       []Task    `json:"tasks"`
	MoreTasks   int       `json:"more_tasks"` // that are not in Tasks
	Inboxes     []Inbox   `json:"inboxes"`
	MoreInboxes int       `json:"more_inboxes"`

	about  []string // what makes it another digest
	atMost time.Duration
}

// Counts are how many of what is in the digest, with the ones there was no room for.
type Counts struct {
	Dead             int `json:"dead"`
	Uncertain        int `json:"uncertain"`
	InboxUnreachable int `json:"inbox_unreachable"`
	InboxReachable   int `json:"inbox_reachable"` // again
}

// Task is a message that waits for a person.
type Task struct {
	ID             int64      `json:"id"`
	Inbox          string     `json:"inbox"`
	Folder         string     `json:"folder"`
	UIDValidity    uint32     `json:"uid_validity"`
	UID            uint32     `json:"uid"`
	MessageID      string     `json:"message_id"`
	Subject        string     `json:"subject"`
	Sender         string     `json:"sender"`
	Status         string     `json:"status"` // dead, uncertain
	Since          time.Time  `json:"since"`
	Attempts       int        `json:"attempt_count"`
	Route          string     `json:"route"`
	Reason         string     `json:"error_message"`
	Deliveries     []Delivery `json:"deliveries"` // those who lack it first
	MoreDeliveries int        `json:"more_deliveries"`
	Commands       []string   `json:"commands"` // that help
}

// Delivery is a recipient of a message.
type Delivery struct {
	Recipient string `json:"recipient"`
	Status    string `json:"status"` // failed, sending (it may have arrived), pending, delivered
	Code      int    `json:"code"`   // of the relay's last reply; 0 when there was none
	Reply     string `json:"reply"`
}

// Inbox is one that cannot be worked through, or can again.
type Inbox struct {
	Email       string     `json:"email"`
	Since       time.Time  `json:"unreachable_since"`
	Until       *time.Time `json:"reachable_since"` // null while it lasts
	FailedScans int        `json:"failed_scans"`    // in a row, so far
	Error       string     `json:"error"`           // the last one; empty when it is over
	Commands    []string   `json:"commands"`
}

// digest describes the news.
func (n *Notifier) digest(ctx context.Context, news News) (Digest, error) {
	d := Digest{
		Version: 1, At: news.At, Host: n.Config.Host, Tasks: []Task{}, Inboxes: []Inbox{}, atMost: n.Config.AtMost,
	}
	for _, e := range news.Tasks {
		d.about = append(d.about, fmt.Sprint("task ", e.ID, " ", e.FinishedAt.UnixMicro()))
		if e.Status == Dead {
			d.Counts.Dead++
		} else {
			d.Counts.Uncertain++
		}
	}
	d.MoreTasks = max(0, len(news.Tasks)-maxTasks)
	for _, e := range news.Tasks[:min(len(news.Tasks), maxTasks)] {
		t, err := n.Tasks.Get(ctx, e.ID)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // purged this very moment
		case err != nil:
			return Digest{}, fmt.Errorf("describe what is to be told: %w", err)
		default:
			d.Tasks = append(d.Tasks, describe(t, e.FinishedAt))
		}
	}
	for _, o := range news.Outages {
		d.about = append(d.about, fmt.Sprint("inbox ", o.ID, " ", o.at().UnixMicro()))
		if o.Until == nil {
			d.Counts.InboxUnreachable++
		} else {
			d.Counts.InboxReachable++
		}
		if len(d.Inboxes) < maxInboxes {
			d.Inboxes = append(d.Inboxes, outage(o))
		}
	}
	d.MoreInboxes = len(news.Outages) - len(d.Inboxes)
	return d, nil
}

func describe(t tasks.Task, since time.Time) Task {
	out := Task{
		ID: t.ID, Inbox: t.Inbox, Folder: t.Folder, UIDValidity: t.UIDValidity(), UID: t.UID, MessageID: line(t.MessageID),
		Subject: line(t.Subject), Sender: line(t.Sender), Status: string(t.Status), Since: since.UTC(), Attempts: t.Attempts,
		Route: t.Route, Reason: line(t.Reason), Deliveries: []Delivery{}, Commands: commands(t),
	}
	for _, has := range []bool{false, true} {
		for _, d := range t.Deliveries {
			switch {
			case (d.Status == tasks.Delivered) != has:
			case len(out.Deliveries) == maxDeliveries:
				out.MoreDeliveries++
			default:
				out.Deliveries = append(out.Deliveries, Delivery{d.Recipient, string(d.Status), d.Code, line(d.Reply)})
			}
		}
	}
	return out
}

// commands are what a person may do about a task.
func commands(t tasks.Task) []string {
	var what []string
	switch t.Status {
	case tasks.Dead:
		what = []string{"show", "retry", "skip"}
	case tasks.Uncertain:
		what = []string{"show", "resolve --delivered", "resolve --retry"}
	default: // a person was quicker
		what = []string{"show"}
	}
	for i := range what {
		what[i] = fmt.Sprintf("postrider task %s %d", what[i], t.ID)
	}
	return what
}

func outage(o Outage) Inbox {
	in := Inbox{Email: o.Address, Since: o.Since.UTC(), FailedScans: o.FailedScans, Error: line(o.LastError), Commands: []string{}}
	if o.Until == nil {
		in.Commands = []string{"postrider inbox check " + o.Address}
		return in
	}
	until := o.Until.UTC()
	in.Until, in.FailedScans, in.Error = &until, 0, ""
	return in
}

// line is one printable line of bounded length, so that no stranger's text can be taken for anything else.
func line(s string) string { return text.Cut(text.Line(s), maxText+1) }
