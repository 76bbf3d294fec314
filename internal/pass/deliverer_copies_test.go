package pass

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"postrider/internal/forward"
)

// TestCopiesInOnePass: a copy waits for its owner's delivery, and ends in the same pass.
func TestCopiesInOnePass(t *testing.T) {
	for name, c := range map[string]struct {
		first forward.Status
		want  []string
		sent  []string
	}{
		"the owner delivers":   {forward.Accepted, []string{"x forwarded 1", "x skipped 1"}, []string{"x"}},
		"the owner is refused": {forward.Refused, []string{"x dead 1", "x forwarded 1"}, []string{"x"}},
		"the owner is put off": {forward.Deferred, []string{"x error 1", "x received 0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				var answered atomic.Bool
				s.relay.dot = func(string, string) forward.Status {
					if answered.Swap(true) {
						return ""
					}
					return c.first
				}
				s.put("x", "x")
				s.wantNoError(s.run())
				s.want(c.want...)
				s.wantSent(c.sent...)
			})
		})
	}
}

// TestCopiesOfWhatIsRefused: each copy is tried in its turn, all in one pass.
func TestCopiesOfWhatIsRefused(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		var answers atomic.Int32
		s.relay.dot = func(string, string) forward.Status {
			if answers.Add(1) <= 2 {
				return forward.Refused
			}
			return ""
		}
		s.put("x", "x", "x", "x")
		rep := s.run()
		s.wantNoError(rep)
		if want := (Counters{Registered: 4, Dead: 2, Forwarded: 1, Skipped: 1}); rep.Totals != want {
			t.Errorf("the pass reports %+v, want %+v", rep.Totals, want)
		}
		s.wantSent("x")
	})
}

// TestCopyWhileItsOwnerIsAtTheRelay: it holds nothing up, and ends in the same pass.
func TestCopyWhileItsOwnerIsAtTheRelay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		release := make(chan struct{})
		s.relay.onSend = func(subject string) error {
			if subject == "x" {
				<-release
			}
			return nil
		}
		s.put("x", "x", "other", "last")
		done := s.start(t.Context())
		synctest.Wait()
		s.wantSent("other", "last")
		close(release)
		s.wantNoError(s.end(done))
		s.want("x forwarded 1", "x skipped 1", "other forwarded 1", "last forwarded 1")
		s.wantSent("x", "other", "last")
	})
}
