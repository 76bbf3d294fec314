package arrivals

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// TestReadEarlier: of a report on an attempt before the task was requeued, nothing is recorded, and
// the reason says so.
func TestReadEarlier(t *testing.T) {
	dated := goneFailed + "\nLast-Attempt-Date: Fri, 20 Nov 2026 08:00:00 +0000"
	for _, tokens := range []bool{true, false} {
		for _, requeued := range []bool{true, false} {
			r := newRegistry()
			for id, task := range r.tasks {
				task.Deliveries[0].DeliveredAt, task.QueuedAt = &day0, task.CreatedAt
				if requeued {
					task.QueuedAt = day0
				}
				r.tasks[id] = task
			}
			to := signer(t, secret, day0).ReversePath(7, time.Time{}, "gone@other.example")
			says, _, err := book(t, r, tokens).Read(t.Context(), parsed(t, reported(to, dated)), false)
			said := strings.HasSuffix(says, "no such user at mx.other.example "+
				"(about an attempt before the task was requeued, not recorded)")
			if err != nil || said != requeued {
				t.Errorf("requeued %t: Read = %q, %v; want it to say whether it is not recorded", requeued, says, err)
			}
		}
	}
}

// TestReadCopy: a copy of a report, with any date, says nothing of an attempt after the task was
// requeued. A report about the delivery of record does, whichever attempt that was.
func TestReadCopy(t *testing.T) {
	hour := func(n int) time.Time { return day0.Add(time.Duration(n) * time.Hour) }
	for name, tt := range map[string]struct {
		sent      int // the task was queued when the token was made
		queued    int // now
		delivered int // 0: perhaps
		recorded  bool
	}{
		"the first attempt":                {1, 1, 2, true},
		"a copy, and sent again":           {1, 3, 4, false},
		"a copy, and perhaps sent again":   {1, 3, 0, false},
		"sent again":                       {3, 3, 4, true},
		"perhaps sent again":               {3, 3, 0, true},
		"requeued for another recipient":   {1, 3, 2, true},
		"resolved, and queued for another": {1, 3, 3, true},
	} {
		r := newRegistry()
		task := r.tasks[7]
		task.CreatedAt, task.QueuedAt = hour(1), hour(tt.queued)
		if at := hour(tt.delivered); tt.delivered != 0 {
			task.Deliveries[0].DeliveredAt = &at
		} else {
			task.Deliveries[0].Status = tasks.Sending
		}
		r.tasks[7] = task
		to := signer(t, secret, day0).ReversePath(7, hour(tt.sent), "gone@other.example")
		says, _, err := book(t, r, true).Read(t.Context(), parsed(t, reported(to, goneFailed)), false)
		if err != nil || len(r.said) == 1 != tt.recorded {
			t.Errorf("%s: Read = %q, %v, and records %q; want it recorded: %t", name, says, err, r.said, tt.recorded)
		}
	}
}
