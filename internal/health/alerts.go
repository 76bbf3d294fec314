package health

import (
	"fmt"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
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
	in := f.Inbox
	n, c := Count(f), checker{who: in.Address, of: Alert{Inbox: in.Address}}
	l = l.Of(in.Labels)
	list := "see `postrider task list --inbox " + text.Arg(in.Address)
	if in.Active {
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
	if in.Active {
		c.count(Conflicts, n.Conflicts, l.Conflicts, "leases that workers lost in the last day",
			"raise concurrency.lease, unless a host was suspended")
		c.share(RetryRate, n.RetryRate, l.RetryRate, "messages of the last day that took more than one attempt",
			"see the attempts in `postrider task list --inbox "+text.Arg(in.Address)+
				"`, and the relay's replies in `postrider task show ID`")
		c.age(LastScan, n.SinceScan, l.LastScan, "time since the last complete scan", lastScanFix(in))
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

func lastScanFix(in inbox.Inbox) string {
	fix := "see `postrider inbox check " + text.Arg(in.Address) + "`"
	if in.LastError != "" {
		fix += "; the last error was: " + text.Line(in.LastError)
	}
	return fix
}

// CheckDestination is Check for a destination of events.
func CheckDestination(st outbox.Standing, l Limits) []Alert {
	c, dead := checker{who: st.Title(), of: Alert{Destination: st.Name}}, "dead events"
	if st.Name == outbox.Server {
		dead = "dead actions"
	}
	list := "see `postrider event list --destination " + st.Name
	waiting, given := list+" --status waiting`", list+" --status dead`, then `postrider event retry` or `skip` them"
	if why := st.Stopped(); why != "" { // no retry sends anything
		waiting, given = why, list+" --status dead`; "+why
	} else if st.LastError != "" {
		waiting += "; the last error was: " + text.Line(st.LastError)
	}
	c.age(EventsWaiting, st.OldestWaiting, l.EventsWaiting, "age of the oldest waiting event", waiting)
	c.count(EventsDead, st.Dead(), l.EventsDead, dead, given)
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
