package cmd

import (
	"bytes"
	"testing"
	"time"

	"postrider/internal/health"
	"postrider/internal/tasks"
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
		got, err := parseAge("--since", in)
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

// TestStatusTable fits into 100 columns, also when there is something to say of everything.
func TestStatusTable(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	before := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	healthy := health.Facts{
		Inbox: "desk@firm.example", Active: true, LastScannedAt: before(time.Minute),
		Stats: tasks.Stats{Now: now, ByStatus: map[tasks.Status]int{tasks.Forwarded: 123456}, Ended: 9},
	}
	never := health.Facts{Inbox: "new@firm.example", CreatedAt: *before(time.Hour), LastError: "log in:\n\x1b[2Jno", Stats: tasks.Stats{Now: now}}
	troubled := health.Facts{
		Inbox: "team@firm.example", Active: true, LastScannedAt: before(59 * time.Minute),
		Stats: tasks.Stats{
			Now: now, Due: 12, Oldest: before(30 * 24 * time.Hour), Ended: 1000, Retried: 213, Conflicts: 17, ByStatus: map[tasks.Status]int{
				tasks.Received: 12, tasks.InProgress: 4, tasks.Error: 3, tasks.Uncertain: 2, tasks.Dead: 1,
				tasks.Forwarded: 123456, tasks.SkippedNoMatch: 7890, tasks.Skipped: 12,
			},
		},
	}
	var out bytes.Buffer
	a := &app{out: &out}
	boxes := []inboxStatus{statusOf(healthy)}
	a.statusTable(boxes)
	const plain = `
┌───────────────────┬────────┬─────────┬──────────────────┬───────────┐
│ INBOX             │ ACTIVE │ BACKLOG │ MESSAGES         │ LAST SCAN │
├───────────────────┼────────┼─────────┼──────────────────┼───────────┤
│ desk@firm.example │ yes    │       0 │ 123456 forwarded │ 1 min ago │
└───────────────────┴────────┴─────────┴──────────────────┴───────────┘
`
	if got := "\n" + out.String(); got != plain {
		t.Errorf("the table of a healthy inbox is\n%s\nwant\n%s", got, plain)
	}
	out.Reset()
	boxes = append(boxes, statusOf(troubled), statusOf(never))
	a.statusTable(boxes)
	if err := a.lastErrors(boxes); err != nil {
		t.Fatal(err)
	}
	const full = `
┌───────────────────┬────────┬─────────┬───────────────────┬───────────────┬─────────┬────────────┐
│ INBOX             │ ACTIVE │ BACKLOG │ MESSAGES          │ LAST DAY      │ OLDEST  │ LAST SCAN  │
├───────────────────┼────────┼─────────┼───────────────────┼───────────────┼─────────┼────────────┤
│ desk@firm.example │ yes    │       0 │ 123456 forwarded  │               │         │ 1 min ago  │
│ team@firm.example │ yes    │      19 │ 12 received,      │ 17 conflicts  │ 30 days │ 59 min ago │
│                   │        │  12 due │ 4 in progress,    │ 21.5% retried │         │            │
│                   │        │         │ 3 error,          │               │         │            │
│                   │        │         │ 2 uncertain,      │               │         │            │
│                   │        │         │ 1 dead,           │               │         │            │
│                   │        │         │ 123456 forwarded, │               │         │            │
│                   │        │         │ 7890 no match,    │               │         │            │
│                   │        │         │ 12 skipped        │               │         │            │
│ new@firm.example  │ no     │       0 │                   │               │         │ never      │
└───────────────────┴────────┴─────────┴───────────────────┴───────────────┴─────────┴────────────┘
new@firm.example: last error: log in:  [2Jno
`
	if got := "\n" + out.String(); got != full {
		t.Errorf("the table is\n%s\nwant\n%s", got, full)
	}
}
