package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
)

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

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 30, 0, 0, time.FixedZone("", 2*3600))
	for in, want := range map[string]time.Duration{
		"90d": 90 * 24 * time.Hour, "36h": 36 * time.Hour,
		"2026-11-20": 10*time.Hour + 30*time.Minute, "2026-11-19": 34*time.Hour + 30*time.Minute,
		"": 0, "0": 0, "0s": 0, "-1h": 0, "yesterday": 0, "2026-11-21": 0, "2026-13-01": 0, "20.11.2026": 0,
	} {
		got, err := parseSince(in, now)
		if got != want || (want == 0) != (exitCode(err) == exitUsage) {
			t.Errorf("parseSince(%q) is %v and %v, want %v, or bad usage", in, got, err, want)
		}
	}
}

// TestParseSinceWithoutMidnight: such a day begins when the clocks were set forward.
func TestParseSinceWithoutMidnight(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseSince("2026-09-06", time.Date(2026, 9, 6, 12, 0, 0, 0, zone))
	if got != 11*time.Hour || err != nil {
		t.Errorf("at noon of a day that began at 01:00 it began %v ago, %v; want 11h", got, err)
	}
}

// TestStatusTable fits into 80 columns, also when every column has content.
func TestStatusTable(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	before := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	healthy := health.Facts{
		Inbox: inbox.Inbox{Address: "desk@firm.example", Active: true, LastScannedAt: before(time.Minute)},
		Stats: tasks.Stats{Now: now, ByStatus: map[tasks.Status]int{tasks.Forwarded: 123456}, Ended: 9},
	}
	never := health.Facts{
		Inbox: inbox.Inbox{Address: "new@firm.example", CreatedAt: *before(time.Hour), LastError: "log in:\n\x1b[2Jno"},
		Stats: tasks.Stats{Now: now},
	}
	troubled := health.Facts{
		Inbox: inbox.Inbox{Address: "team@firm.example", Active: true, LastScannedAt: before(59 * time.Minute)},
		Stats: tasks.Stats{
			Now: now, Due: 12, Oldest: before(30 * 24 * time.Hour), Ended: 1000, Retried: 213, Conflicts: 17,
			ByStatus: map[tasks.Status]int{
				tasks.Received: 12, tasks.InProgress: 4, tasks.Error: 3, tasks.Uncertain: 2, tasks.Dead: 1,
				tasks.Forwarded: 123456, tasks.SkippedNoMatch: 7890, tasks.Skipped: 12,
			},
		},
	}
	table := func(width int, boxes ...status.Inbox) string {
		var out bytes.Buffer
		if err := (&app{width: width}).statusTable(boxes).Print(&out); err != nil {
			t.Fatal(err)
		}
		return "\n" + out.String()
	}
	const plain = `
┌───────────────────┬────────┬──────────────────┬───────────┐
│ INBOX             │ ACTIVE │ MESSAGES         │ LAST SCAN │
├───────────────────┼────────┼──────────────────┼───────────┤
│ desk@firm.example │ yes    │ 123456 forwarded │ 1 min ago │
└───────────────────┴────────┴──────────────────┴───────────┘
`
	if got := table(80, status.Of(healthy)); got != plain {
		t.Errorf("the table of a healthy inbox is\n%s\nwant\n%s", got, plain)
	}
	boxes := []status.Inbox{status.Of(healthy), status.Of(troubled), status.Of(never)}
	for _, width := range []int{80, 100, 200} {
		got := table(width, boxes...)
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("with %d columns a line has %d; the table is\n%s", width, n, got)
			}
		}
	}
	got := table(100, boxes...)
	if !strings.Contains(got, "│ desk@firm.example │") || !strings.Contains(got, "│ 19 (12 due) │") {
		t.Errorf("with 100 columns the table is\n%s\nwant addresses that are not wrapped, and what is due", got)
	}
	const plainText = "INBOX\tACTIVE\tBACKLOG\tMESSAGES\tLAST DAY\tOLDEST\tLAST SCAN\n" +
		"desk@firm.example\tyes\t0\t123456 forwarded\t\t\t2026-11-20T09:59:00Z\n"
	if got := table(0, boxes[0]); got != "\n"+plainText {
		t.Errorf("without a terminal the table is %q, want all columns between tabs: %q", got, plainText)
	}
	var out bytes.Buffer
	(&app{out: &out}).statusOverview(boxes, overview{})
	if got, want := out.String(), "\nnew@firm.example: last error: log in: [2Jno\n"; !strings.HasSuffix(got, want) {
		t.Errorf("it prints %q, want at the end %q", got, want)
	}
}
