package tasks

import (
	"testing"
	"time"
)

// TestReasons: texts for people, with the right plurals.
func TestReasons(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(attempts int) Task { return Task{Attempts: attempts, QueuedAt: now.Add(-90 * time.Minute)} }
	sending := []Delivery{
		{Recipient: "a@x", Status: Sending}, {Recipient: "b@x", Status: Pending}, {Recipient: "c@x", Status: Sending},
	}
	poisoned := func(lost int) string {
		return Poisoned(Task{ID: 5, LostLeases: lost, Worker: "w"}).Reason
	}
	const (
		crashed = "workers crashed repeatedly while processing it "
		again   = "; to try again: `postrider task retry 5`"
	)
	for _, c := range []struct{ got, want string }{
		{gaveUp(after(1), now), "given up after 1 attempt in 1h30m0s: "},
		{gaveUp(after(2), now), "given up after 2 attempts in 1h30m0s: "},
		{poisoned(1), crashed + "(1 lost lease, the last by w)" + again},
		{poisoned(4), crashed + "(4 lost leases, the last by w)" + again},
		{
			lines([]Delivery{
				{Recipient: "a@x"}, {Recipient: "b@x", Reply: "no route"}, {Recipient: "c@x", Code: 550, Reply: "no"},
			}),
			"a@x; b@x: no route; c@x: 550 no",
		},
		{TakenOver("w", nil), "taken over from w"},
		{TakenOver("w", sending), "taken over from w, which was sending to a@x, c@x, who may have it"},
		{Stale("", "", false), "the task has been deleted, or its inbox was removed"},
		{Stale(InProgress, "w", true), "the task is in_progress, last claimed by w"},
		{Stale(Received, "", false), "the task is received: its inbox was disabled"},
		{Stale(Received, "", true), "the task is received: it was changed concurrently"},
		{Conflict(Forwarded, "so"), "the lease was lost, so the status forwarded was not recorded; so"},
		{BySkip(By{Who: "ann"}), "by_operator: ann"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
