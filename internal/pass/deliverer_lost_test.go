package pass

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// stealAt lets another worker claim a task just before the nth call of a method for it.
func (s *site) stealAt(method, subject string, nth int32) {
	var calls atomic.Int32
	s.queue.hook = func(called string, id int64) error {
		if called != method || s.task(subject).ID != id || s.task(subject).Worker != "here:1" {
			return nil
		}
		if calls.Add(1) == nth {
			s.steal(id)
		}
		return nil
	}
}

// otherRules have what is registered decided again.
func (s *site) otherRules() {
	s.t.Helper()
	table, err := route.Compile([]route.Rule{{Name: "others", To: []string{team}}})
	check(s.t, err)
	s.pass.Routes = table
}

func (s *site) wantStolen(subject string) {
	s.t.Helper()
	if one := s.task(subject); one.Worker != "thief:1" || one.Status != tasks.InProgress {
		s.t.Errorf("%s is %s, last claimed by %s; want that the other worker has it", subject, one.Status, one.Worker)
	}
}

// TestLeaseLostBeforeItIsDecided: nothing is sent, and those behind it go on.
func TestLeaseLostBeforeItIsDecided(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		s.otherRules()
		s.stealAt("Reserve", "one", 1)
		s.wantNoError(s.run())
		s.wantStolen("one")
		s.wantSent("two", "three")
	})
}

// TestLeaseLostBeforeItIsSent: the transaction is taken back.
func TestLeaseLostBeforeItIsSent(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		s.stealAt("Sending", "one", 1)
		s.wantNoError(s.run())
		s.wantStolen("one")
		s.wantSent("two", "three")
		s.wantLog("changed concurrently", "nothing more is sent", "task=")
	})
}

// TestLeaseLostBeforeItIsFinished: what the relay said is in the log.
func TestLeaseLostBeforeItIsFinished(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		s.stealAt("Finish", "one", 1)
		rep := s.run()
		s.wantNoError(rep)
		s.wantStolen("one")
		s.wantSent("one", "two", "three")
		s.wantLog("could not be recorded; if its task becomes uncertain: postrider task resolve ID --delivered",
			"task=", "recipient="+team, `reply="queued as one"`)
		if rep.Totals.Forwarded != 2 {
			t.Errorf("%d count as forwarded, want the 2 that were recorded", rep.Totals.Forwarded)
		}
		if rep.Totals.Retry != 1 || rep.Clean() {
			t.Errorf("%d count as to be retried, want the one whose end is not known", rep.Totals.Retry)
		}
	})
}

// TestLeaseLostBetweenTransactions: what the relay said in the first is in the log, and there is no
// second.
func TestLeaseLostBetweenTransactions(t *testing.T) {
	for name, nth := range map[string]int32{"before the first is recorded": 2, "before the second is sent": 3} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.relay.max = 1
				s.registered(boxA, "one")
				s.stealAt("Sending", "one", nth)
				rep := s.run()
				s.wantNoError(rep)
				if rep.Totals.Retry != 1 {
					t.Errorf("%d count as to be retried, want the one whose end is not known", rep.Totals.Retry)
				}
				s.wantStolen("one")
				s.wantSent("one a@x.example")
				s.wantLog("could not be recorded", "task=", "recipient=a@x.example", `reply="queued as one"`)
			}, route.Rule{Name: "all", To: []string{"a@x.example", "b@x.example"}})
		})
	}
}

// TestLeaseLostBeforeItIsReleased is not an error.
func TestLeaseLostBeforeItIsReleased(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two")
		s.relay.onBegin = func(context.Context, string) error { return errRelay }
		s.stealAt("Release", "one", 1)
		s.wantNoError(s.run())
		s.wantStolen("one")
	})
}

// TestLeaseLostBeforeItWaits: one recipient has the message, and another waits for a copy. The
// claim counts as to be retried.
func TestLeaseLostBeforeItWaits(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.relay.reply = func(_, to string) forward.Status {
			if to == "a@x.example" {
				return forward.Deferred
			}
			return ""
		}
		s.put("one")
		s.wantNoError(s.run())
		table, err := route.Compile([]route.Rule{{Name: "both", To: []string{"a@x.example", "b@x.example"}}})
		check(t, err)
		s.pass.Routes = table
		s.put("one")
		var stolen sync.Once
		s.queue.hook = func(called string, id int64) error {
			if called == "Release" {
				stolen.Do(func() { s.steal(id) })
			}
			return nil
		}
		rep := s.run()
		s.wantNoError(rep)
		s.wantSent("one b@x.example")
		s.wantLog("could not be recorded", "task=", "recipient=b@x.example", `reply="queued as one"`)
		if rep.Totals.Retry != 1 {
			t.Errorf("%d count as to be retried, want the one whose end is not known", rep.Totals.Retry)
		}
	}, route.Rule{Name: "all", To: []string{"a@x.example"}})
}

