package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func before(d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

// troubled returns an inbox with tasks in every state.
func troubled() Facts {
	return Facts{
		Inbox: inbox.Inbox{
			Address: "desk@firm.example", Active: true, CreatedAt: *before(100 * time.Hour),
			LastScannedAt: before(3 * time.Hour), LastError: "log in:\n\tno",
		},
		Stats: tasks.Stats{
			ByStatus: map[tasks.Status]int{
				tasks.Received: 5, tasks.InProgress: 1, tasks.Error: 2, tasks.Dead: 3, tasks.Uncertain: 4,
				tasks.Forwarded: 50, tasks.Skipped: 6, tasks.SkippedNoMatch: 7,
			},
			Due: 6, Oldest: before(90 * time.Minute), Now: now, Ended: 6, Retried: 1, Conflicts: 9, Bounces: 5,
		},
	}
}

func TestCount(t *testing.T) {
	want := Numbers{
		Backlog: 8, Due: 6, OldestWaiting: 90 * time.Minute, InError: 2, Dead: 3, Uncertain: 4, Bounced: 5,
		Conflicts: 9, RetryRate: 0.375, SinceScan: 3 * time.Hour,
	}
	if got := Count(troubled()); got != want {
		t.Errorf("Count is %+v, want %+v", got, want)
	}
	disabled := troubled()
	disabled.Inbox.Active, want.Due = false, 0
	if got := Count(disabled); got != want {
		t.Errorf("Count of a disabled inbox is %+v, want %+v: no run claims its messages", got, want)
	}
	fresh := Facts{Inbox: inbox.Inbox{CreatedAt: *before(time.Minute)}, Stats: tasks.Stats{Now: now}}
	if got, want := Count(fresh), (Numbers{SinceScan: time.Minute}); got != want {
		t.Errorf("Count of an inbox never scanned is %+v, want %+v: "+
			"the time since it was added, and a retry rate of 0", got, want)
	}
	ahead := Facts{
		Inbox: inbox.Inbox{LastScannedAt: before(-time.Second)},
		Stats: tasks.Stats{Now: now, Oldest: before(-time.Second)},
	}
	if got := Count(ahead); got != (Numbers{}) {
		t.Errorf("Count of times after Now is %+v, want no negative age", got)
	}
}

func ptr[T any](v T) *T { return &v }

// TestDueUnderLimits checks that mail that only waits for smtp.limits raises no alert.
func TestDueUnderLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		left *int
		want string // the end of the message; empty for no alert
	}{
		{
			"no limit", nil,
			"more than alerts.due (0); see that `postrider run` is started often enough, and `postrider check`",
		},
		{"used up", ptr(0), ""},
		{
			"nearly used up", ptr(2),
			"more than alerts.due (0); smtp.limits allows 2 recipients now; " +
				"see that `postrider run` is started often enough, and `postrider check`",
		},
		{
			"room for one", ptr(1),
			"more than alerts.due (0); smtp.limits allows 1 recipient now; " +
				"see that `postrider run` is started often enough, and `postrider check`",
		},
		{
			"room for all", ptr(6),
			"more than alerts.due (0); see that `postrider run` is started often enough, and `postrider check`",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := troubled()
			f.Left = tt.left
			got := Check(f, Limits{Due: ptr(0)})
			switch {
			case tt.want == "" && got != nil:
				t.Errorf("it raises %+v, want nothing: a run would claim none", got)
			case tt.want != "" && (len(got) != 1 || got[0].Value != 6 || !strings.HasSuffix(got[0].Message, tt.want)):
				t.Errorf("it raises %+v, want one alert of 6 messages that ends with %q", got, tt.want)
			}
		})
	}
}

// TestLimits checks each number with an equal limit, which raises no alert, and with a smaller
// limit.
func TestLimits(t *testing.T) {
	tests := []struct {
		kind     Kind
		at, past Limits
		value    float64
		message  string // a part of it
	}{
		{
			Backlog,
			Limits{Backlog: ptr(8)},
			Limits{Backlog: ptr(7)},
			8,
			"messages not forwarded yet: 8, more than alerts.backlog (7); " +
				"see `postrider task list --inbox desk@firm.example`",
		},
		{
			Due,
			Limits{Due: ptr(6)},
			Limits{Due: ptr(0)},
			6,
			"messages that are due but not claimed: 6, more than alerts.due (0); see that `postrider run`",
		},
		{
			OldestWaiting,
			Limits{OldestWaiting: ptr(90 * time.Minute)},
			Limits{OldestWaiting: ptr(time.Hour)},
			5400,
			"age of the oldest waiting message: 1h30m, more than alerts.oldest_waiting (1h); ",
		},
		{
			InError,
			Limits{InError: ptr(2)},
			Limits{InError: ptr(1)},
			2,
			"messages to be retried: 2, more than alerts.in_error (1); ",
		},
		{
			Dead,
			Limits{Dead: ptr(3)},
			Limits{Dead: ptr(0)},
			3,
			"dead messages: 3, more than alerts.dead (0); " +
				"see `postrider task list --inbox desk@firm.example --status dead`",
		},
		{
			Uncertain,
			Limits{Uncertain: ptr(4)},
			Limits{Uncertain: ptr(0)},
			4,
			"uncertain messages: 4, more than alerts.uncertain (0); ",
		},
		{
			Bounced,
			Limits{Bounced: ptr(5)},
			Limits{Bounced: ptr(4)},
			5,
			"deliveries that bounced in the last day: 5, more than alerts.bounced (4); " +
				"see `postrider task list --inbox desk@firm.example --bounced`, " +
				"correct wrong addresses, then `postrider task retry` them",
		},
		{
			Conflicts,
			Limits{Conflicts: ptr(9)},
			Limits{Conflicts: ptr(8)},
			9,
			"leases that workers lost in the last day: 9, more than alerts.conflicts (8); raise concurrency.lease",
		},
		{
			RetryRate,
			Limits{RetryRate: ptr(Share(0.375))},
			Limits{RetryRate: ptr(Share(0.2))},
			0.375,
			"more than one attempt: 37.5%, more than alerts.retry_rate (20%); ",
		},
		{
			LastScan,
			Limits{LastScan: ptr(3 * time.Hour)},
			Limits{LastScan: ptr(time.Duration(0))},
			10800,
			"time since the last complete scan: 3h, more than alerts.last_scan (0s); " +
				"see `postrider inbox check desk@firm.example`; the last error was: log in: no",
		},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			if got := Check(troubled(), tt.at); got != nil {
				t.Errorf("at its limit it raises %+v, want nothing", got)
			}
			got := Check(troubled(), tt.past)
			if len(got) != 1 || got[0].Kind != tt.kind || got[0].Value != tt.value ||
				got[0].Inbox != "desk@firm.example" {
				t.Fatalf("past its limit it raises %+v, want one alert of %s with the value %v", got, tt.kind, tt.value)
			}
			if m := got[0].Message; !strings.HasPrefix(m, "desk@firm.example: ") ||
				!strings.Contains(m, tt.message) || strings.Contains(m, "\n") {
				t.Errorf("the message is %q, want one line with %q", m, tt.message)
			}
		})
	}
}

