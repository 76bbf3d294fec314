package taskstest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"postrider/internal/tasks"
)

var claimTests = map[string]func(*suite){
	"claim/order":           testOrder,
	"claim/visible":         testVisible,
	"claim/cancelled":       testCancelled,
	"claim/what it says":    testClaimFields,
	"claim/other inbox":     testOtherInbox,
	"claim/lease runs out":  testLeaseExpires,
	"claim/alone":           testAlone,
	"claim/poison":          testPoison,
	"claim/poison sent":     testPoisonSent,
	"claim/behind poison":   testBehindPoison,
	"claim/extend":          testExtend,
	"claim/long delivery":   testLongDelivery,
	"claim/in hand":         testInHand,
	"claim/release":         testReleaseOrder,
	"claim/release delayed": testReleaseDelayed,
	"claim/error delayed":   testErrorDelayed,
}

func testOrder(s *suite) {
	p := s.place()
	high := func(uid uint32, content string) tasks.Entry {
		e := s.msg(uid, content)
		e.Decision.Priority = tasks.High
		return e
	}
	p.register(s.msg(1, "a"), high(2, "b"), s.msg(3, "c"))
	s.Age(s.t, time.Second)
	p.register(high(4, "d"), s.msg(5, "e"), s.msg(6, "f"))
	p.claimed(1, 2)
	p.claimed(3, 4, 1, 3)
	p.claimed(10, 5, 6)
	p.claimed(10)
}

// testVisible: nothing before its time, nothing twice.
func testVisible(s *suite) {
	p := s.place()
	c := p.claim()
	p.claimed(10)
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Delay: time.Minute}))
	p.claimed(10)
	s.Age(s.t, 50*time.Second)
	p.claimed(10)
	s.Age(s.t, 11*time.Second)
	if c := p.claimed(10, 1)[0]; c.Task.Attempts != 2 || c.Alone || c.Task.LostLeases != 0 {
		s.t.Errorf("attempts %d, alone %t, lost leases %d; want 2, false, 0",
			c.Task.Attempts, c.Alone, c.Task.LostLeases)
	}
}

// testCancelled: nothing is claimed once the context has ended, be it due or not.
func testCancelled(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	p := s.place()
	for range 2 {
		if claims, err := s.Queue.Receive(ctx, p.want(1)); !errors.Is(err, context.Canceled) || len(claims) != 0 {
			s.t.Errorf("claimed %d, %v; want none and that the context was cancelled", len(claims), err)
		}
		p.register(s.msg(1, "a"))
	}
	p.claimed(1, 1)
}

// testClaimFields: a claim is the task as it stands, with the names and deliveries that working it
// off takes.
func testClaimFields(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m", "Bob@example.com", bob))
	c := p.claimed(1, 1)[0]
	ds := []tasks.Delivery{
		{Recipient: "Bob@example.com", Status: tasks.Delivered, Code: 250, Reply: "2.0.0 Ok", Attempts: 1},
		{Recipient: bob, Status: tasks.Pending, Code: 451, Reply: "later", Attempts: 1},
	}
	res := tasks.Result{Status: tasks.Error, Reason: "451 later", Deliveries: ds}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
	before := p.now()
	c = p.claimed(1, 1)[0]
	r := c.Receipt
	if c.Task.Status != tasks.InProgress || c.Task.Worker != "worker" ||
		r.TaskID != c.Task.ID || r.Token == "" || r.Worker != "worker" || c.Due.IsZero() {
		s.t.Errorf("claim %+v; want it in progress, by the worker, with a receipt and when it was due", c)
	}
	if c.At.Before(before) || c.At.After(p.now()) || c.At.Before(c.Due) {
		s.t.Errorf("claimed at %v, asked at %v, due at %v; want when it was claimed, by the registry's clock",
			c.At, before, c.Due)
	}
	got := s.stands(c.Task.ID, tasks.InProgress)
	if !got.VisibleAt.After(c.Due.Add(lease - time.Minute)) {
		s.t.Errorf("visible at %v, due at %v; want a lease of %v", got.VisibleAt, c.Due, lease)
	}
	want := c.Task
	want.VisibleAt, want.UpdatedAt = got.VisibleAt, got.UpdatedAt
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the claim says\n%+v, the registry\n%+v", want, got)
	}
	if !sameDeliveries(c.Task.Deliveries, ds) || c.Task.Deliveries[0].DeliveredAt == nil {
		s.t.Errorf("deliveries %+v, want both as they stand, apart by case", c.Task.Deliveries)
	}
}

