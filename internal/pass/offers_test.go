package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// urgent has the routes give messages with "urgent" in the subject a high priority.
func urgent() []route.Rule {
	return []route.Rule{
		{Name: "urgent", Match: route.Match{Subject: []string{"urgent"}}, Priority: "high", To: []string{team}},
		{Name: "all", To: []string{team}},
	}
}

// elsewhere claims tasks of boxA for another worker.
func (s *site) elsewhere(n int) []tasks.Claim {
	s.t.Helper()
	in, err := s.boxes.Get(s.t.Context(), boxA)
	check(s.t, err)
	claims, err := s.queue.Queue.Receive(s.t.Context(), tasks.Want{
		InboxID: in.ID, Max: n, Lease: time.Hour, Worker: "there:1", MaxLostLeases: 3,
	})
	check(s.t, err)
	return claims
}

// TestOffers: what a pass has registered it sends without asking for it, the urgent first.
func TestOffers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Senders, s.pass.Config.Page = 1, 4
		s.put("one", "two", "urgent", "four")
		s.wantNoError(s.run())
		if n := s.queue.called("Receive"); n > 0 {
			t.Errorf("the queue was asked %d times for tasks, want never", n)
		}
		s.want("one forwarded 1", "two forwarded 1", "urgent forwarded 1", "four forwarded 1")
		if got := s.relay.subjects(); !strings.HasPrefix(got[0], "urgent") {
			t.Errorf("sent %q, want the urgent one first", got)
		}
	}, urgent()...)
}

// TestOffersBehindOthers: what became due before, or is more urgent, goes out before what a pass
// has registered.
func TestOffersBehindOthers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Senders, s.pass.Config.Page = 1, 1
		s.registered(boxA, "old")
		claims := s.elsewhere(1)
		s.registered(boxA, "urgent")
		claims = append(claims, s.elsewhere(1)...)
		// Another host gives back what it has, while the first of the new ones is on its way.
		s.relay.onSend = func(subject string) error {
			if subject == "first" {
				for _, c := range claims {
					check(t, s.queue.Queue.Release(context.Background(), c, "stopped", 0, nil))
				}
			}
			return nil
		}
		s.put("first", "second", "third")
		s.wantNoError(s.run())
		if got := s.relay.subjects(); !slices.Equal(got, []string{"first", "urgent", "old", "second", "third"}) {
			t.Errorf("sent %q, want the urgent one and then the old one as soon as they are due", got)
		}
	}, urgent()...)
}

// TestOfferTaken: another worker claims a task between its registration and its sending. It is sent
// once, by that one.
func TestOfferTaken(t *testing.T) {
	for name, comes := range map[string]forward.Status{"accepted": "", "refused": forward.Refused} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.relay.reply = func(string, string) forward.Status { return comes }
				var theirs []tasks.Claim
				s.queue.hook = func(method string, id int64) error {
					if method == "Sending" && id == s.task("one").ID && theirs == nil {
						theirs = s.elsewhere(1)
					}
					return nil
				}
				s.put("one", "two", "three")
				rep := s.run()
				s.wantNoError(rep)
				if rep.Totals.Registered != 3 || rep.Totals.Retry != 0 || !rep.Clean() && comes == "" {
					t.Errorf("the pass reports %+v, want nothing about the task of another worker", rep.Totals)
				}
				after := map[forward.Status]string{"": "forwarded 1", forward.Refused: "dead 1"}[comes]
				s.want("one in_progress 1", "two "+after, "three "+after)
				if slices.Contains(s.relay.subjects(), "one") {
					t.Error("it was sent, want that nothing goes out that cannot be marked")
				}
				s.wantLog("not sent: another worker or an operator claimed or changed the task")
				check(t, s.queue.Queue.Finish(t.Context(), theirs[0].Receipt, tasks.Result{Status: tasks.Forwarded}))
				if trail, err := s.queue.Events(t.Context(), theirs[0].Task.ID); err != nil || len(trail) > 0 {
					t.Errorf("the trail is %+v, %v; want it to be empty: that is no conflict", trail, err)
				}
			})
		})
	}
}

// TestOthersWork: another worker claims some of what a pass has registered. The pass does not begin
// with these.
func TestOthersWork(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Senders, s.pass.Config.Page = 1, 6
		s.relay.onSend = func(subject string) error {
			if subject == "a" {
				s.elsewhere(2)
			}
			return nil
		}
		s.put("a", "b", "c", "d", "e", "f")
		s.wantNoError(s.run())
		s.wantSent("a", "d", "e", "f")
		const lost = "not sent: another worker or an operator claimed or changed the task"
		if n := strings.Count(s.log.String(), lost); n > 0 {
			t.Errorf("%d messages were begun that another worker had, want none", n)
		}
	})
}

// TestOfferStopped: a pass that ends leaves what it had not begun as it was registered. What it
// claimed before its scan could offer it, it releases.
func TestOfferStopped(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Senders, s.pass.Config.Page = 1, 4
		ctx, stop := context.WithCancel(t.Context())
		s.relay.onBegin = func(_ context.Context, subject string) error {
			if subject == "two" { // three waits for its turn
				stop()
			}
			return nil
		}
		s.put("one", "two", "three", "four")
		s.end(s.start(ctx))
		for _, one := range s.tasks() {
			line := fmt.Sprintf(`msg="task released" inbox=a@firm.example task=%d `, one.ID)
			released := strings.Contains(s.log.String(), line)
			if one.Status == tasks.Received &&
				(one.Attempts != 0 || one.Worker != "" && !released || one.VisibleAt.After(time.Now())) {
				t.Errorf("%s has %d attempts, of %q, and is due at %s; want it as it was registered",
					one.Identity.Subject, one.Attempts, one.Worker, one.VisibleAt)
			}
			if trail, err := s.queue.Events(t.Context(), one.ID); err != nil || len(trail) > 0 {
				t.Errorf("the trail of %s is %+v, %v; want it to be empty", one.Identity.Subject, trail, err)
			}
		}
		s.relay.onBegin = nil
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
	})
}

