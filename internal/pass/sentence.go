package pass

import (
	"fmt"
	"strings"
	"time"

	"postrider/internal/text"
)

// Sentence is what came of a pass, such as "3 new, 2 forwarded, 1 matches no route (0.4 s)".
func (r Report) Sentence() string {
	failed, busy := 0, 0
	for _, in := range r.Inboxes {
		switch {
		case in.Error != "":
			failed++
		case in.Busy != "":
			busy++
		}
	}
	c := r.Totals
	var parts []string
	for _, part := range []struct {
		n         int
		one, many string
	}{
		{c.Registered, "new", "new"},
		{c.Forwarded, "forwarded", "forwarded"},
		{c.SkippedNoMatch, "matches no route", "match no route"},
		{c.Skipped, "skipped", "skipped"},
		{c.Retry, "to be retried", "to be retried"},
		{c.Dead, "dead", "dead"},
		{c.Uncertain, "uncertain", "uncertain"},
		{c.Waiting, "waiting for smtp.limits", "waiting for smtp.limits"},
		{c.Backlog, "not registered yet", "not registered yet"},
		{failed, "inbox failed", "inboxes failed"},
		{busy, "inbox scanned by another run", "inboxes scanned by other runs"},
	} {
		switch part.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.many))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing new, nothing due"}
	}
	if r.Interrupted {
		parts = append(parts, "stopped before the end")
	}
	return strings.Join(parts, ", ") + " (" + took(time.Duration(r.DurationMS)*time.Millisecond) + ")"
}

func took(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return text.Lasted(d)
}

// Plain reports whether the sentence says all that there is to say of an inbox.
func (r InboxReport) Plain() bool {
	c := r.Counters
	return r.Error == "" && r.Busy == "" && c.Retry+c.Dead+c.Uncertain+c.Waiting+c.Backlog == 0
}
