package taskstest

import (
	"fmt"
	"strings"
	"time"

	"postrider/internal/tasks"
)

var disableTests = map[string]func(*suite){
	"disable/claims":          testDisableClaims,
	"disable/gives up":        testDisableGivesUp,
	"disable/some have it":    testDisableSome,
	"disable/is being sent":   testDisableSending,
	"disable/all":             testDisableAll,
	"disable/abandoned":       testDisableAbandoned(false),
	"disable/abandoned later": testDisableAbandoned(true),
	"disable/taken over":      testDisableTakenOver,
	"disable/deferred":        testDisableDeferred(false),
	"disable/stopped":         testDisableDeferred(true),
	"disable/resolved":        testDisableOperated(resolved, 1),
	"disable/requeued":        testDisableOperated(requeued, 2),
	"disable/registered":      testDisableRegistered,
}

func (p place) disable() {
	p.t.Helper()
	p.must("disable", p.Queue.Disable(p.ctx, operatorAnn, p.inbox))
}

// testDisableClaims: a claimed task that is not being sent can no longer be sent. Nothing is
// claimed until the inbox is enabled.
func testDisableClaims(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m"), s.msg(2, "n"))
	c := p.claimed(1, 1)[0]
	for range 2 { // doing it twice changes nothing
		p.disable()
	}
	ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Sending}}
	err := s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, ds)
	s.lostTo("mark as sending", err, "the task is received: its inbox was disabled")
	if got := s.stands(c.Task.ID, tasks.Received); got.Attempts != 0 || got.Revision != "" {
		s.t.Errorf("it has %d attempts and the revision %q; want neither", got.Attempts, got.Revision)
	}
	s.has(c.Task.ID, "released", "conflict")
	p.claimed(10)
	s.shut(c.Task.ID, true)
	s.Enable(s.t, p.inbox)
	s.shut(c.Task.ID, false)
	for _, c := range p.receive(10) {
		p.reserve(c, []string{ann}, "ann pending")
	}
}

// shut checks whether a task waits until its inbox is enabled.
func (s *suite) shut(id int64, want bool) {
	s.t.Helper()
	if t := s.get(id); t.Disabled != want || t.Shut() != want {
		s.t.Errorf("its inbox is disabled: %t, and it waits for that: %t; want %t", t.Disabled, t.Shut(), want)
	}
}

// testDisableGivesUp: an equal message in another inbox goes out instead, and the disabled one is
// its duplicate when it is enabled.
func testDisableGivesUp(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	owner := p.added(s.msg(1, "m"))
	here := p.became([]tasks.Entry{s.msg(2, "m")}, "waits")[0].TaskID
	there := q.became([]tasks.Entry{s.msg(1, "m")}, "waits")[0].TaskID
	p.disable()
	if sent := q.work(); sent != 1 {
		s.t.Errorf("the other inbox sent it %d times, want once", sent)
	}
	s.Enable(s.t, p.inbox)
	if sent := p.work(); sent != 0 {
		s.t.Errorf("enabled again, the inbox sent it %d times, want never", sent)
	}
	for _, id := range []int64{owner, here} {
		s.stands(id, tasks.Skipped)
		s.recipients(id, "ann duplicate of %d", there)
	}
}

// halfSent is a claim by which ann has the message and bob is as given, and an equal message
// elsewhere that waits.
func (p place) halfSent(elsewhere place, is tasks.DeliveryStatus) (c tasks.Claim, waits int64) {
	p.t.Helper()
	p.register(p.msg(1, "m", ann, bob))
	waits = elsewhere.became([]tasks.Entry{p.msg(1, "m", ann, bob)}, "waits")[0].TaskID
	c = p.claimed(1, 1)[0]
	ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Delivered}, {Recipient: bob, Status: is}}
	p.must("sending", p.Queue.Sending(p.ctx, c, tasks.Form{Mode: "redirect"}, ds))
	return c, waits
}

