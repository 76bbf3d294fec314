package pass

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// TestLimitUsedUp: what it allows is sent in order, nothing more is claimed, and no attempt counts.
func TestLimitUsedUp(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.limits.set(3, time.Hour)
		s.registered(boxA, "one", "two", "three", "four", "five", "six")
		rep := s.run()
		s.wantNoError(rep)
		s.want("one forwarded 1", "two forwarded 1", "three forwarded 1",
			"four received 0", "five received 0", "six received 0")
		if rep.LimitReached == "" || rep.Totals.Waiting != 3 || rep.Totals.Retry != 0 || !rep.Clean() {
			t.Errorf("the pass reports %+v, want that 3 wait for the limit, and nothing else", rep)
		}
		receives := s.queue.called("Receive")
		s.wantNoError(s.run())
		if n := s.queue.called("Receive"); n != receives {
			t.Errorf("a pass that may send nothing claims %d times, want never", n-receives)
		}
	})
}

// TestLimitsRenewed: what is reserved of the limits is renewed while a message is sent, and
// recorded at the end.
func TestLimitsRenewed(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.limits.set(3, time.Hour)
		s.registered(boxA, "one")
		s.relay.onSend = func(string) error { time.Sleep(s.pass.Config.Lease - time.Second); return nil }
		s.wantNoError(s.run())
		if renewed, flushed := s.limits.renewed.Load(), s.limits.flushed.Load(); renewed != 2 || flushed != 1 {
			t.Errorf("renewed %d times within a lease, and recorded %d times at the end; want 2 and 1",
				renewed, flushed)
		}
	})
}

// TestLimitMetAtTheRelay: another process has used it up since this one asked.
func TestLimitMetAtTheRelay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three", "four")
		s.queue.hook = func(method string, _ int64) error {
			if method == "Receive" && s.queue.called("Receive") == 1 {
				s.limits.set(1, time.Hour)
			}
			return nil
		}
		s.relay.max = 1
		s.wantNoError(s.run())
		forwarded := 0
		for _, one := range s.tasks() {
			switch {
			case one.Status == tasks.Forwarded:
				forwarded++
			case one.Attempts != 0 || one.Status != tasks.Received:
				t.Errorf("%s is %s after %d attempts, want received after 0",
					one.Identity.Subject, one.Status, one.Attempts)
			}
		}
		if forwarded != 1 {
			t.Errorf("%d were forwarded, want the one that the limit allowed", forwarded)
		}
		s.limits.set(-1, 0)
		s.queue.hook = nil
		time.Sleep(2 * time.Hour)
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
	})
}

// TestLimitInTheMiddleOfAMessage: those who have it stay, and it goes on with the others.
func TestLimitInTheMiddleOfAMessage(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.limits.set(1, time.Hour)
		s.put("one")
		s.wantNoError(s.run())
		s.want("one received 0")
		s.wantSent("one a@x.example")
		s.limits.set(-1, 0)
		s.wantNoError(s.run())
		s.want("one forwarded 1")
		s.wantSent("one a@x.example", "one b@x.example")
	}, route.Rule{Name: "all", To: []string{"a@x.example", "b@x.example"}})
}

// TestLimitOfAnInstant is waited for.
func TestLimitOfAnInstant(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.limits.set(1, time.Second)
		s.registered(boxA, "one", "two", "three")
		s.relay.dot = func(string, string) forward.Status {
			time.AfterFunc(time.Second, func() { s.limits.set(1, time.Second) })
			return ""
		}
		rep := s.run()
		s.wantNoError(rep)
		s.wantSent("one", "two", "three")
		s.want("one forwarded 1", "two forwarded 1", "three forwarded 1")
	})
}

// TestLimitAndSuspect: neither waits for the other for ever, whoever comes first.
func TestLimitAndSuspect(t *testing.T) {
	for name, left := range map[string]int{"used up": 0, "one": 1, "two": 2, "three": 3, "enough": 99} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.registered(boxA, "suspect")
				s.registered(boxB, "suspect b")
				s.crashed(boxA)
				s.crashed(boxB)
				s.registered(boxA, "a1", "a2", "a3")
				s.registered(boxB, "b1", "b2", "b3")
				s.limits.set(left, time.Hour)
				s.wantNoError(s.run(boxA, boxB))
				s.wantAlone("suspect", "suspect b")
				if n := len(s.relay.subjects()); n != min(left, 8) {
					t.Errorf("%d were sent, want %d", n, min(left, 8))
				}
				for _, one := range s.tasks() {
					if one.Status == tasks.Received && one.Attempts > 1 {
						t.Errorf("%s has %d attempts, want those of the crash alone",
							one.Identity.Subject, one.Attempts)
					}
				}
			})
		})
	}
}

