package cmd

import (
	"testing"
	"time"
)

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
		if got := ago(d); got != want {
			t.Errorf("ago(%v) is %q, want %q", d, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"escape sequences do not reach the terminal", "a\x1b[2Jb\u009bc", "a [2Jb c"},
		{"one line", "two\r\nlines\tand a tab", "two  lines and a tab"},
		{"no turning of the writing direction", "exe.\u202efdp", "exe. fdp"},
		{"other scripts stay", "開廷 – Žluťoučký", "開廷 – Žluťoučký"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := printable(c.in); got != c.want {
				t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestParseAge(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"90d": 90 * 24 * time.Hour, "36h": 36 * time.Hour, "0s": 0, "1h30m": 90 * time.Minute,
		"": -1, "d": -1, "-1d": -1, "-1h": -1, "90": -1, "99999999d": -1,
	} {
		got, err := parseAge(in)
		if want < 0 {
			if exitCode(err) != exitUsage {
				t.Errorf("parseAge(%q) gives %v, want bad usage", in, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("parseAge(%q) is %v and %v, want %v", in, got, err, want)
		}
	}
}
