package text

import (
	"testing"
	"time"
)

// TestMidnight: the day has none where the clocks are set forward then.
func TestMidnight(t *testing.T) {
	for name, days := range map[string]map[string]string{
		"UTC":              {"2026-09-06": "2026-09-06T00:00:00Z"},
		"Europe/Berlin":    {"2026-03-29": "2026-03-29T00:00:00+01:00", "2026-03-30": "2026-03-30T00:00:00+02:00"},
		"America/Santiago": {"2026-09-05": "2026-09-05T00:00:00-04:00", "2026-09-06": "2026-09-06T01:00:00-03:00"},
		"Africa/Cairo":     {"2026-04-24": "2026-04-24T01:00:00+03:00"},
		// 2026-11-01 has two midnights.
		"America/Havana": {"2026-03-08": "2026-03-08T01:00:00-04:00", "2026-11-01": "2026-11-01T00:00:00-04:00"},
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for day, want := range days {
			on, err := time.Parse(time.DateOnly, day)
			if got := Midnight(on, zone).Format(time.RFC3339); got != want || err != nil {
				t.Errorf("in %s the day %s begins at %s, %v; want %s", name, day, got, err, want)
			}
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                           "0 s ago",
		59 * time.Second:            "59 s ago",
		90 * time.Second:            "1 min ago",
		59*time.Minute + 59:         "59 min ago",
		47 * time.Hour:              "47 h ago",
		100 * time.Hour:             "4 days ago",
		-30 * time.Minute:           "in 30 min",
		-(48*time.Hour + time.Hour): "in 2 days",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%v) is %q, want %q", d, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", time.Hour: "1h", 90 * time.Minute: "1h30m", -36 * time.Hour: "-36h",
		day: "1d", 47 * time.Hour: "1d23h", 2 * day: "2d", 365 * day: "365d", 51*time.Hour + 5*time.Second: "2d3h5s",
		1400 * time.Millisecond: "1.4s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
}
