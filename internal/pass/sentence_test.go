package pass

import "testing"

func TestSentence(t *testing.T) {
	const stopped = "1 skipped, 1 to be retried, 1 dead, 1 uncertain, 4 waiting for smtp.limits, " +
		"5 not registered yet, stopped before the end (2 h 5 min)"
	for want, r := range map[string]Report{
		"3 new, 2 forwarded, 1 matches no route (0.4 s)": {
			DurationMS: 412, Totals: Counters{Registered: 3, Forwarded: 2, SkippedNoMatch: 1},
		},
		"2 match no route (9.9 s)":         {DurationMS: 9900, Totals: Counters{SkippedNoMatch: 2}},
		"nothing new, nothing due (0.0 s)": {},
		"1 inbox failed, 2 inboxes scanned by other runs (1 min)": {
			DurationMS: 60_000, Inboxes: []InboxReport{{Error: "no"}, {Busy: "a"}, {Busy: "b"}, {}},
		},
		stopped: {
			DurationMS: 125 * 60_000, Interrupted: true,
			Totals: Counters{Skipped: 1, Retry: 1, Dead: 1, Uncertain: 1, Waiting: 4, Backlog: 5},
		},
	} {
		if got := r.Sentence(); got != want {
			t.Errorf("the sentence is %q, want %q", got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for name, tt := range map[string]struct {
		in   InboxReport
		want bool
	}{
		"forwarded": {
			InboxReport{Counters: Counters{Registered: 1, Forwarded: 1, Skipped: 1, SkippedNoMatch: 1}},
			true,
		},
		"failed":  {InboxReport{Error: "no"}, false},
		"busy":    {InboxReport{Busy: "b"}, false},
		"dead":    {InboxReport{Counters: Counters{Dead: 1}}, false},
		"backlog": {InboxReport{Counters: Counters{Backlog: 1}}, false},
	} {
		if got := tt.in.Plain(); got != tt.want {
			t.Errorf("%s: Plain is %v, want %v", name, got, tt.want)
		}
	}
}
