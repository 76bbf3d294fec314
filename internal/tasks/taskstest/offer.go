package taskstest

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"postrider/internal/tasks"
)

var offerTests = map[string]func(*suite){
	"offer/what can be":     testCanOffer,
	"offer/claim":           testOfferClaim,
	"offer/nothing is left": testOfferNothingLeft,
	"offer/twice":           testOfferTwice,
	"offer/taken":           testOfferTaken,
	"offer/some taken":      testOfferSomeTaken,
	"offer/no other change": testOfferNoOtherChange,
}

// offer registers one message and offers it.
func (p place) offer(e tasks.Entry) tasks.Claim {
	p.t.Helper()
	reg := p.register(e)[0]
	if reg.Task == nil {
		p.t.Fatal("what was registered cannot be offered")
	}
	return tasks.Offer(*reg.Task, "offer", "worker", lease)
}

// sends marks the deliveries of a claim.
func (s *suite) sends(c tasks.Claim) error {
	s.t.Helper()
	return s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, sendingAll(c))
}

func sendingAll(c tasks.Claim) []tasks.Delivery {
	var ds []tasks.Delivery
	for _, d := range c.Task.Deliveries {
		d.Status = tasks.Sending
		ds = append(ds, d)
	}
	return ds
}

// testCanOffer: what can be sent as it was registered is offered, as the registry has it.
func testCanOffer(s *suite) {
	p, off := s.place(), s.place()
	s.must("disable", s.Queue.Disable(s.ctx, operatorAnn, off.inbox))
	nobody := s.msg(3, "nobody")
	nobody.Decision = &tasks.Decision{Revision: revision, Reason: "no route"}
	for name, reg := range map[string]tasks.Registration{
		"undecided": p.register(s.undecided(1, "undecided"))[0],
		"unread":    p.register(s.unread(2, "unread"))[0],
		"nobody":    p.register(nobody)[0],
		"disabled":  off.register(s.msg(1, "a"))[0],
	} {
		if reg.Task != nil {
			s.t.Errorf("%s: it can be offered, want that it is claimed first", name)
		}
	}
	regs := p.register(s.msg(4, "m", bob, eve), s.msg(5, "m", eve, ann), s.msg(6, "m", bob))
	if regs[0].Task == nil || regs[1].Task != nil || regs[2].Task != nil {
		s.t.Fatalf("of a message and two copies %+v, %+v and %+v can be offered, want the first one alone",
			regs[0].Task, regs[1].Task, regs[2].Task)
	}
	got := *regs[0].Task
	got.Folder = "INBOX" // the caller knows it
	if want := s.get(got.ID); !reflect.DeepEqual(got, want) {
		s.t.Errorf("it can be offered as\n%+v, the registry has\n%+v", got, want)
	}
	if again := p.register(s.msg(4, "m", bob, eve))[0]; again.Task != nil {
		s.t.Error("what was known can be offered")
	}
	page := p.page(s.msg(7, "dry"))
	page.DryRun = true
	dry, err := s.Queue.Register(s.ctx, page)
	if s.must("register", err); dry[0].Task != nil {
		s.t.Error("what a dry run saw can be offered")
	}
}

// testOfferClaim: what goes out first makes the claim. From then on it is like any other.
func testOfferClaim(s *suite) {
	p := s.place()
	c := p.offer(s.msg(1, "m", bob, eve))
	s.must("sending", s.sends(c))
	p.claimed(10)
	got := s.stands(c.Task.ID, tasks.InProgress)
	if got.Attempts != 1 || got.Attempts != c.Task.Attempts ||
		got.Worker != "worker" || got.Form.Mode != "redirect" ||
		!sameDeliveries(got.Deliveries, sendingAll(c)) {
		s.t.Errorf("the task is %+v, want its first attempt to be under way", got)
	}
	lost, err := s.Queue.Extend(s.ctx, 3*lease, []tasks.Receipt{c.Receipt})
	if s.must("extend", err); len(lost) > 0 {
		s.t.Error("the lease of the claim was lost")
	}
	s.Age(s.t, 2*lease)
	p.claimed(10)
	s.finish(c, tasks.Forwarded)
	s.stands(c.Task.ID, tasks.Forwarded)
	s.has(c.Task.ID)

	c = p.offer(s.msg(2, "n"))
	s.must("sending", s.sends(c))
	s.Age(s.t, lease+time.Second)
	if c := p.claimed(10, 2)[0]; !c.Alone || c.Task.Attempts != 2 {
		s.t.Errorf("after its lease it was claimed alone %t, attempt %d; want true, 2", c.Alone, c.Task.Attempts)
	}
}

