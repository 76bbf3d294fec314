package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"postrider/internal/db"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// How much a digest lists; the rest is counted.
const (
	maxTasks      = 50
	maxInboxes    = 50
	maxDeliveries = 20
	maxText       = 500 // characters of a subject, a reason, a reply
)

// Digest is the content of a notice. The hook gets it as JSON: keys may be added, but never change.
type Digest struct {
	Version     int       `json:"version"` // 1
	At          time.Time `json:"at"`
	Host        string    `json:"host"` // that sends it
	Counts      Counts    `json:"counts"`
	Tasks       []Task    `json:"tasks"`
	MoreTasks   int       `json:"more_tasks"` // not in Tasks
	Inboxes     []Inbox   `json:"inboxes"`
	MoreInboxes int       `json:"more_inboxes"` // not in Inboxes

	Recipients     []Recipient `json:"recipients"`
	MoreRecipients int         `json:"more_recipients"` // not in Recipients

	about  []string // identifies the content, for the Message-ID
	atMost time.Duration
}

// Counts are the numbers of failures in a digest, including those that are not listed.
type Counts struct {
	Dead             int `json:"dead"`
	Uncertain        int `json:"uncertain"`
	Bounced          int `json:"bounced"` // accepted by the relay, and bounced for a recipient
	InboxUnreachable int `json:"inbox_unreachable"`
	InboxReachable   int `json:"inbox_reachable"` // outages that ended
	NeedsLogin       int `json:"needs_login"`     // inboxes to which a person has to log in
	RecipientBounces int `json:"recipient_bounces"`
}

// Task is a message that waits for an operator.
type Task struct {
	ID             int64      `json:"id"`
	Inbox          string     `json:"inbox"`
	Folder         string     `json:"folder"`
	UIDValidity    uint32     `json:"uid_validity"`
	UID            uint32     `json:"uid"`
	MessageID      string     `json:"message_id"`
	Subject        string     `json:"subject"`
	Sender         string     `json:"sender"`
	Status         string     `json:"status"` // dead, uncertain, or bounced
	Since          time.Time  `json:"since"`
	Attempts       int        `json:"attempt_count"`
	Route          string     `json:"route"`
	Reason         string     `json:"error_message"`
	Deliveries     []Delivery `json:"deliveries"` // those not delivered first
	MoreDeliveries int        `json:"more_deliveries"`
	Commands       []string   `json:"commands"` // that settle the task
}

// Delivery is one recipient of a message.
type Delivery struct {
	Recipient string `json:"recipient"`
	// failed, sending (it may have arrived), pending, delivered, duplicate (left to another task),
	// bounced (delivered to the relay, and failed after that)
	Status string `json:"status"`
	Code   int    `json:"code"` // of the relay's last reply; 0 for none
	Reply  string `json:"reply"`

	delayed string // what a report says of a message that is still on its way; only in the text
}

// Inbox is an inbox whose scans fail, or work again.
type Inbox struct {
	Email       string     `json:"email"`
	Kind        Kind       `json:"kind"` // inbox_unreachable or needs_login
	Since       time.Time  `json:"unreachable_since"`
	Until       *time.Time `json:"reachable_since"` // null while it lasts
	FailedScans int        `json:"failed_scans"`    // in a row
	Error       string     `json:"error"`           // the last one; empty after the outage
	Commands    []string   `json:"commands"`
}

