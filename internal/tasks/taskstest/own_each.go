package taskstest

import (
	"fmt"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var ownEachTests = map[string]func(*suite){
	"own/not decided":     testNotDecided,
	"own/unread":          testUnreadOwnsNothing,
	"own/domain":          testDomain,
	"own/each recipient":  testEachRecipient,
	"own/crosswise":       testCrosswise,
	"own/holds up none":   testHoldsUpNone,
	"own/unknown outcome": testUnknownOutcome,
	"own/purged owner":    testPurgedOwner,
	"own/woken late":      testRecheck,
	"own/in backoff":      testWokenInBackoff,
	"own/released":        testReleasedWaiting,
	"own/released early":  testReleasedBeforeGivenUp,
	"own/dead worker":     testOwnerWorkerDies,
}

// testNotDecided: a task that is not decided owns nothing, and makes nothing wait.
func testNotDecided(s *suite) {
	p := s.place()
	noMatch := s.msg(3, "m")
	noMatch.Decision = &tasks.Decision{Revision: revision, Reason: "no one"}
	skipped := s.msg(4, "m")
	skipped.Decision = &tasks.Decision{Revision: revision, Skip: tasks.SkipByRoute, Reason: "by_route: list"}
	first := p.became([]tasks.Entry{s.undecided(1, "m"), s.undecided(2, "m"), noMatch, skipped, s.msg(5, "m")},
		"new", "new", "skipped_no_match", "by_route", "new")
	for _, c := range p.claimed(2, 1, 2) {
		p.reserve(c, []string{ann}, fmt.Sprintf("ann waits for %d", first[4].TaskID))
	}
}

// testUnreadOwnsNothing: a message whose content is not known may be another. Dropping is worse
// than repeating.
func testUnreadOwnsNothing(s *suite) {
	p := s.place()
	decided := s.unread(2, "m")
	decided.Decision = decision()
	p.became([]tasks.Entry{s.unread(1, "m"), decided, s.msg(4, "m")}, "new", "new", "new")
	decided.UID = 3
	p.became([]tasks.Entry{decided}, "new")
	for _, c := range p.claimed(3, 1, 2, 4) {
		p.reserve(c, []string{ann}, "ann pending")
		s.finish(c, tasks.Forwarded)
	}
	p.skipAccountsForNothing(s.unread(6, "o"), s.unread(7, "o"))
}

// skipAccountsForNothing: an operator skips a message whose content is not known.
func (p place) skipAccountsForNothing(skipped, other tasks.Entry) {
	p.t.Helper()
	skipped.Decision, other.Decision = decision(), decision()
	p.skip(p.added(skipped))
	p.became([]tasks.Entry{other}, "new")
}

// testDomain: a recipient is compared with its domain in ASCII and lower case, and its local part
// as it is.
func testDomain(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "m", "ann@Example.COM"))
	other := p.became([]tasks.Entry{s.msg(2, "m", "Ann@example.com")}, "new")[0].TaskID
	got := p.became([]tasks.Entry{s.msg(3, "m", "ann@example.com", "Ann@EXAMPLE.com")}, "waits")[0].TaskID
	p.recipients(got, "Ann@EXAMPLE.com waits for %d, ann waits for %d", other, id)
	for _, c := range p.claimed(10, 1, 2) {
		s.finish(c, tasks.Forwarded)
	}
	p.reserve(p.claimed(10, 3)[0], nil, fmt.Sprintf("Ann@EXAMPLE.com duplicate of %d, ann duplicate of %d", other, id))
	for _, spelled := range []string{"ann@BÜCHER.example", "ann@xn--bcher-kva.example", "ann@XN--BCHER-KVA.example"} {
		p := s.place()
		p.became([]tasks.Entry{s.msg(1, "m", "ann@bücher.example"), s.msg(2, "m", spelled)}, "new", "waits")
		if sent := p.work(); sent != 1 {
			s.t.Errorf("a message to ann@bücher.example and %s was sent %d times, want 1", spelled, sent)
		}
	}
}

// testEachRecipient: a recipient that has the message does not get it again, and the others get it.
func testEachRecipient(s *suite) {
	p := s.place()
	first := p.added(s.msg(1, "m", ann))
	p.work()
	second := p.became([]tasks.Entry{s.msg(2, "m", ann, bob)}, "new")[0].TaskID
	s.recipients(second, "ann duplicate of %d, bob pending", first)
	third := p.became([]tasks.Entry{s.msg(3, "m", ann, bob, eve)}, "new")[0].TaskID
	s.recipients(third, "ann duplicate of %d, bob waits for %d, eve pending", first, second)
	if sent := p.work(); sent != 2 {
		s.t.Errorf("sent %d times; want twice: to bob by the second, to eve by the third", sent)
	}
	s.stands(second, tasks.Forwarded)
	s.stands(third, tasks.Forwarded)
	s.recipients(third, "ann duplicate of %d, bob duplicate of %d, eve delivered", first, second)
	last := p.became([]tasks.Entry{s.msg(4, "m", eve, ann)}, "duplicate")[0].TaskID
	want := fmt.Sprintf("duplicate: the same message is task %d, task %d", first, third)
	if got := s.stands(last, tasks.Skipped); got.Skip != tasks.SkipDuplicate || got.Reason != want {
		s.t.Errorf("skipped as %q, %q; want %q", got.Skip, got.Reason, want)
	}
}