func testOtherInbox(s *suite) {
	p, other := s.place(), s.place()
	p.register(s.msg(1, "a"))
	other.claimed(10)
	p.claimed(10, 1)
}

// testLeaseExpires: the next claim takes the task over, alone, and the trail names the last worker.
func testLeaseExpires(s *suite) {
	p := s.place()
	first := p.claim()
	s.Age(s.t, lease-time.Minute)
	p.claimed(10)
	s.Age(s.t, time.Minute+time.Second)
	c := p.claimed(10, 1)[0]
	if c.Task.LostLeases != 1 || c.Task.Attempts != 2 || !c.Alone || c.Receipt == first.Receipt {
		s.t.Errorf("lost leases %d, attempts %d, alone %t, receipts %v and %v; want 1, 2, true and a fresh one",
			c.Task.LostLeases, c.Task.Attempts, c.Alone, first.Receipt, c.Receipt)
	}
	if got := s.get(c.Task.ID); got.LostLeases != 1 || got.Attempts != 2 {
		s.t.Errorf("registered: lost leases %d, attempts %d; want 1, 2", got.LostLeases, got.Attempts)
	}
	s.has(c.Task.ID, "lease_lost")
}

// testAlone: a task that lost its lease comes alone, also when it was released or put off since,
// and whatever its priority.
func testAlone(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"))
	p.claimed(1, 1)
	s.Age(s.t, lease+time.Second)
	p.register(s.msg(2, "b"), s.msg(3, "c"))
	c := p.claimed(10, 1)[0]
	s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil))
	if c := p.claimed(10, 1)[0]; !c.Alone {
		s.t.Error("released and claimed again, it is not alone")
	}
	others := p.claimed(10, 2, 3)
	if others[0].Alone {
		s.t.Error("a task that never lost its lease is alone")
	}
	urgent := s.msg(4, "d")
	urgent.Decision.Priority = tasks.High
	s.Age(s.t, lease+time.Second)
	p.register(urgent)
	p.claimed(10, 4) // the three others lost theirs, each has to come alone
	p.claimed(10, 1)
}

func testPoison(s *suite) {
	p := s.place()
	c := p.claim()
	for range 3 { // the first loss makes it a suspect
		s.Age(s.t, lease+time.Second)
		c = p.claimed(10, 1)[0]
	}
	s.Age(s.t, lease+time.Second)
	p.claimed(10)
	got := s.stands(c.Task.ID, tasks.Dead)
	says := strings.Contains(got.Reason, "4 lost leases") && strings.Contains(got.Reason, "task retry")
	if got.LostLeases != 4 || !says {
		s.t.Errorf("lost leases %d, reason %q; want 4, how often, and what to do", got.LostLeases, got.Reason)
	}
	s.recipients(c.Task.ID, "ann failed")
	s.has(c.Task.ID, "lease_lost", "lease_lost", "lease_lost", "dead")
	s.requeue(c.Task.ID)
	if c := p.claimed(10, 1)[0]; c.Task.LostLeases != 0 || c.Task.Attempts != 1 || c.Alone {
		s.t.Errorf("lost leases %d, attempts %d, alone %t; want it to begin again",
			c.Task.LostLeases, c.Task.Attempts, c.Alone)
	}
}

// testPoisonSent: what crashed its workers while it was being sent may have arrived, which an
// operator has to say.
func testPoisonSent(s *suite) {
	p := s.place()
	c := p.claim()
	ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Sending}}
	s.must("sending", s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, ds))
	s.Age(s.t, lease+time.Second)
	var reported []tasks.Task
	want := p.want(1)
	want.MaxLostLeases, want.Poisoned = 0, func(t tasks.Task) { reported = append(reported, t) }
	claims, err := s.Queue.Receive(s.ctx, want)
	s.must("receive", err)
	got := s.stands(c.Task.ID, tasks.Uncertain)
	if !strings.Contains(got.Reason, "it may have arrived") || len(claims) != 0 {
		s.t.Errorf("reason %q, %d claimed; want it to say that it may have arrived, and none", got.Reason, len(claims))
	}
	s.recipients(c.Task.ID, "ann sending")
	if len(reported) != 1 || reported[0].ID != c.Task.ID || reported[0].Status != tasks.Uncertain {
		s.t.Errorf("Poisoned was called for %+v; want this task, uncertain", reported)
	}
}