// TestDatabaseAway: the deliverer stops, nothing goes out that was not recorded as sending, and
// what was at the relay is in the log.
func TestDatabaseAway(t *testing.T) {
	for method, sent := range map[string][]string{
		"Next": {}, "Receive": {}, "Reserve": {}, "Sending": {}, "Finish": {"one", "two"},
	} {
		t.Run(method, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.registered(boxA, "one", "two", "three", "four", "five")
				s.otherRules()
				var marked, sending atomic.Int32
				both, away := make(chan struct{}), make(chan struct{})
				s.relay.onSend = func(string) error {
					if sending.Add(1) == 2 {
						close(both)
					}
					<-both
					return nil
				}
				fails := sync.OnceFunc(func() { close(away) })
				s.queue.hook = func(called string, _ int64) error {
					switch {
					case called == method:
						fails()
					case called == "Sending" && method == "Finish" && marked.Add(1) > 2:
						<-away // a third message may come so far before the result of the first two is recorded
					}
					select {
					case <-away:
						return errAway
					default:
						return nil
					}
				}
				s.wantError(s.run().Inboxes[0], errAway.Error())
				s.wantSent(sent...)
				for _, subject := range sent {
					s.wantLog("could not be recorded", "task=", "recipient="+team, `reply="queued as `+subject+`"`)
				}
				if n := s.queue.called("Receive"); n > 2 { // it may claim while it learns of it
					t.Errorf("the deliverer claims %d times, want that it stops", n)
				}
			})
		})
	}
}

// TestDatabaseAwayForAnInstant: what could not be recorded as sending is released, and the next
// pass sends it.
func TestDatabaseAwayForAnInstant(t *testing.T) {
	for _, method := range []string{"Reserve", "Sending"} {
		t.Run(method, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.registered(boxA, "one", "two", "three")
				s.otherRules()
				var failed atomic.Bool
				s.queue.hook = func(called string, _ int64) error {
					if called == method && failed.CompareAndSwap(false, true) {
						return errAway
					}
					return nil
				}
				s.wantError(s.run().Inboxes[0], errAway.Error())
				for _, one := range s.tasks() {
					if one.Status == tasks.InProgress || one.Status == tasks.Received && one.Attempts > 0 {
						t.Errorf("%s is %s after %d attempts, want released",
							one.Identity.Subject, one.Status, one.Attempts)
					}
				}
				time.Sleep(2 * time.Minute)
				s.wantNoError(s.run())
				s.wantSent("one", "two", "three")
			})
		})
	}
}

// TestUnknownOutcomeOfARelayAtFault: it stays sending, and counts an attempt.
func TestUnknownOutcomeOfARelayAtFault(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one")
		s.relay.dot = func(string, string) forward.Status { return forward.Unknown }
		s.wantNoError(s.run())
		s.want("one error 1")
		if got := s.task("one").Deliveries[0].Status; got != tasks.Sending {
			t.Errorf("the delivery is %s, want sending", got)
		}
	})
}

// TestSendFails for a reason of this host: the attempt counts, and nothing went out.
func TestSendFails(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two")
		s.relay.onSend = func(subject string) error {
			if subject == "one" {
				return errors.New("its spool cannot be read")
			}
			return nil
		}
		s.wantNoError(s.run())
		s.want("one error 1", "two forwarded 1")
		if d := s.task("one").Deliveries[0]; d.Status != tasks.Pending {
			t.Errorf("the delivery is %s, want pending", d.Status)
		}
	})
}

// TestLeftAfterTheMark: a connection that ends when the mark is recorded, and before the content,
// leaves the recipients to another transaction. Until that one is recorded, they are pending.
func TestLeftAfterTheMark(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one")
		left := 0
		s.relay.left = func(string) bool { left++; return left <= 2 }
		s.relay.onBegin = func(context.Context, string) error {
			if d := s.task("one").Deliveries[0]; d.Status != tasks.Pending || d.Attempts > 0 {
				t.Errorf("transaction %d begins while the delivery is %s after %d attempts, want it pending",
					left+1, d.Status, d.Attempts)
			}
			return nil
		}
		s.wantNoError(s.run())
		s.wantSent("one")
		if d := s.task("one").Deliveries[0]; d.Status != tasks.Delivered || d.Attempts != 1 {
			t.Errorf("the delivery is %s after %d attempts, want it delivered in one", d.Status, d.Attempts)
		}
	})
}