// testOfferNothingLeft: an offer alone changes nothing, and somebody else may claim the task.
func testOfferNothingLeft(s *suite) {
	p := s.place()
	p.offer(s.msg(1, "m"))
	if c := p.claimed(10, 1)[0]; c.Alone || c.Task.Attempts != 1 || c.Task.LostLeases != 0 {
		s.t.Errorf("claimed alone %t, attempt %d, %d lost leases; want false, 1, 0",
			c.Alone, c.Task.Attempts, c.Task.LostLeases)
	}
}

// testOfferTwice: the answer to the first one may have been lost.
func testOfferTwice(s *suite) {
	p := s.place()
	c := p.offer(s.msg(1, "m"))
	for range 2 {
		s.must("sending", s.sends(c))
	}
	if got := s.stands(c.Task.ID, tasks.InProgress); got.Attempts != 1 {
		s.t.Errorf("%d attempts, want 1", got.Attempts)
	}
	s.finish(c, tasks.Dead)
	s.wantErr("sending", s.sends(c), tasks.ErrTaken)
}

// testOfferTaken: whatever happened to the task since it was registered, nothing goes out, and that
// is no conflict.
func testOfferTaken(s *suite) {
	for name, take := range map[string]func(p place, id int64){
		"claimed": func(p place, _ int64) { p.claimed(1, 1) },
		"released": func(p place, _ int64) {
			s.must("release", s.Queue.Release(s.ctx, p.claimed(1, 1)[0], "stopped", 0, nil))
		},
		"put off": func(p place, _ int64) {
			s.must("finish", s.Queue.Finish(s.ctx, p.claimed(1, 1)[0].Receipt, tasks.Result{Status: tasks.Error}))
		},
		"requeued": func(p place, id int64) {
			s.finish(p.claimed(1, 1)[0], tasks.Dead)
			s.requeue(id)
		},
		"disabled": func(p place, _ int64) { s.must("disable", s.Queue.Disable(s.ctx, operatorAnn, p.inbox)) },
		"enabled again": func(p place, _ int64) {
			s.must("disable", s.Queue.Disable(s.ctx, operatorAnn, p.inbox))
			s.Enable(s.t, p.inbox)
		},
		"removed": func(p place, _ int64) { s.must("remove", s.Queue.Remove(s.ctx, "ann", p.inbox)) },
	} {
		p := s.place()
		c := p.offer(s.msg(1, name))
		take(p, c.Task.ID)
		before, trail := s.stated(c.Task.ID), s.events(c.Task.ID)
		s.wantErr(name, s.sends(c), tasks.ErrTaken)
		if after := s.stated(c.Task.ID); !reflect.DeepEqual(after, before) {
			s.t.Errorf("%s: the task went from\n%+v to\n%+v", name, before, after)
		}
		if now := s.events(c.Task.ID); !reflect.DeepEqual(now, trail) {
			s.t.Errorf("%s: the trail went from %q to %q", name, trail, now)
		}
	}
}

// stated is a task as it is, or none.
func (s *suite) stated(id int64) tasks.Task {
	s.t.Helper()
	t, err := s.Queue.Get(s.ctx, id)
	if !errors.Is(err, tasks.ErrNotFound) {
		s.must("get", err)
	}
	return t
}

// testOfferSomeTaken: those that go out together do not depend on each other.
func testOfferSomeTaken(s *suite) {
	p := s.place()
	var claims []tasks.Claim
	for _, reg := range p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"), s.msg(4, "d")) {
		claims = append(claims, tasks.Offer(*reg.Task, "offer", "worker", lease))
	}
	p.claimed(1, 1)
	errs := make([]error, len(claims))
	var group sync.WaitGroup
	for i, c := range claims {
		group.Go(func() { errs[i] = s.sends(c) })
	}
	group.Wait()
	s.wantErr("sending the one that was taken", errs[0], tasks.ErrTaken)
	for i, c := range claims[1:] {
		s.must("sending", errs[i+1])
		s.finish(c, tasks.Forwarded)
	}
}

// testOfferNoOtherChange: no other change makes a claim.
func testOfferNoOtherChange(s *suite) {
	p := s.place()
	c := p.offer(s.msg(1, "m"))
	s.wantErr("finish", s.Queue.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded)), tasks.ErrLeaseLost)
	trail := s.events(c.Task.ID)
	s.wantErr("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil), tasks.ErrTaken) // and that is no conflict
	s.has(c.Task.ID, trail...)
	lost, err := s.Queue.Extend(s.ctx, lease, []tasks.Receipt{c.Receipt})
	if s.must("extend", err); len(lost) != 1 {
		s.t.Errorf("%d leases were lost, want 1", len(lost))
	}
	s.must("sending", s.sends(c))
	s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, c.Task.Deliveries)) // it was made after all
	got := s.stands(c.Task.ID, tasks.Received)
	if got.Attempts != 0 || !sameDeliveries(got.Deliveries, c.Task.Deliveries) {
		s.t.Errorf("released, the task is %+v, want it as it was registered", got)
	}
}
