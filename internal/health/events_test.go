package health

import (
	"strings"
	"testing"
	"time"
)

// TestCheckDestination: a destination of events has its own thresholds.
func TestCheckDestination(t *testing.T) {
	crm := Destination{Name: "crm", OldestWaiting: 2 * time.Hour, Dead: 1, LastError: "HTTP 500\nsorry"}
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
	crm.Stopped = "it is gone"
	got = CheckDestination(crm, Limits{EventsWaiting: ptr(time.Hour), EventsDead: ptr(0)})
	if len(got) != 2 || !strings.HasSuffix(got[0].Message, "more than alerts.events_waiting (1h); it is gone") ||
		!strings.HasSuffix(got[1].Message, "--status dead`; it is gone") {
		t.Errorf("of one to which nothing is sent it raises %+v", got)
	}
	got = CheckDestination(Destination{Name: "imap", Dead: 1, Actions: true}, Limits{EventsDead: ptr(0)})
	const dead = "actions on the servers: dead actions: 1, more than alerts.events_dead (0)"
	if len(got) != 1 || !strings.HasPrefix(got[0].Message, dead) {
		t.Errorf("of actions it raises %+v", got)
	}
}
