package pass

import (
	"testing"
	"time"

	"postrider/internal/forward"
)

// TestRetriedInTheSamePass: a message that fails, and goes out later in the same pass, is not to be
// retried.
func TestRetriedInTheSamePass(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		tried := 0
		s.relay.reply = func(subject, _ string) forward.Status {
			if subject != "greylisted" {
				return ""
			}
			if tried++; tried == 1 {
				return forward.Deferred
			}
			return ""
		}
		s.relay.onSend = func(subject string) error {
			if subject == "slow" {
				time.Sleep(10 * time.Minute) // of the fake clock
			}
			return nil
		}
		s.put("greylisted", "slow")
		rep := s.run()
		if want := (Counters{Registered: 2, Forwarded: 2}); rep.Totals != want || tried != 2 || !rep.Clean() {
			t.Errorf("the pass reports %+v after %d attempts, want %+v after 2, and that it is clean",
				rep.Totals, tried, want)
		}
	})
}