// digest builds the digest of the news.
func (n *Notifier) digest(ctx context.Context, news News) (Digest, error) {
	d := Digest{
		Version: 1, At: news.At, Host: n.Config.Host, atMost: n.Config.AtMost,
		Tasks: []Task{}, Inboxes: []Inbox{}, Recipients: []Recipient{},
	}
	d.addRepeated(news.Recipients)
	endings := slices.Concat(news.Tasks, news.Bounces)
	for _, e := range endings {
		what := "task "
		switch e.Status {
		case Dead:
			d.Counts.Dead++
		case Uncertain:
			d.Counts.Uncertain++
		default:
			d.Counts.Bounced++
			what = "bounce "
		}
		d.about = append(d.about, fmt.Sprint(what, e.ID, " ", e.FinishedAt.UnixMicro()))
	}
	d.MoreTasks = max(0, len(endings)-maxTasks)
	for _, e := range endings[:min(len(endings), maxTasks)] {
		t, err := n.Tasks.Get(ctx, e.ID)
		switch {
		case ctx.Err() != nil:
			return Digest{}, fmt.Errorf("read task %d for a failure notice: %w", e.ID, ctx.Err())
		case errors.As(err, new(*db.UnavailableError)): // a later pass can read it
			return Digest{}, fmt.Errorf("read task %d for a failure notice: %w", e.ID, err)
		case errors.Is(err, tasks.ErrNotFound): // purged in the meantime
			continue
		case err != nil:
			t = tasks.Task{ID: e.ID, Status: tasks.Status(e.Status), Reason: "it cannot be read: " + text.Error(err)}
		}
		d.Tasks = append(d.Tasks, describe(t, e))
	}
	for _, o := range news.Outages {
		d.about = append(d.about, fmt.Sprint("inbox ", o.ID, " ", o.at().UnixMicro()))
		switch {
		case o.Until != nil:
			d.Counts.InboxReachable++
		case o.Kind == NeedsLogin:
			d.Counts.NeedsLogin++
		default:
			d.Counts.InboxUnreachable++
		}
		if len(d.Inboxes) < maxInboxes {
			d.Inboxes = append(d.Inboxes, outage(o))
		}
	}
	d.MoreInboxes = len(news.Outages) - len(d.Inboxes)
	return d, nil
}

func describe(t tasks.Task, e Ending) Task {
	out := Task{
		ID: t.ID, Inbox: t.Inbox, Folder: t.Folder, UIDValidity: t.UIDValidity(), UID: t.UID,
		MessageID: line(t.Identity.MessageID), Subject: line(t.Identity.Subject), Sender: line(t.Identity.Sender),
		Status: string(t.Status), Since: e.FinishedAt.UTC(), Attempts: t.Attempts, Route: t.Route,
		Reason: line(t.Reason), Deliveries: []Delivery{}, Commands: commands(t),
	}
	if e.Status == Bounced {
		out.Status = string(Bounced)
	}
	for _, has := range []bool{false, true} {
		for _, d := range t.Deliveries {
			switch {
			case ((d.Status == tasks.Delivered || d.Status == tasks.Duplicated) && !d.HasBounced()) != has:
			case len(out.Deliveries) == maxDeliveries:
				out.MoreDeliveries++
			default:
				out.Deliveries = append(out.Deliveries, recipient(d))
			}
		}
	}
	return out
}

func recipient(d tasks.Delivery) Delivery {
	out := Delivery{Recipient: d.Recipient, Status: string(d.Status), Code: d.Code, Reply: line(d.Reply)}
	switch {
	case d.HasBounced():
		out.Status, out.Code, out.Reply = string(tasks.Bounced), d.Arrival.Code, line(d.Became())
	case d.Arrival != nil && d.Arrival.Status == tasks.Delayed:
		out.delayed = line(d.Became())
	}
	return out
}

// commands returns the commands that settle a task.
func commands(t tasks.Task) []string {
	var what []string
	switch {
	case t.Status == tasks.Dead:
		what = []string{"show", "retry", "skip"}
	case t.Status == tasks.Uncertain:
		what = []string{"show", "resolve --delivered", "resolve --retry"}
	case t.HasBounced():
		what = []string{"show", "retry"}
	default: // an operator has settled it in the meantime
		what = []string{"show"}
	}
	for i := range what {
		what[i] = fmt.Sprintf("postrider task %s %d", what[i], t.ID)
	}
	return what
}

func outage(o Outage) Inbox {
	in := Inbox{
		Email: o.Address, Kind: o.Kind, Since: o.Since.UTC(), FailedScans: o.FailedScans, Error: line(o.LastError),
		Commands: []string{},
	}
	if o.Until == nil {
		in.Commands = []string{"postrider inbox check " + text.Arg(o.Address)}
		if o.Kind == NeedsLogin {
			in.Commands = []string{"postrider inbox login " + text.Arg(o.Address)}
		}
		return in
	}
	until := o.Until.UTC()
	in.Until, in.FailedScans, in.Error = &until, 0, ""
	return in
}

// line is one printable line of bounded length, so that no stranger's text can be taken for
// anything else.
func line(s string) string { return text.Cut(text.Line(s), maxText+1) }