// testCrosswise: two tasks each own what the other waits for. Both go out.
func testCrosswise(s *suite) {
	p := s.place()
	regs := p.became([]tasks.Entry{s.msg(1, "m", ann), s.msg(2, "m", bob)}, "new", "new")
	first, second := regs[0].TaskID, regs[1].TaskID
	for i, c := range p.claimed(2, 1, 2) {
		want := []string{
			fmt.Sprintf("ann pending, bob waits for %d", second),
			fmt.Sprintf("ann waits for %d, bob pending", first),
		}
		ds := p.reserve(c, []string{ann, bob}, want[i])
		c.Task = s.get(c.Task.ID)
		s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, ds))
	}
	if sent := p.work(); sent != 2 {
		s.t.Errorf("sent %d times, want twice", sent)
	}
	s.stands(first, tasks.Forwarded)
	s.stands(second, tasks.Forwarded)
	s.recipients(first, "ann delivered, bob duplicate of %d", second)
	s.recipients(second, "ann duplicate of %d, bob delivered", first)
}

// testHoldsUpNone: a waiting delivery does not delay the other deliveries of its task.
func testHoldsUpNone(s *suite) {
	p := s.place()
	owner := p.added(s.msg(1, "m", ann))
	held := p.claimed(1, 1)[0]
	id := p.became([]tasks.Entry{s.msg(2, "m", ann, bob)}, "new")[0].TaskID
	c := p.claimed(10, 2)[0]
	sent, err := p.deliver(s.Queue, c, tasks.Delivered)
	s.must("deliver", err)
	if got := s.stands(id, tasks.Received); len(sent) != 1 || got.Attempts != 0 {
		s.t.Errorf("sent to %v, then %d attempts; want to bob alone, and the attempt not counted", sent, got.Attempts)
	}
	s.recipients(id, "ann waits for %d, bob delivered", owner)
	p.claimed(10)
	s.finish(held, tasks.Dead)
	if sent := p.work(); sent != 1 {
		s.t.Errorf("sent %d times, want once more, to ann", sent)
	}
	s.recipients(id, "ann delivered, bob delivered")
}

// testUnknownOutcome: an outcome that is unknown keeps what it owns until it is settled, also when
// an operator requeued its task.
func testUnknownOutcome(s *suite) {
	p := s.place()
	owner := p.finished(tasks.Uncertain).Task.ID
	id := p.became([]tasks.Entry{s.msg(2, "m")}, "waits")[0].TaskID
	s.requeue(owner)
	c := p.claimed(1, 1)[0]
	p.reserve(c, []string{bob}, "ann pending") // it may have it: its recipients stay
	c.Task = s.get(owner)
	s.finish(c, tasks.Error)
	s.Age(s.t, tasks.WaitRecheck+time.Second)
	waiting := p.claimed(10, 2)[0]
	p.reserve(waiting, nil, fmt.Sprintf("ann waits for %d", owner))
	s.must("release", s.Queue.Release(s.ctx, waiting, "", 0, nil))
	p.claimed(10)
	s.Age(s.t, time.Hour)
	for _, c := range p.receive(10) {
		if c.Task.ID == owner {
			s.finish(c, tasks.Forwarded)
		} else {
			s.must("release", s.Queue.Release(s.ctx, c, "", 0, nil))
		}
	}
	if sent := p.work(); sent != 0 {
		s.t.Errorf("the copy was sent %d times, want never", sent)
	}
	s.recipients(id, "ann duplicate of %d", owner)
}

// testPurgedOwner: who got which content is known when the task is purged, in every scope.
func testPurgedOwner(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	owner := p.added(s.msg(1, "m"))
	p.work()
	waiting := q.became([]tasks.Entry{s.undecided(1, "m")}, "new")[0].TaskID
	p.purgeForwarded()
	id := q.became([]tasks.Entry{s.msg(2, "m", ann, bob)}, "new")[0].TaskID
	s.recipients(id, "ann duplicate of %d, bob pending", owner)
	q.reserve(q.claimed(1, 1)[0], []string{ann}, fmt.Sprintf("ann duplicate of %d", owner))
	s.get(waiting)
}

