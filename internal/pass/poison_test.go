package pass

import (
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// TestPoisonIsReported: a task that is given up before it is processed is in the report.
func TestPoisonIsReported(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	relay := r.Relay
	r.Relay = unreachable{relay}
	r.put("INBOX", mails(1)...)
	r.run() // registers
	in := r.stored()
	for range 2 {
		_, err := r.queue.Receive(t.Context(), tasks.Want{
			InboxID: in.ID, Max: 1, Lease: time.Minute, Worker: "dead", MaxLostLeases: 1,
		})
		check(t, err)
		r.clock.advance(2 * time.Minute)
	}
	r.Relay, r.Config.Policy.MaxLostLeases = relay, 1
	r.want(r.run(), Counters{Dead: 1})
}
