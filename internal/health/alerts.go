package health

import (
	"fmt"
	"time"

	"postrider/internal/text"
)

// Alert says that one number of one inbox, or of one destination of events, is above its limit.
type Alert struct {
	Inbox   string  `json:"inbox"` // empty in those of a destination
	Kind    Kind    `json:"alert"`
	Value   float64 `json:"value"` // messages, seconds, or a share from 0 to 1
	Limit   float64 `json:"threshold"`
	Message string  `json:"message"` // one line with the inbox, or the destination, and what to do

	Destination string `json:"destination,omitempty"`
}

// Kind is the key of the limit in the configuration.
type Kind string

// The kinds.
const (
	Backlog       Kind = "backlog"
	Due           Kind = "due"
	OldestWaiting Kind = "oldest_waiting"
	InError       Kind = "in_error"
	Dead          Kind = "dead"
	Uncertain     Kind = "uncertain"
	Bounced       Kind = "bounced"
	Conflicts     Kind = "conflicts"
	RetryRate     Kind = "retry_rate"
	LastScan      Kind = "last_scan"
	EventsWaiting Kind = "events_waiting"
	EventsDead    Kind = "events_dead"
)

// Check returns an alert for each number of an inbox that is above its limit.
func Check(f Facts, l Limits) []Alert {
	n, c := Count(f), checker{who: f.Inbox, of: Alert{Inbox: f.Inbox}}
	l = l.Of(f)
	list := "see `postrider task list --inbox " + text.Arg(f.Inbox)
	if f.Active {
		c.count(Backlog, n.Backlog, l.Backlog, "messages not forwarded yet", list+"`")
		if f.Left == nil || *f.Left > 0 { // otherwise they only wait for a rate limit
			c.count(Due, n.Due, l.Due, "messages that are due but not claimed", dueFix(f))
		}
		c.age(OldestWaiting, n.OldestWaiting, l.OldestWaiting, "age of the oldest waiting message",
			list+" --status received --status error`")
		c.count(InError, n.InError, l.InError, "messages to be retried", list+" --status error`")
	}
	c.count(Dead, n.Dead, l.Dead, "dead messages", list+" --status dead`, then `postrider task retry` or `skip` them")
	c.count(Uncertain, n.Uncertain, l.Uncertain, "uncertain messages",
		list+" --status uncertain`, then `postrider task resolve` them")
	c.count(Bounced, n.Bounced, l.Bounced, "deliveries that bounced in the last day",
		list+" --bounced`, correct wrong addresses, then `postrider task retry` them")
	if f.Active {
		c.count(Conflicts, n.Conflicts, l.Conflicts, "leases that workers lost in the last day",
			"raise concurrency.lease, unless a host was suspended")
		c.share(RetryRate, n.RetryRate, l.RetryRate, "messages of the last day that took more than one attempt",
			"see the attempts in `postrider task list --inbox "+text.Arg(f.Inbox)+
				"`, and the relay's replies in `postrider task show ID`")
		c.age(LastScan, n.SinceScan, l.LastScan, "time since the last complete scan", lastScanFix(f))
	}
	return c.alerts
}

func dueFix(f Facts) string {
	fix := "see that `postrider run` is started often enough, and `postrider check`"
	if f.Left != nil && *f.Left < f.Stats.Due {
		fix = fmt.Sprintf("smtp.limits allows %s now; %s", text.Count(*f.Left, "recipient"), fix)
	}
	return fix
}

func lastScanFix(f Facts) string {
	fix := "see `postrider inbox check " + text.Arg(f.Inbox) + "`"
	if f.LastError != "" {
		fix += "; the last error was: " + text.Line(f.LastError)
	}
	return fix
}

// Destination is where a destination of events stands.
type Destination struct {
	Name          string
	OldestWaiting time.Duration // 0 when no event waits
	Dead          int           // events
	LastError     string        // of the last try; empty if that succeeded
	Stopped       string        // why nothing is sent to it, and what to do; empty if that is not so
	Actions       bool          // on the IMAP servers, instead of events
}

// CheckDestination is Check for a destination of events.
func CheckDestination(d Destination, l Limits) []Alert {
	c, dead := checker{who: "events for " + d.Name, of: Alert{Destination: d.Name}}, "dead events"
	if d.Actions {
		c.who, dead = "actions on the servers", "dead actions"
	}
	list := "see `postrider event list --destination " + d.Name
	waiting, given := list+" --status waiting`", list+" --status dead`, then `postrider event retry` or `skip` them"
	switch {
	case d.Stopped != "": // no retry sends anything
		waiting, given = d.Stopped, list+" --status dead`; "+d.Stopped
	case d.LastError != "":
		waiting += "; the last error was: " + text.Line(d.LastError)
	}
	c.age(EventsWaiting, d.OldestWaiting, l.EventsWaiting, "age of the oldest waiting event", waiting)
	c.count(EventsDead, d.Dead, l.EventsDead, dead, given)
	return c.alerts
}

// checker collects the alerts of an inbox, or of a destination.
type checker struct {
	who    string
	of     Alert // what all of them have
	alerts []Alert
}

func (c *checker) count(k Kind, v int, limit *int, what, fix string) {
	if limit != nil && v > *limit {
		c.add(k, float64(v), float64(*limit), fmt.Sprintf("%s: %d, more than alerts.%s (%d)", what, v, k, *limit), fix)
	}
}

func (c *checker) age(k Kind, v time.Duration, limit *time.Duration, what, fix string) {
	if limit != nil && v > *limit {
		says := fmt.Sprintf("%s: %s, more than alerts.%s (%s)", what,
			text.Duration(v.Round(time.Second)), k, text.Duration(*limit))
		c.add(k, v.Seconds(), limit.Seconds(), says, fix)
	}
}

func (c *checker) share(k Kind, v Share, limit *Share, what, fix string) {
	if limit != nil && v > *limit {
		c.add(k, float64(v), float64(*limit), fmt.Sprintf("%s: %s, more than alerts.%s (%s)", what, v, k, *limit), fix)
	}
}

func (c *checker) add(k Kind, v, limit float64, text, fix string) {
	a := c.of
	a.Kind, a.Value, a.Limit, a.Message = k, v, limit, c.who+": "+text+"; "+fix
	c.alerts = append(c.alerts, a)
}