// testRecheck: what waits is due after WaitRecheck at the latest, and waits again while nothing is
// settled.
func testRecheck(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m"), s.msg(2, "m"), s.msg(3, "another"))
	other := p.claimed(10, 1, 3)[1]
	s.finish(other, tasks.Forwarded) // to the same recipient
	for range 2 {
		p.claimed(10)
		s.Age(s.t, tasks.WaitRecheck+time.Second)
		c := p.claimed(10, 2)[0]
		sent, err := p.deliver(s.Queue, c, tasks.Delivered)
		s.must("deliver", err)
		if got := s.stands(c.Task.ID, tasks.Received); len(sent) != 0 || got.Attempts != 0 {
			s.t.Errorf("sent to %v, %d attempts; want none", sent, got.Attempts)
		}
	}
}

// testWokenInBackoff: a task is deferred for one recipient, and waits for another task with a
// second one. It is due when that is settled.
func testWokenInBackoff(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m", ann))
	owner := p.claimed(1, 1)[0]
	p.register(s.msg(2, "m", ann, bob))
	c := p.claimed(1, 2)[0]
	s.finish(c, tasks.Error)
	p.claimed(10)
	s.finish(owner, tasks.Forwarded)
	p.reserve(p.claimed(10, 2)[0], nil, fmt.Sprintf("ann duplicate of %d, bob pending", owner.Task.ID))
}

// testReleasedWaiting: a task that is released comes back at once when what it waits for was
// settled while it was claimed, and after WaitRecheck otherwise.
func testReleasedWaiting(s *suite) {
	for _, outcome := range []tasks.DeliveryStatus{tasks.Delivered, tasks.Failed, tasks.Pending} {
		p, settled := s.place(), outcome != tasks.Pending
		p.register(s.msg(1, "m", ann, bob), s.msg(2, "m"))
		owner := p.claimed(1, 1)[0]
		s.Age(s.t, tasks.WaitRecheck+time.Second)
		c := p.claimed(10, 2)[0]
		ds := p.reserve(c, nil, fmt.Sprintf("ann waits for %d", owner.Task.ID))
		if settled {
			res := ending(owner, tasks.Error)
			res.Deliveries[0].Status = outcome
			s.must("finish", s.Queue.Finish(s.ctx, owner.Receipt, res))
		}
		s.must("release", s.Queue.Release(s.ctx, c, "waits", 0, ds))
		if due := len(p.receive(10)) == 1; due != settled {
			s.t.Errorf("the owner's delivery is %s: due at once %t", outcome, due)
		}
	}
}

// testReleasedBeforeGivenUp: what waits for a delivery that was refused does not come back until
// its task gives the recipient up, which it does when it ends.
func testReleasedBeforeGivenUp(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m", ann, bob), s.msg(2, "m"))
	owner := p.claimed(1, 1)[0]
	s.Age(s.t, tasks.WaitRecheck+time.Second)
	c := p.claimed(10, 2)[0]
	refused := ending(owner, tasks.Error).Deliveries
	refused[0].Status, refused[1].Status = tasks.Failed, tasks.Sending
	s.must("sending", s.Queue.Sending(s.ctx, owner, tasks.Form{Mode: "redirect"}, refused))
	ds := p.reserve(c, nil, fmt.Sprintf("ann waits for %d", owner.Task.ID))
	s.must("release", s.Queue.Release(s.ctx, c, "waits", 0, ds))
	p.claimed(10)
	res := ending(owner, tasks.Error)
	res.Deliveries[0].Status = tasks.Failed
	s.must("finish", s.Queue.Finish(s.ctx, owner.Receipt, res))
	p.reserve(p.claimed(10, 2)[0], nil, "ann pending")
}

// testOwnerWorkerDies: a task keeps what it owns when its worker dies, before it sends and while it
// sends.
func testOwnerWorkerDies(s *suite) {
	for _, sending := range []bool{false, true} {
		p := s.place()
		p.register(s.undecided(1, "m"), s.undecided(2, "m"))
		claims := p.claimed(2, 1, 2)
		ds := p.reserve(claims[0], []string{ann}, "ann pending")
		id := claims[0].Task.ID
		p.reserve(claims[1], []string{ann}, fmt.Sprintf("ann waits for %d", id))
		want := "ann pending"
		if sending {
			ds[0].Status, want = tasks.Sending, "ann sending"
			s.must("sending", s.Queue.Sending(s.ctx, claims[0], tasks.Form{Mode: "redirect"}, ds))
		}
		s.Age(s.t, lease+time.Second)
		again := slices.Concat(p.claimed(10, 1), p.claimed(10, 2))
		p.reserve(again[1], nil, fmt.Sprintf("ann waits for %d", id))
		p.reserve(again[0], nil, want)
	}
}