// testBehindPoison: a Receive that ends tasks does not come back empty while others are due, also
// when they only waited for one that it ended.
func testBehindPoison(s *suite) {
	for _, content := range []string{"d", "a"} {
		p := s.place()
		p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
		p.claimed(3, 1, 2, 3)
		s.Age(s.t, lease+time.Second)
		p.register(s.msg(4, content))
		want := p.want(2)
		want.MaxLostLeases = 0
		claims, err := s.Queue.Receive(s.ctx, want)
		s.must("receive", err)
		if len(claims) != 1 || claims[0].Task.UID != 4 {
			s.t.Errorf("claimed %d tasks; want the one behind those that are dead now", len(claims))
		}
	}
}

func testExtend(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
	claims := p.claimed(3, 1, 2, 3)
	s.Age(s.t, lease+time.Second) // expired, but no one else has them
	s.finish(claims[2], tasks.Forwarded)
	stale := tasks.Receipt{TaskID: claims[1].Task.ID, Token: "stale"}
	lost, err := s.Queue.Extend(s.ctx, lease, []tasks.Receipt{claims[0].Receipt, stale, claims[2].Receipt})
	s.must("extend", err)
	if len(lost) != 2 || lost[0] != stale || lost[1] != claims[2].Receipt {
		s.t.Errorf("lost %v, want the stale receipt and the one of the finished task", lost)
	}
	if c := p.claimed(10, 2)[0]; c.Task.LostLeases != 1 {
		s.t.Errorf("lost leases %d, want 1", c.Task.LostLeases)
	}
	s.Age(s.t, lease-time.Minute)
	p.claimed(10)
}

// testLongDelivery: a worker that renews its lease keeps the task for as long as it takes.
func testLongDelivery(s *suite) {
	p := s.place()
	c := p.claim()
	for range 10 {
		s.Age(s.t, lease-time.Minute)
		p.claimed(10)
		if lost, err := s.Queue.Extend(s.ctx, lease, []tasks.Receipt{c.Receipt}); err != nil || len(lost) != 0 {
			s.t.Fatalf("extend: lost %v, %v; want none lost", lost, err)
		}
	}
	s.finish(c, tasks.Forwarded)
	if got := s.stands(c.Task.ID, tasks.Forwarded); got.Attempts != 1 || got.LostLeases != 0 {
		s.t.Errorf("attempts %d, lost leases %d; want 1, 0", got.Attempts, got.LostLeases)
	}
	s.has(c.Task.ID)
}

// testInHand: what the caller works on is not claimed by it, also when the lease ran out; by others
// it is.
func testInHand(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"))
	mine := p.claimed(1, 1)[0]
	s.Age(s.t, lease+time.Second)
	want := p.want(10)
	want.InHand = []int64{mine.Task.ID}
	for _, n := range []int{1, 0} {
		claims, err := s.Queue.Receive(s.ctx, want)
		if err != nil || len(claims) != n || n == 1 && claims[0].Task.UID != 2 {
			s.t.Fatalf("claimed %+v, %v; want the one that is not in hand, 2, once", claims, err)
		}
	}
	p.claimed(10, 1)
}

// testReleaseOrder: released tasks come back in their old place, their attempt is not counted.
func testReleaseOrder(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
	claims := p.claimed(2, 1, 2)
	ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Pending, Code: 421, Reply: "closing", Attempts: 1}}
	s.must("release", s.Queue.Release(s.ctx, claims[1], "stopped", 0, nil))
	s.must("release", s.Queue.Release(s.ctx, claims[0], "the relay is down", 0, ds))
	got := s.stands(claims[0].Task.ID, tasks.Received)
	if got.Attempts != 0 || got.Reason != "the relay is down" || !sameDeliveries(got.Deliveries, ds) {
		s.t.Errorf("attempts %d, reason %q, deliveries %v; want 0, the reason, what was given",
			got.Attempts, got.Reason, got.Deliveries)
	}
	if again := p.claimed(10, 1, 2, 3); again[0].Task.Attempts != 1 {
		s.t.Errorf("attempts %d, want 1", again[0].Task.Attempts)
	}
}

func testReleaseDelayed(s *suite) {
	p := s.place()
	c := p.claim()
	s.must("release", s.Queue.Release(s.ctx, c, "later", time.Minute, nil))
	p.claimed(10)
	s.Age(s.t, time.Minute+time.Second)
	p.claimed(10, 1)
}

func testErrorDelayed(s *suite) {
	p := s.place()
	c := p.claim()
	res := tasks.Result{Status: tasks.Error, Reason: "451", Delay: time.Hour}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
	got := s.stands(c.Task.ID, tasks.Error)
	if d := got.VisibleAt.Sub(p.now()); d < 59*time.Minute || d > 61*time.Minute || got.Reason != "451" {
		s.t.Errorf("due in %v, reason %q; want an hour, and 451", d, got.Reason)
	}
}
