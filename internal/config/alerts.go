package config

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"postrider/internal/health"
)

func (r *reader) alerts(at string, l health.Limits, keep Retention) {
	notNegative(r, at+".backlog", l.Backlog)
	notNegative(r, at+".due", l.Due)
	notNegative(r, at+".oldest_waiting", l.OldestWaiting)
	notNegative(r, at+".in_error", l.InError)
	notNegative(r, at+".dead", l.Dead)
	notNegative(r, at+".uncertain", l.Uncertain)
	notNegative(r, at+".bounced", l.Bounced)
	notNegative(r, at+".conflicts", l.Conflicts)
	notNegative(r, at+".last_scan", l.LastScan)
	notNegative(r, at+".events_waiting", l.EventsWaiting)
	notNegative(r, at+".events_dead", l.EventsDead)
	r.deletedEarly("retention.forwarded", keep.Forwarded, at+".retry_rate", l.RetryRate != nil)
	r.deletedEarly("retention.forwarded", keep.Forwarded, at+".conflicts", l.Conflicts != nil)
	r.deletedEarly("retention.forwarded", keep.Forwarded, at+".bounced", l.Bounced != nil)
	r.deletedEarly("retention.events", keep.Events, at+".conflicts", l.Conflicts != nil)
}

var label = regexp.MustCompile(`^[a-z0-9_.-]{1,63}(=[!-~]{1,63})?$`)

// alertLabels checks the limits of inboxes with a label.
func (r *reader) alertLabels(labels map[string]health.Limits, keep Retention) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := "alerts.labels." + name
		if !label.MatchString(name) {
			r.refuse(at, "is not a label; write it like tenant=acme, or tenant for any value")
		}
		if len(labels[name].Labels) > 0 {
			r.refuse(at+".labels", "there are no labels within labels; "+
				"an inbox with several labels has the smallest of their thresholds")
		}
		if l := labels[name]; l.EventsWaiting != nil || l.EventsDead != nil {
			r.refuse(at, "has a threshold of events, which belong to no label; write it right below alerts")
		}
		r.alerts(at, labels[name], keep)
	}
}

// deletedEarly refuses a retention that deletes what an alert counts for a day.
func (r *reader) deletedEarly(key string, keep Age, alert string, set bool) {
	if set && keep > 0 && keep < Age(24*time.Hour) {
		r.refuse(key, "deletes within %s what %s counts for a day; write 1d or more, or never",
			number(time.Duration(keep)), alert)
	}
}