// TestLimitIsAwaitedWhileASuspectWaits: one inbox has a message at the relay and waits for what the
// limit gives back; the other waits until nothing is at the relay.
func TestLimitIsAwaitedWhileASuspectWaits(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		s.registered(boxB, "b1", "b2", "b3")
		s.limits.set(3, time.Hour)
		c := make(chan struct{})
		s.relay.onSend = func(subject string) error {
			if subject == "b1" {
				<-c
			}
			return nil
		}
		s.queue.hook = s.holdUp(boxA, "Next", "b1")
		done := s.start(t.Context(), boxA, boxB)
		s.relay.await("b1")
		synctest.Wait()
		close(c)
		s.wantNoError(s.end(done))
		s.wantAlone("suspect")
		if n := len(s.relay.subjects()); n != 3 {
			t.Errorf("%q were sent, want 3", s.relay.subjects())
		}
	})
}

// TestSuspectIsWorkedOnAlone, with those of the other inbox beside it.
func TestSuspectIsWorkedOnAlone(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		s.registered(boxA, "a1", "a2")
		s.registered(boxB, "b1", "b2", "b3")
		c := make(chan struct{})
		s.relay.onSend = func(subject string) error {
			if subject == "b1" {
				<-c
			}
			return nil
		}
		s.queue.hook = s.holdUp(boxA, "Next", "b1")
		done := s.start(t.Context(), boxA, boxB)
		s.relay.await("b1")
		synctest.Wait()
		if now := s.relay.atRelay(); len(now) != 1 || now[0] != "b1" {
			t.Errorf("at the relay are %q, want b1: the suspect waits, and what comes later does too", now)
		}
		close(c)
		s.wantNoError(s.end(done))
		s.wantAlone("suspect")
		s.want("suspect forwarded 2", "a1 forwarded 1", "a2 forwarded 1",
			"b1 forwarded 1", "b2 forwarded 1", "b3 forwarded 1")
	})
}

// TestSilentServerOfASuspect: while it sends no message, other inboxes go on, and the suspect fails
// as any task does.
func TestSilentServerOfASuspect(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		s.registered(boxB, "b1")
		s.servers[boxA].hook = func(_ context.Context, op string, _ uint32) error {
			if op != "fetch" {
				return nil
			}
			s.relay.await("b1")
			return errNetwork
		}
		s.queue.hook = func(method string, id int64) error {
			if method == "Next" && id == s.inboxes([]string{boxB})[0].ID {
				time.Sleep(time.Second) // the suspect is first
			}
			return nil
		}
		s.run(boxA, boxB)
		s.want("suspect error 2", "b1 forwarded 1")
	})
}

// TestSuspectInAFullCache: its message is fetched once, while others may be sent.
func TestSuspectInAFullCache(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		fetches := 0
		s.servers[boxA].hook = func(_ context.Context, op string, _ uint32) error {
			if op == "fetch" {
				if fetches++; h.process.slots.sem.TryAcquire(1) {
					h.process.slots.sem.Release(1)
				} else {
					t.Error("nothing else can be sent while the suspect is fetched")
				}
			}
			return nil
		}
		h.cache.maxBodies = 0
		h.Deliver(ctx)
		synctest.Wait()
		s.want("suspect forwarded 2")
		if fetches != 1 {
			t.Errorf("the suspect was fetched %d times, want once", fetches)
		}
	})
}

// TestNothingComesBesideASuspect that is at the relay.
func TestNothingComesBesideASuspect(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		s.registered(boxA, "a1")
		s.registered(boxB, "b1")
		c := make(chan struct{})
		s.relay.onSend = func(subject string) error {
			if subject == "suspect" {
				<-c
			}
			return nil
		}
		s.queue.hook = s.holdUp(boxB, "Next", "suspect")
		done := s.start(t.Context(), boxA, boxB)
		s.relay.await("suspect")
		synctest.Wait()
		if now := s.relay.atRelay(); len(now) != 1 {
			t.Errorf("at the relay are %q, want the suspect alone", now)
		}
		close(c)
		s.wantNoError(s.end(done))
		s.wantAlone("suspect")
		s.wantSent("suspect", "a1", "b1")
	})
}

// TestSuspectWaitsForARelayAtFault: it is released as the others are.
func TestSuspectWaitsForARelayAtFault(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		s.registered(boxB, "b1")
		suspect, waits := s.task("suspect").ID, make(chan struct{})
		due := s.holdUp(boxA, "Next", "b1")
		s.queue.hook = func(method string, id int64) error {
			if method == "Release" && id == suspect && s.queue.called("Release") == 1 {
				close(waits)
			}
			return due(method, id)
		}
		s.relay.onBegin = func(context.Context, string) error { <-waits; return errRelay }
		s.run(boxA, boxB)
		s.want("suspect received 1", "b1 received 0")
	})
}

// wantAlone checks that nothing was at the relay beside these.
func (s *site) wantAlone(subjects ...string) {
	s.t.Helper()
	for _, subject := range subjects {
		if s.relay.besides(subject) {
			s.t.Errorf("%s was at the relay beside another message", subject)
		}
	}
}
