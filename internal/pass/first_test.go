package pass

import (
	"testing"
	"time"

	"postrider/internal/inbox"
)

// TestPlan: what the first pass does with a folder, by its start.
func TestPlan(t *testing.T) {
	const begin = "2026-01-31"
	first := &FirstMessage{Subject: "Quarterly figures", Date: time.Date(2026, 3, 4, 9, 12, 0, 0, time.UTC)}
	for _, tt := range []struct {
		name  string
		start inbox.Start
		f     FolderCheck
		want  string
	}{
		{"empty", inbox.StartLatest, FolderCheck{}, "no messages; new mail will be forwarded"},
		{"empty, since", "since:" + begin, FolderCheck{}, "no messages; new mail will be forwarded"},
		{
			"latest", inbox.StartLatest,
			FolderCheck{Messages: 4, Above: 1, First: first},
			`4 messages; the newest ("Quarterly figures", 09:12) will be forwarded, then new mail; ` +
				"`--start now` leaves it out",
		},
		{
			"latest of one", inbox.StartLatest,
			FolderCheck{Messages: 1, Above: 1, First: &FirstMessage{}},
			"1 message; the newest (without a subject) will be forwarded, then new mail; `--start now` leaves it out",
		},
		{
			"latest, unreadable", inbox.StartLatest,
			FolderCheck{Messages: 1, Above: 1},
			"1 message; the newest will be forwarded, then new mail; `--start now` leaves it out",
		},
		{
			"now", inbox.StartNow,
			FolderCheck{Messages: 4},
			"4 messages, none of them will be forwarded; new mail will be",
		},
		{
			"all", inbox.StartAll,
			FolderCheck{Messages: 4, Above: 4, First: first},
			`4 messages; all of them, from the oldest ("Quarterly figures", 09:12), will be forwarded, then new mail`,
		},
		{
			"since", "since:" + begin,
			FolderCheck{Messages: 4, Above: 2, First: first},
			`4 messages; 2 of them, from the first received since 2026-01-31 ("Quarterly figures", 09:12), ` +
				"will be forwarded, then new mail",
		},
		{
			"since, none", "since:" + begin,
			FolderCheck{Messages: 4},
			"4 messages, none received since 2026-01-31; new mail will be forwarded",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.f.Plan(tt.start, func(at time.Time) string { return at.Format("15:04") }); got != tt.want {
				t.Errorf("Plan says\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
