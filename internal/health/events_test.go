package health

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/outbox"
)

// TestCheckDestination: a destination of events has its own thresholds.
func TestCheckDestination(t *testing.T) {
	oneDead := map[outbox.Status]int{outbox.DeadLetter: 1}
	crm := outbox.Standing{Name: "crm", OldestWaiting: 2 * time.Hour, Counts: oneDead, LastError: "HTTP 500\nsorry"}
	got := CheckDestination(crm, Limits{EventsWaiting: ptr(2 * time.Hour), EventsDead: ptr(1), Dead: ptr(0)})
	if got != nil {
		t.Errorf("at its thresholds it raises %+v", got)
	}
	got = CheckDestination(crm, Limits{EventsWaiting: ptr(time.Hour), EventsDead: ptr(0)})
	want := []Alert{
		{
			Kind: EventsWaiting, Value: 7200, Limit: 3600, Destination: "crm",
			Message: "events for crm: age of the oldest waiting event: 2h, more than alerts.events_waiting (1h); " +
				"see `postrider event list --destination crm --status waiting`; the last error was: HTTP 500 sorry",
		},
		{
			Kind: EventsDead, Value: 1, Destination: "crm",
			Message: "events for crm: dead events: 1, more than alerts.events_dead (0); " +
				"see `postrider event list --destination crm --status dead`, " +
				"then `postrider event retry` or `skip` them",
		},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("past them it raises\n%+v\nwant\n%+v", got, want)
	}
	crm.Gone = true
	got = CheckDestination(crm, Limits{EventsWaiting: ptr(time.Hour), EventsDead: ptr(0)})
	if len(got) != 2 || !strings.HasSuffix(got[0].Message, "more than alerts.events_waiting (1h); "+crm.Stopped()) ||
		!strings.HasSuffix(got[1].Message, "--status dead`; "+crm.Stopped()) {
		t.Errorf("of one to which nothing is sent it raises %+v", got)
	}
	got = CheckDestination(outbox.Standing{Name: outbox.Server, Counts: oneDead}, Limits{EventsDead: ptr(0)})
	const dead = "actions on the servers: dead actions: 1, more than alerts.events_dead (0)"
	if len(got) != 1 || !strings.HasPrefix(got[0].Message, dead) {
		t.Errorf("of actions it raises %+v", got)
	}
}
