package config

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/health"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "0d": 0, "1d12h": 36 * time.Hour, "65535d": 65535 * day,
		"2d1h30m5s": 49*time.Hour + 30*time.Minute + 5*time.Second,
		"90s":       90 * time.Second, "-1h": -time.Hour, "0": 0,
	} {
		if got, err := Duration(text); err != nil || got != want {
			t.Errorf("%q is %v, error %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "30", "-1d", "1.5d", "1d-1h", "1d+1h", "1h2d", "1d2d", "1d5", "65536d", "99999999d",
		"3 d", "4 days", "1d 2h",
	} {
		if got, err := Duration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

// TestTooLarge names the limit, also where there is none but that of the machine.
func TestTooLarge(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{
			"alerts: {dead: 99999999999999999999}",
			"alerts.dead: 99999999999999999999 is too large; the largest is 9223372036854775807",
		},
		{"alerts: {last_scan: 65536d}", "alerts.last_scan: 65536d is too long; the longest is 65535d"},
		{
			"alerts: {oldest_waiting: 99999999999h}",
			"alerts.oldest_waiting: 99999999999h is too long; the longest is 65535d",
		},
		{
			"retention: {events: 100000d}",
			"retention.events: 100000d is too long; the longest is 65535d, or write never",
		},
		{
			"retention: {forwarded: 12h}\nalerts: {retry_rate: 5%}",
			"retention.forwarded: deletes within 12h what alerts.retry_rate counts for a day; " +
				"write 1d or more, or never",
		},
		{
			"retention: {events: 1h}\nalerts: {conflicts: 0}",
			"retention.events: deletes within 1h what alerts.conflicts counts for a day; write 1d or more, or never",
		},
	} {
		if got := loadErrors(t, write(t, minimal+tt.text+"\n"), variables()); !strings.Contains(got, tt.want) {
			t.Errorf("%s: the errors are %s; want %q", tt.text, got, tt.want)
		}
	}
}

func TestAlertsAndRetention(t *testing.T) {
	got := load(t, minimal)
	if got.Alerts.Set() || got.Retention != Default().Retention || got.Retention.Forwarded+got.Retention.Events != 0 {
		t.Errorf("alerts are %+v and retention is %+v, want no alert, and all kept for ever", got.Alerts, got.Retention)
	}
	c := load(t, minimal+`
alerts: {dead: 0, oldest_waiting: 1d12h, retry_rate: 20%, last_scan: 15m, events_waiting: 1h, events_dead: 0}
retention: {forwarded: 30d, events: never}
`,
		"POSTRIDER_ALERTS_DEAD", "7", "POSTRIDER_ALERTS_UNCERTAIN", "0", "POSTRIDER_ALERTS_DUE", "",
		"POSTRIDER_ALERTS_CONFLICTS", "3", "POSTRIDER_ALERTS_LAST_SCAN", "2d", "POSTRIDER_RETENTION_EVENTS", "90d")
	l := c.Alerts
	if l.Backlog != nil || l.Due != nil || l.InError != nil {
		t.Errorf("alerts are %+v, want none that is not set", l)
	}
	for name, ok := range map[string]bool{
		"dead": *l.Dead == 7, "uncertain": *l.Uncertain == 0, "conflicts": *l.Conflicts == 3,
		"oldest_waiting": *l.OldestWaiting == 36*time.Hour,
		"last_scan":      *l.LastScan == 48*time.Hour, "retry_rate": *l.RetryRate == 0.2,
		"events_waiting": *l.EventsWaiting == time.Hour, "events_dead": *l.EventsDead == 0,
		"forwarded": time.Duration(c.Retention.Forwarded) == 720*time.Hour,
		"events":    time.Duration(c.Retention.Events) == 2160*time.Hour,
	} {
		if !ok {
			t.Errorf("%s is not as set: alerts %+v, retention %+v", name, l, c.Retention)
		}
	}
	rate := load(t, minimal+"alerts: {retry_rate: 0.25}\n").Alerts.RetryRate
	if rate == nil || *rate != health.Share(0.25) {
		t.Errorf("retry_rate: 0.25 is %v, want a quarter", rate)
	}
	if got := load(t, minimal+"alerts:\n  # dead: 0\nretention:\n").Alerts; got.Set() {
		t.Errorf("alerts of an empty section are %+v, want none", got)
	}
}

// TestAlertsInTheEnvironment is a limit of 0, which is not the same as none.
func TestAlertsInTheEnvironment(t *testing.T) {
	c := load(t, minimal, "POSTRIDER_ALERTS_DEAD", "0")
	if c.Alerts.Dead == nil || *c.Alerts.Dead != 0 {
		t.Errorf("alerts are %+v, want dead to be limited to 0", c.Alerts)
	}
	got := loadErrors(t, write(t, minimal), variables(
		"POSTRIDER_ALERTS_DEAD", "-1", "POSTRIDER_ALERTS_RETRY_RATE", "5", "POSTRIDER_RETENTION_FORWARDED", "x"))
	for _, want := range []string{
		"POSTRIDER_ALERTS_DEAD: alerts.dead: -1 is negative",
		`POSTRIDER_ALERTS_RETRY_RATE: alerts.retry_rate: "5" is not a share`,
		"POSTRIDER_RETENTION_FORWARDED: retention.forwarded: has to be never, " +
			`or a duration such as 90s, 15m, 96h or 30d, not "x"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("errors are\n%s\nwant %q", got, want)
		}
	}
}

func TestAlertsByLabel(t *testing.T) {
	const labels = "{tenant=acme: {oldest_waiting: 15m}, tier.x: {dead: 5}}"
	got := load(t, minimal+"alerts: {dead: 0, labels: "+labels+"}\n").Alerts
	if len(got.Labels) != 2 || *got.Labels["tenant=acme"].OldestWaiting != 15*time.Minute ||
		*got.Labels["tier.x"].Dead != 5 || *got.Dead != 0 {
		t.Errorf("alerts are %+v, want those of two labels", got)
	}
	for _, tt := range []struct{ labels, want string }{
		{
			"{Tenant: {dead: 0}}",
			"alerts.labels.Tenant: is not a label; write it like tenant=acme, or tenant for any value",
		},
		{"{a=b: {deed: 0}}", "alerts.labels.a=b.deed: unknown key; did you mean alerts.labels.a=b.dead?"},
		{"{a=b: {dead: -1}}", "alerts.labels.a=b.dead: -1 is negative"},
		{"{a=b: {labels: {c: {dead: 0}}}}", "alerts.labels.a=b.labels: there are no labels within labels"},
		{
			"{a=b: {conflicts: 0}}}\nretention: {events: 1h",
			"retention.events: deletes within 1h what alerts.labels.a=b.conflicts counts for a day",
		},
	} {
		got := loadErrors(t, write(t, minimal+"alerts: {labels: "+tt.labels+"}\n"), variables())
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: the errors are %s; want %q", tt.labels, got, tt.want)
		}
	}
}
