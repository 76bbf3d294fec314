package tasks

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/text"
)

// Tracker says what became of deliveries after the relay had accepted them.
type Tracker interface {
	// Arrived records what a report says about a delivery that the relay accepted, or may have
	// accepted, with a line in the task's audit trail. A later report replaces an earlier one only
	// if it says more (ArrivalStatus.Beyond), so calling Arrived twice changes nothing. For other
	// deliveries it records nothing. ErrNotFound: there is no such task or delivery.
	Arrived(ctx context.Context, who string, taskID int64, recipient string, a Arrival) (changed bool, err error)
	// SentAs returns the tasks, registered within that time, whose message has this Message-ID and
	// was sent, or may have been: the newest first, at most 20. It reads all tasks of that time.
	SentAs(ctx context.Context, messageID string, within time.Duration) ([]int64, error)
	// Bounces counts, for each recipient, the deliveries for which a bounce about the mailbox was
	// recorded within that time (Arrival.OfMailbox).
	Bounces(ctx context.Context, within time.Duration) (map[string]int, error)
}

// SentAsMost is how many tasks SentAs returns at most.
const SentAsMost = 20

// ArrivalStatus is what became of a delivery after the relay had accepted it.
type ArrivalStatus string

// What may become of a delivery. Each status says more than those before it.
const (
	Delayed    ArrivalStatus = "delayed"    // a server on the way still tries
	Relayed    ArrivalStatus = "relayed"    // handed to a server that sends no further reports
	Confirmed  ArrivalStatus = "confirmed"  // in the recipient's mailbox
	Complained ArrivalStatus = "complained" // the recipient reported it as unwanted
	Bounced    ArrivalStatus = "bounced"    // failed permanently
)

// ArrivalStatuses lists all of them, in that order.
var ArrivalStatuses = []ArrivalStatus{Delayed, Relayed, Confirmed, Complained, Bounced}

// Troubles are those that a person may want to look at.
var Troubles = []ArrivalStatus{Bounced, Delayed, Complained}

// Beyond reports whether the status says more than an earlier one, or than nothing.
func (s ArrivalStatus) Beyond(old ArrivalStatus) bool {
	return slices.Index(ArrivalStatuses, s) > slices.Index(ArrivalStatuses, old)
}

// Arrival is what is known of a delivery after the relay had accepted it.
type Arrival struct {
	Status   ArrivalStatus
	Code     int    // of the remote server's reply; 0 when unknown
	Enhanced string // its enhanced status code (RFC 3463), such as 5.1.1; empty when unknown
	Reply    string // its text
	Remote   string // its name; empty when unknown
	Target   string // the mailbox that it is about, such as a member of an alias; empty if that is the recipient
	// At is when it happened. If the report says no time, or a wrong one, it is when that was
	// recorded.
	At time.Time
}

// Recorded returns the arrival as it is stored: each text is one line of bounded length, and At is
// now if the report's time is not between the delivery and now.
func (a Arrival) Recorded(delivered *time.Time, now time.Time) Arrival {
	if a.At.IsZero() || a.At.After(now) || delivered != nil && a.At.Before(*delivered) {
		a.At = now
	}
	a.At = a.At.UTC().Truncate(time.Microsecond)
	a.Enhanced, a.Remote = text.Cut(text.Line(a.Enhanced), 32), text.Cut(text.Line(a.Remote), 255)
	a.Reply, a.Target = text.Cut(text.Line(a.Reply), 1000), text.Cut(text.Line(a.Target), 320)
	return a
}

// Predates reports whether a report is about an attempt before an operator requeued the task: the
// report's time is before the delivery. The clocks of hosts may differ by an hour. If nobody
// requeued the task, the clock was wrong when the delivery was recorded.
func (t Task) Predates(a Arrival, d Delivery) bool {
	return !t.QueuedAt.Equal(t.CreatedAt) &&
		!a.At.IsZero() && d.DeliveredAt != nil && a.At.Before(d.DeliveredAt.Add(-time.Hour))
}

// Beyond reports whether a report says more than an earlier one: by its status, or because it
// confirms what the earlier one said only about a member of an alias.
func (a Arrival) Beyond(old Arrival) bool {
	return a.Status.Beyond(old.Status) || a.Status == old.Status && a.confirms() && !old.confirms()
}

// OfMailbox reports whether a bounce says that the recipient's mailbox does not exist or takes no
// mail (RFC 3463 X.1.X, X.2.1), and not that a message or its sender (X.1.7, X.1.8) was refused, or
// that a member of an alias is gone. A reply code without an enhanced code is not enough: servers
// refuse spam with 550, too.
func (a Arrival) OfMailbox() bool {
	if a.Target != "" || a.Enhanced == "5.1.7" || a.Enhanced == "5.1.8" {
		return false
	}
	return strings.HasPrefix(a.Enhanced, "5.1.") || a.Enhanced == "5.2.1"
}

// Line is what the audit trail says about the arrival, besides its status.
func (a Arrival) Line(recipient string) string {
	recipient += a.forTarget()
	if words := a.words(); words != "" {
		recipient += ": " + words
	}
	return recipient + a.where()
}

// words returns the reply of the remote server, such as 550 5.1.1 no such user.
func (a Arrival) words() string {
	var parts []string
	said := strings.TrimSpace(a.Reply)
	if a.Code != 0 {
		parts = append(parts, strconv.Itoa(a.Code))
		said = strings.TrimSpace(strings.TrimPrefix(said, parts[0]))
	}
	if a.Enhanced != "" {
		parts = append(parts, a.Enhanced)
		said = strings.TrimSpace(strings.TrimPrefix(said, a.Enhanced))
	}
	if said != "" {
		parts = append(parts, said)
	}
	return strings.Join(parts, " ")
}

func (a Arrival) forTarget() string {
	if a.Target == "" {
		return ""
	}
	return " (for " + a.Target + ")"
}

func (a Arrival) where() string {
	if a.Remote == "" {
		return ""
	}
	return " at " + a.Remote
}

// Became says what became of a delivery after the relay had accepted it: bounced: 550 5.1.1 no such
// user at mx.other.example, 2 minutes after it was accepted. It is empty when nothing is known.
func (d Delivery) Became() string {
	a := d.Arrival
	if a == nil {
		return ""
	}
	out := string(a.Status) + a.forTarget()
	if words := a.words(); words != "" {
		out += ": " + words
	}
	out += a.where()
	if d.DeliveredAt == nil {
		return out
	}
	return out + ", " + lasted(a.At.Sub(*d.DeliveredAt)) + " after it was accepted"
}

// lasted is a duration in its largest unit, in full words.
func lasted(d time.Duration) string {
	switch {
	case d < time.Minute:
		return text.Count(int(d/time.Second), "second")
	case d < time.Hour:
		return text.Count(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return text.Count(int(d/time.Hour), "hour")
	}
	return text.Count(int(d/(24*time.Hour)), "day")
}

// HasBounced reports whether the delivery failed permanently after the relay had accepted it.
func (d Delivery) HasBounced() bool { return d.Arrival != nil && d.Arrival.Status == Bounced }

// IsConfirmed reports whether the recipient's server confirmed that the message is in the mailbox.
// A complaint confirms it, too. A report about a member of an alias does not.
func (d Delivery) IsConfirmed() bool { return d.Arrival != nil && d.Arrival.confirms() }

func (a Arrival) confirms() bool {
	return a.Target == "" && (a.Status == Confirmed || a.Status == Complained)
}

// HasBounced reports whether a delivery of the task has bounced.
func (t Task) HasBounced() bool { return slices.ContainsFunc(t.Deliveries, Delivery.HasBounced) }
