package pass

import (
	"slices"
	"testing"

	"postrider/internal/forward"
	"postrider/internal/tasks"
)

func TestAttemptIsForThoseWithoutTheMessage(t *testing.T) {
	a := newAttempt([]tasks.Delivery{
		{Recipient: "delivered", Status: tasks.Delivered},
		{Recipient: "duplicate", Status: tasks.Duplicated},
		{Recipient: "failed", Status: tasks.Failed},
		{Recipient: "pending", Status: tasks.Pending, Attempts: 2},
		{Recipient: "new", Status: tasks.Pending},
		{Recipient: "sending", Status: tasks.Sending, Attempts: 1},
		{Recipient: "waits", Status: tasks.Pending, DuplicateOf: 9},
	})
	if want := []string{"new", "sending", "pending"}; !slices.Equal(a.to, want) {
		t.Errorf("the attempt is for %q, want %q: those who were tried least often first", a.to, want)
	}
	if !a.untried() {
		t.Error("the new one was not tried yet")
	}
	a.sending([]string{"new"})
	if a.untried() {
		t.Error("who is being sent to, and who waits for another task, does not wait for this attempt")
	}
}

func TestAttemptApplies(t *testing.T) {
	for name, c := range map[string]struct {
		before tasks.DeliveryStatus
		said   forward.Status
		want   tasks.DeliveryStatus
	}{
		"accepted":                         {tasks.Pending, forward.Accepted, tasks.Delivered},
		"refused":                          {tasks.Pending, forward.Refused, tasks.Failed},
		"deferred":                         {tasks.Pending, forward.Deferred, tasks.Pending},
		"unknown":                          {tasks.Pending, forward.Unknown, tasks.Sending},
		"deferred after it may have gone":  {tasks.Sending, forward.Deferred, tasks.Sending},
		"refused after it may have gone":   {tasks.Sending, forward.Refused, tasks.Failed},
		"accepted after it may have gone":  {tasks.Sending, forward.Accepted, tasks.Delivered},
		"nothing is said, so nothing went": {tasks.Pending, "", tasks.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt([]tasks.Delivery{{Recipient: "x", Status: c.before}})
			a.sending(a.to)
			var said []forward.Outcome
			if c.said != "" {
				said = append(said, forward.Outcome{
					Recipient: "x", Status: c.said, Code: 451, Enhanced: "4.7.1", Reply: "later", Fix: "wait",
				})
			}
			a.apply(said)
			a.apply(said) // the outcomes so far are applied as a whole, each time
			d := a.ds[0]
			if d.Status != c.want || d.Attempts != len(said) {
				t.Errorf("the delivery is %s after %d attempts, want %s after %d",
					d.Status, d.Attempts, c.want, len(said))
			}
			if c.said != "" && (d.Code != 451 || d.Reply != "4.7.1 later (wait)") {
				t.Errorf("the reply is %d %q, want 451 \"4.7.1 later (wait)\"", d.Code, d.Reply)
			}
		})
	}
}