// testDisableSome: a recipient without the message gets it by the other inbox; one that has it does
// not.
func testDisableSome(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	c, copied := p.halfSent(q, tasks.Pending)
	p.disable()
	s.lostTo("finish", s.Queue.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded)), "its inbox was disabled")
	if sent := q.work(); sent != 1 {
		s.t.Errorf("the other inbox sent it to %d, want to bob alone", sent)
	}
	s.recipients(copied, "ann duplicate of %d, bob delivered", c.Task.ID)
	s.Enable(s.t, p.inbox)
	if sent := p.work(); sent != 0 {
		s.t.Errorf("enabled again, the inbox sent it to %d, want 0 recipients", sent)
	}
	s.stands(c.Task.ID, tasks.Forwarded)
	s.recipients(c.Task.ID, "ann delivered, bob duplicate of %d", copied)
}

// testDisableSending: the claim of what is being sent stays good, and what it owns stays owned.
func testDisableSending(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	c, copied := p.halfSent(q, tasks.Sending)
	p.disable()
	q.claimed(10)
	c.Task = s.get(c.Task.ID)
	c.Task.Deliveries[1].Status = tasks.Delivered
	s.finish(c, tasks.Forwarded)
	if sent := q.work(); sent != 0 {
		s.t.Errorf("the other inbox sent it to %d, want 0 recipients", sent)
	}
	s.recipients(copied, "ann duplicate of %d, bob duplicate of %d", c.Task.ID, c.Task.ID)
}

// endAbandoned ends the abandoned claims of all disabled inboxes, also of other tests.
func (s *suite) endAbandoned() (n int) {
	s.t.Helper()
	n, err := s.Queue.EndAbandoned(s.ctx)
	s.must("end abandoned claims", err)
	return n
}

// testDisableAbandoned: a worker dies while it is sending to ann. The inbox is disabled, after or
// before the lease has run out: then the outcome is unknown. Another inbox sends to bob, and to
// eve, who was refused. When an operator says that ann has the message, ann's copy is a duplicate.
func testDisableAbandoned(later bool) func(*suite) {
	return func(s *suite) {
		both := s.places(2)
		p, q := both[0], both[1]
		p.register(s.msg(1, "m", ann, bob, eve))
		copied := q.became([]tasks.Entry{s.msg(1, "m", ann, bob, eve)}, "waits")[0].TaskID
		c := p.claimed(1, 1)[0]
		ds := []tasks.Delivery{
			{Recipient: ann, Status: tasks.Sending},
			{Recipient: bob, Status: tasks.Pending},
			{Recipient: eve, Status: tasks.Failed},
		}
		p.must("sending", p.Queue.Sending(p.ctx, c, tasks.Form{Mode: "redirect"}, ds))
		if later {
			p.disable()
		}
		s.endAbandoned()
		s.stands(c.Task.ID, tasks.InProgress)
		s.Age(s.t, lease+time.Second)
		if n := s.endAbandoned(); later && n == 0 {
			s.t.Error("no abandoned claim was ended, want one")
		}
		if !later {
			s.stands(c.Task.ID, tasks.InProgress) // the inbox is active: its next claim takes the task over
			p.disable()
		}
		s.endAbandoned() // doing it twice changes nothing
		if got := s.stands(c.Task.ID, tasks.Uncertain); !strings.Contains(got.Reason, c.Receipt.Worker) {
			s.t.Errorf("the reason is %q, want it to name the worker", got.Reason)
		}
		s.recipients(c.Task.ID, "ann sending, bob pending, eve failed")
		s.has(c.Task.ID, "uncertain")
		s.lostTo("finish", s.Queue.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded)), "the task is uncertain")
		if sent := q.work(); sent != 2 {
			s.t.Errorf("the other inbox sent it to %d, want to bob and eve", sent)
		}
		s.recipients(copied, "ann waits for %d, bob delivered, eve delivered", c.Task.ID)
		s.resolve(c.Task.ID)
		if sent := q.work(); sent != 0 {
			s.t.Errorf("the other inbox sent it to %d, want it sent to no one: ann has it", sent)
		}
		s.recipients(copied, "ann duplicate of %d, bob delivered, eve delivered", c.Task.ID)
		s.Enable(s.t, p.inbox)
		if sent := p.work(); sent != 0 {
			s.t.Errorf("enabled again, the inbox sent it to %d, want it sent to no one", sent)
		}
	}
}

// testDisableTakenOver: an inbox that is enabled again takes over what a worker has abandoned.
func testDisableTakenOver(s *suite) {
	p := s.place()
	c := p.claim()
	ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Sending}}
	p.must("sending", p.Queue.Sending(p.ctx, c, tasks.Form{Mode: "redirect"}, ds))
	p.disable()
	s.Age(s.t, lease+time.Second)
	s.Enable(s.t, p.inbox)
	s.endAbandoned()
	p.claimed(1, c.Task.UID)
	s.has(c.Task.ID, "lease_lost")
}

