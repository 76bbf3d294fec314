//go:build unix

package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
)

// TestLeaseIsRenewed: the relay takes far longer for a message than the lease lasts, and another
// host is ready to take over. The sender renews its lease, and no other run claims the task.
func TestLeaseIsRenewed(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		const lease = 9 * time.Second // renewed each third of it, so two renewals may be late
		w.extra = "concurrency: {host: HOST, lease: 9s}"
		at, answer := make(chan struct{}, 10), make(chan struct{})
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage != "dot" {
				return smtpsink.Action{}
			}
			at <- struct{}{}
			return smtpsink.Action{Block: answer}
		})
		w.configure()
		h := &hosts{world: w}
		msgs := h.fill("desk@firm.example", 1)
		a := h.on("a")
		select {
		case <-at:
		case <-time.After(time.Minute):
			t.Fatal("the relay did not get the message")
		}
		first := h.claim().DueAt
		b := h.on("b")
		h.eventually(func() bool { return h.claim().DueAt.After(first.Add(2 * lease)) })
		close(answer)
		h.ended(a, 0)
		h.ended(b, 0)
		h.wantOnce(msgs)
		if got := h.claim(); got.Status != "forwarded" || got.Attempts != 1 || got.LostLeases != 0 || len(at) != 0 {
			t.Errorf("the task is %+v, and was sent %d times more; "+
				"want it forwarded by one attempt, and no lease lost", got, len(at))
		}
	})
}

// claim is what `task show 1 --json` prints of the claim.
type claim struct {
	Status     string    `json:"status"`
	Attempts   int       `json:"attempt_count"`
	LostLeases int       `json:"lost_leases"`
	DueAt      time.Time `json:"due_at"`
}

func (h *hosts) claim() (c claim) {
	h.t.Helper()
	res := h.must(0, "task", "show", "1", "--json")
	if err := json.Unmarshal([]byte(res.stdout), &c); err != nil {
		h.t.Fatalf("task show --json printed %q: %v", res.stdout, err)
	}
	return c
}
