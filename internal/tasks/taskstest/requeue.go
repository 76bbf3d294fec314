package taskstest

import (
	"slices"
	"time"

	"postrider/internal/tasks"
)

// testRequeueBounced: it goes out again to those who bounced, and to nobody else.
func testRequeueBounced(s *suite) {
	p := s.place()
	id := p.sent(1, "m", ann, bob, eve)
	copied := p.became([]tasks.Entry{s.msg(2, "m", ann)}, "duplicate")[0].TaskID
	s.arrive(id, ann, bounce, true)
	s.arrive(id, bob, tasks.Arrival{Status: tasks.Confirmed}, true)
	first := *s.get(id).Deliveries[0].DeliveredAt
	s.Age(s.t, time.Hour)
	s.requeue(id)
	got := s.stands(id, tasks.Received)
	s.recipients(id, "ann pending, bob delivered, eve delivered")
	if d := got.Deliveries[0]; d.Arrival != nil || d.DeliveredAt != nil || d.Code != 0 || d.Reply != "" {
		s.t.Errorf("ann is %+v; want that nothing of the old delivery is left", d)
	}
	if got.Deliveries[1].Arrival == nil || got.InDoubt {
		s.t.Errorf("bob is %+v, in doubt %t; want confirmed, and no doubt", got.Deliveries[1], got.InDoubt)
	}
	s.lastByAnn(id, "bounced", "confirmed", "requeued")
	s.arrive(id, ann, bounce, false)
	c := p.claimed(1, 1)[0]
	sent, err := p.deliver(s.Queue, c, tasks.Delivered)
	if err != nil || !slices.Equal(sent, []string{ann}) {
		s.t.Fatalf("sent to %v, %v; want ann alone", sent, err)
	}
	got = s.stands(id, tasks.Forwarded)
	if d := got.Deliveries[0]; got.HasBounced() || d.DeliveredAt == nil || d.DeliveredAt.Before(first) {
		s.t.Errorf("ann is %+v; want her delivered now, and not bounced", d)
	}
	s.stands(copied, tasks.Skipped)
	if n, err := s.Queue.Requeue(s.ctx, operatorAnn, id); n != 0 || err != nil {
		s.t.Errorf("requeued what did not bounce: %d, %v; want 0", n, err)
	}
	s.arrive(id, ann, bounce, true)
}

// testRequeueBouncedDead: also to recipients that the relay refused.
func testRequeueBouncedDead(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "m", ann, bob))
	res := tasks.Result{Status: tasks.Dead, Reason: "why", Deliveries: []tasks.Delivery{
		{Recipient: ann, Status: tasks.Delivered}, {Recipient: bob, Status: tasks.Failed, Code: 550},
	}}
	s.must("finish", s.Queue.Finish(s.ctx, p.claimed(1, 1)[0].Receipt, res))
	s.arrive(id, ann, bounce, true)
	s.requeue(id)
	s.recipients(id, "ann pending, bob pending")
}

// testRequeueBouncedUndecided: when nobody has the message, it is decided again. Who is no longer
// among its recipients may get it by another task.
func testRequeueBouncedUndecided(s *suite) {
	p := s.place()
	id := p.sent(1, "m", ann)
	s.arrive(id, ann, bounce, true)
	s.requeue(id)
	if got := s.get(id); got.Begun() || got.Revision != "" {
		s.t.Errorf("requeued, it is of the revision %q, begun %t; want it to be decided again",
			got.Revision, got.Begun())
	}
	copied := p.became([]tasks.Entry{s.msg(2, "m", ann)}, "waits")[0].TaskID
	c := p.claimed(1, 1)[0]
	p.reserve(c, []string{bob}, "bob pending")
	s.finish(tasks.Claim{Task: s.get(id), Receipt: c.Receipt}, tasks.Forwarded)
	p.work()
	s.recipients(id, "bob delivered")
	s.recipients(copied, "ann delivered")
	s.arrive(copied, ann, bounce, true)
}