// testDisableDeferred: an inbox is disabled while one of its messages is being sent, and then the
// relay defers it, or the run is stopped. Another inbox sends it instead.
func testDisableDeferred(stopped bool) func(*suite) {
	return func(s *suite) {
		both := s.places(2)
		p, q := both[0], both[1]
		c, copied := p.halfSent(q, tasks.Sending)
		p.disable()
		c.Task = s.get(c.Task.ID)
		c.Task.Deliveries[1].Status = tasks.Pending
		if stopped {
			p.must("release", s.Queue.Release(s.ctx, c, "interrupted", 0, c.Task.Deliveries))
		} else {
			s.finish(c, tasks.Error)
		}
		s.Age(s.t, 2*tasks.WaitRecheck)
		if sent := q.work(); sent != 1 {
			s.t.Errorf("the other inbox sent it to %d, want to bob alone", sent)
		}
		s.recipients(copied, "ann duplicate of %d, bob delivered", c.Task.ID)
	}
}

// testDisableOperated: an operator resolves or requeues a task of a disabled inbox that has not
// sent to all. Another inbox sends to these.
func testDisableOperated(do func(*suite, int64) (int, error), want int) func(*suite) {
	return func(s *suite) {
		both := s.places(2)
		p, q := both[0], both[1]
		p.register(p.msg(1, "m", ann, bob))
		q.became([]tasks.Entry{p.msg(1, "m", ann, bob)}, "waits")
		c := p.claimed(1, 1)[0]
		ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Sending}, {Recipient: bob, Status: tasks.Pending}}
		p.must("sending", p.Queue.Sending(p.ctx, c, tasks.Form{Mode: "redirect"}, ds))
		p.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Uncertain, Deliveries: ds}))
		p.disable()
		if n, err := do(s, c.Task.ID); n != 1 || err != nil {
			s.t.Errorf("%d tasks were changed, %v; want 1", n, err)
		}
		s.Age(s.t, 2*tasks.WaitRecheck)
		if sent := q.work(); sent != want {
			s.t.Errorf("the other inbox sent it to %d, want to %d who do not have it", sent, want)
		}
	}
}

func resolved(s *suite, id int64) (int, error) { return s.Queue.Resolve(s.ctx, operatorAnn, id) }

func requeued(s *suite, id int64) (int, error) { return s.Queue.Requeue(s.ctx, operatorAnn, id) }

// testDisableAll: an inbox that is disabled keeps no other from sending.
func testDisableAll(s *suite) {
	three := s.places(3)
	p, q, r := three[0], three[1], three[2]
	p.register(s.msg(1, "m"))
	q.became([]tasks.Entry{s.msg(1, "m")}, "waits")
	third := r.became([]tasks.Entry{s.msg(1, "m")}, "waits")[0].TaskID
	q.disable()
	r.disable()
	p.disable()
	s.Enable(s.t, r.inbox)
	r.reserve(r.claimed(10, 1)[0], []string{ann}, "ann pending")
	for _, other := range []place{q, p} {
		s.Enable(s.t, other.inbox)
		other.reserve(other.claimed(10, 1)[0], []string{ann}, fmt.Sprintf("ann waits for %d", third))
	}
}

// testDisableRegistered: a message that is registered in a disabled inbox, or found again there, is
// not decided. Another inbox can forward it.
func testDisableRegistered(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	p.vanished()
	p.disable()
	p = p.renewed()
	e := s.msg(3, "n")
	e.Decision.Notes = []tasks.Note{{Event: "left_out", Detail: eve}}
	for i, r := range p.became([]tasks.Entry{e, s.msg(4, "m")}, "new", "moved") {
		if got := s.stands(r.TaskID, tasks.Received); got.Revision != "" || i == 0 && len(s.events(r.TaskID)) != 0 {
			s.t.Errorf("task %d has the revision %q, want none, and no notes of its decision", r.TaskID, got.Revision)
		}
	}
	q.became([]tasks.Entry{s.msg(1, "n"), s.msg(2, "m")}, "new", "new")
	q.claimed(10, 1, 2)
	p.claimed(10)
}