func all(n int, d time.Duration, s Share) Limits {
	return Limits{
		Backlog: &n, Due: &n, OldestWaiting: &d, InError: &n, Dead: &n, Uncertain: &n, Bounced: &n,
		Conflicts: &n, RetryRate: &s, LastScan: &d,
	}
}

func TestCheck(t *testing.T) {
	healthy := Facts{
		Inbox: inbox.Inbox{Address: "a", Active: true, LastScannedAt: &now},
		Stats: tasks.Stats{Now: now, ByStatus: map[tasks.Status]int{tasks.Forwarded: 9}, Ended: 9},
	}
	disabled := troubled()
	disabled.Inbox.Active = false
	tests := []struct {
		name   string
		facts  Facts
		limits Limits
		want   string
	}{
		{"nothing is limited", troubled(), Limits{}, ""},
		{
			"everything is", troubled(), all(0, 0, 0),
			"backlog due oldest_waiting in_error dead uncertain bounced conflicts retry_rate last_scan",
		},
		{"a healthy inbox", healthy, all(0, 0, 0), ""},
		{"a disabled inbox", disabled, all(0, 0, 0), "dead uncertain bounced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var kinds []string
			for _, a := range Check(tt.facts, tt.limits) {
				kinds = append(kinds, string(a.Kind))
			}
			if got := strings.Join(kinds, " "); got != tt.want {
				t.Errorf("it raises %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSet(t *testing.T) {
	if (Limits{}).Set() {
		t.Error("Set() without limits = true, want false")
	}
	if !(Limits{Dead: ptr(0)}).Set() {
		t.Error("Set() with a limit of 0 = false, want true")
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]struct {
		share Share
		shown string
	}{
		"20%": {0.2, "20%"}, "0.2": {0.2, "20%"}, "0": {0, "0%"}, "1": {1, "100%"}, "100%": {1, "100%"},
		"7%": {0.07, "7%"}, "0.125": {0.125, "12.5%"}, "0.33333": {0.33333, "33.3%"},
		"0.0667": {0.0667, "6.7%"}, "0.00595": {0.00595, "0.6%"}, "0.0001": {0.0001, "0.1%"},
	} {
		var got Share
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want.share || got.String() != want.shown {
			t.Errorf("%q is read as %v (%v), error %v; want %v (%s)",
				text, float64(got), got, err, float64(want.share), want.shown)
		}
	}
	for _, text := range []string{"", "%", "20", "101%", "-1%", "-0.1", "NaN", "Inf", "a", "20 %", "20%%"} {
		var got Share
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "such as 20% or 0.2") {
			t.Errorf("%q is read as %v, error %v; want an error that shows how to write it", text, got, err)
		}
	}
}

// TestLabels: an inbox has the smallest threshold that its labels say, and else that of all.
func TestLabels(t *testing.T) {
	limits := Limits{Dead: ptr(3), InError: ptr(1), Labels: map[string]Limits{
		"tenant=acme": {Dead: ptr(2), Uncertain: ptr(0)}, "tier": {Dead: ptr(1)}, "tenant=other": {Dead: ptr(0)},
	}}
	for _, tt := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, "in_error 1"},
		{map[string]string{"tenant": "acme"}, "in_error 1 dead 2 uncertain 0"},
		{map[string]string{"tenant": "acme", "tier": "gold"}, "in_error 1 dead 1 uncertain 0"},
		{map[string]string{"ten": "acme"}, "in_error 1"},
	} {
		f := troubled()
		f.Inbox.Labels = tt.labels
		var got []string
		for _, a := range Check(f, limits) {
			got = append(got, fmt.Sprint(a.Kind, " ", a.Limit))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("labels %v: it raises %q, want %q", tt.labels, got, tt.want)
		}
	}
	if !(Limits{Labels: map[string]Limits{"a": {Dead: ptr(0)}}}).Set() {
		t.Error("thresholds of a label alone count as none")
	}
}