// TestOfferLease: the lease of a claim is renewed once it is made, and not before.
func TestOfferLease(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		begin, send := make(chan struct{}), make(chan struct{})
		s.relay.onBegin = func(context.Context, string) error { <-begin; return nil }
		s.relay.onSend = func(string) error { <-send; return nil }
		s.put("one")
		done := s.start(t.Context())
		time.Sleep(3 * s.pass.Config.Lease)
		if n := s.queue.called("Extend"); n > 0 {
			t.Errorf("leases were renewed %d times, want never: there is none", n)
		}
		close(begin)
		synctest.Wait()
		time.Sleep(3 * s.pass.Config.Lease)
		if one := s.task("one"); one.Status != tasks.InProgress || !one.VisibleAt.After(time.Now()) {
			t.Errorf("the task is %s, its lease until %s; want one that is renewed", one.Status, one.VisibleAt)
		}
		close(send)
		s.wantNoError(s.end(done))
		s.want("one forwarded 1")
	})
}

// TestNoOffersUnderLimits: under limits a message is claimed before it is named to the relay.
func TestNoOffersUnderLimits(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.limits.set(100, time.Hour)
		s.relay.onBegin = func(_ context.Context, subject string) error {
			if one := s.task(subject); one.Status != tasks.InProgress {
				t.Errorf("%s is %s when it is named to the relay, want in_progress", subject, one.Status)
			}
			return nil
		}
		s.put("one", "two", "three")
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three")
	})
}

// TestOrderWhileRegistering: what comes before a page that was registered goes out before it, also
// while the next page is being registered.
func TestOrderWhileRegistering(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Senders, s.pass.Config.Page = 1, 4
		s.registered(boxA, "urgent")
		claims := s.elsewhere(1)
		register, pages := make(chan struct{}), 0
		s.queue.hook = func(method string, _ int64) error {
			if method == "Register" {
				if pages++; pages == 2 {
					<-register
				}
			}
			return nil
		}
		s.relay.onSend = func(subject string) error {
			if subject == "a1" {
				time.Sleep(time.Second) // the scanner is at its second page
				check(t, s.queue.Queue.Release(context.Background(), claims[0], "stopped", 0, nil))
			}
			return nil
		}
		s.put("a1", "a2", "a3", "a4", "b1", "b2")
		done := s.start(t.Context())
		time.Sleep(time.Minute)
		close(register)
		s.wantNoError(s.end(done))
		if got := s.relay.subjects(); !slices.Equal(got, []string{"a1", "urgent", "a2", "a3", "a4", "b1", "b2"}) {
			t.Errorf("sent %q, want the urgent one second", got)
		}
	}, urgent()...)
}

// TestDueBesideATakenOne: another worker has claimed what this process is about to name to a relay
// that hangs. What else is due is sent meanwhile.
func TestDueBesideATakenOne(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "other")
		claims := s.elsewhere(1)
		_, h, ctx := s.stay()
		hang := make(chan struct{})
		s.relay.onBegin = func(_ context.Context, subject string) error {
			if subject == "slow" {
				<-hang
			}
			return nil
		}
		s.put("slow")
		s.visit(ctx, h)
		check(t, s.queue.Queue.Finish(ctx, s.elsewhere(1)[0].Receipt, tasks.Result{Status: tasks.Forwarded}))
		check(t, s.queue.Queue.Release(ctx, claims[0], "stopped", 0, nil))
		h.Deliver(ctx)
		synctest.Wait()
		s.wantSent("other")
		close(hang)
	})
}

// TestOffersBehindATakenOne: when another worker has claimed one of several offers, those that have
// not been named to the relay are not named without being claimed.
func TestOffersBehindATakenOne(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Senders, s.pass.Config.Page = 1, 4
		var begun []string
		s.relay.onBegin = func(_ context.Context, subject string) error {
			if begun = append(begun, subject); subject == "b" {
				s.elsewhere(2) // c waits for its turn
			}
			return nil
		}
		s.put("a", "b", "c", "d")
		s.wantNoError(s.run())
		s.wantSent("a", "d")
		if slices.Contains(begun, "c") {
			t.Errorf("%q were named to the relay, want not c", begun)
		}
	})
}

// inDoubt is a queue that lets the answer to its first Sending get lost, for good.
type inDoubt struct {
	*fakeQueue
	lost bool
}

func (q *inDoubt) Sending(ctx context.Context, c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	err := q.fakeQueue.Sending(ctx, c, as, ds)
	if q.lost {
		return err
	}
	q.lost = true
	return errors.Join(err, errAway)
}

// TestOfferInDoubt: the claim was made, and the answer was lost. What was not sent is not in doubt.
func TestOfferInDoubt(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Policy.Hold = true
		s.pass.Queue = &inDoubt{fakeQueue: s.queue}
		s.put("one")
		s.wantError(s.run().Inboxes[0], errAway.Error())
		s.want("one received 0")
		time.Sleep(10 * time.Minute)
		s.wantNoError(s.run())
		s.want("one forwarded 1")
	})
}
