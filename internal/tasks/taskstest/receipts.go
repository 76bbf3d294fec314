package taskstest

import (
	"reflect"
	"time"

	"postrider/internal/tasks"
)

var receiptTests = map[string]func(*suite){
	"receipt/stale":        testStale,
	"receipt/expired":      testExpired,
	"receipt/twice":        testTwice,
	"receipt/unknown task": testUnknownTask,
	"receipt/sending":      testSending,
	"receipt/deliveries":   testDeliveries,
	"receipt/reasons":      testFinishEvents,
}

// useless is everything that a receipt is good for, with one that is not.
func useless(s *suite, c tasks.Claim) {
	s.t.Helper()
	ds := []tasks.Delivery{{Recipient: "mallory@example.com", Status: tasks.Delivered}}
	before := s.get(c.ID)
	s.wantErr("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Skipped, Reason: "no", Deliveries: ds}), tasks.ErrLeaseLost)
	s.wantErr("sending", s.Queue.Sending(s.ctx, c.Receipt, "no", ds), tasks.ErrLeaseLost)
	s.wantErr("release", s.Queue.Release(s.ctx, c, "no", 0, ds), tasks.ErrLeaseLost)
	lost, err := s.Queue.Extend(s.ctx, lease, []tasks.Receipt{c.Receipt})
	if err != nil || len(lost) != 1 {
		s.t.Fatalf("extend: lost %v, error %v; want the receipt to be lost", lost, err)
	}
	if after := s.get(c.ID); !reflect.DeepEqual(after, before) {
		s.t.Fatalf("a stale receipt changed the task from\n%+v to\n%+v", before, after)
	}
}

// testStale: once somebody else has claimed the task the old receipt is good for nothing, and the trail says so.
func testStale(s *suite) {
	p := s.place()
	old := p.claim()
	s.Age(s.t, lease+time.Second)
	c := p.claimed(1, 1)[0]
	useless(s, old)
	s.has(c.ID, "lease_lost", "conflict", "conflict", "conflict")
	s.must("finish by the holder", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk"}))
	useless(s, old)
	s.stands(c.ID, tasks.Forwarded)
	s.has(c.ID, "lease_lost", "conflict", "conflict", "conflict", "conflict", "conflict", "conflict")
}

// testExpired: the receipt alone decides. Refusing a lease that ran out, but that nobody has claimed, would send twice.
func testExpired(s *suite) {
	p := s.place()
	c := p.claim()
	s.Age(s.t, 10*lease)
	ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Sending}}
	s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "desk", ds))
	ds[0].Status = tasks.Delivered
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk", Deliveries: ds}))
	s.stands(c.ID, tasks.Forwarded)
	s.has(c.ID)
	p.claimed(1)
}

// testTwice: what was committed without our hearing of it is fine the second time.
func testTwice(s *suite) {
	for _, status := range []tasks.Status{
		tasks.Forwarded, tasks.SkippedNoMatch, tasks.Skipped, tasks.Error, tasks.Dead, tasks.Uncertain,
	} {
		p := s.place()
		c := p.finished(tasks.Result{Status: status, Route: "desk", Reason: "why", Delay: time.Hour})
		before, events := s.get(c.ID), len(s.events(c.ID))
		s.must("finish again as "+string(status), s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: status, Route: "desk", Reason: "why", Delay: time.Hour}))
		if after := s.get(c.ID); !reflect.DeepEqual(after, before) || len(s.events(c.ID)) != events {
			s.t.Errorf("finished twice as %s, the task went from\n%+v to\n%+v", status, before, after)
		}
	}
	p := s.place()
	c := p.claim()
	for range 2 {
		s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil))
	}
	if got := s.stands(c.ID, tasks.Received); got.Attempts != 0 {
		s.t.Errorf("released twice: attempts %d, want 0", got.Attempts)
	}
}

func testUnknownTask(s *suite) {
	r := tasks.Receipt{TaskID: 1 << 40, Token: "x"}
	s.wantErr("finish", s.Queue.Finish(s.ctx, r, tasks.Result{Status: tasks.Forwarded}), tasks.ErrLeaseLost)
	s.wantErr("sending", s.Queue.Sending(s.ctx, r, "desk", nil), tasks.ErrLeaseLost)
	_, err := s.Queue.Get(s.ctx, r.TaskID)
	s.wantErr("get", err, tasks.ErrNotFound)
}

// testSending: who was `sending` when a worker died is known to the next, and to a person.
func testSending(s *suite) {
	p := s.place()
	c := p.claim()
	ds := []tasks.Delivery{
		{Recipient: "bob@example.com", Status: tasks.Sending, Attempts: 1},
		{Recipient: "eve@example.com", Status: tasks.Failed, Code: 550, Reply: "5.1.1 no such user", Attempts: 1},
	}
	for range 2 {
		s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "court", ds))
	}
	if got := s.stands(c.ID, tasks.InProgress); got.Route != "court" || !sameDeliveries(got.Deliveries, ds) {
		s.t.Errorf("route %q, deliveries %+v; want court, %+v", got.Route, got.Deliveries, ds)
	}
	s.Age(s.t, lease+time.Second)
	c = p.claimed(1, 1)[0]
	if c.Route != "court" || !sameDeliveries(c.Deliveries, ds) {
		s.t.Errorf("the next claim has route %q, deliveries %+v; want court, %+v", c.Route, c.Deliveries, ds)
	}
	s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil))
	if got := s.get(c.ID); !sameDeliveries(got.Deliveries, ds) {
		s.t.Errorf("released, its deliveries are %+v, want %+v", got.Deliveries, ds)
	}
}

func sameDeliveries(a, b []tasks.Delivery) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		a, b := a[i], b[i]
		if a.DeliveredAt = b.DeliveredAt; a != b {
			return false
		}
	}
	return true
}

// testDeliveries: each recipient has one row, which is brought up to date, and those not named stay.
func testDeliveries(s *suite) {
	p := s.place()
	c := p.claim()
	var all []tasks.Delivery
	for i := range 450 { // more than one INSERT takes
		all = append(all, tasks.Delivery{Recipient: string(rune('a'+i%26)) + time.Duration(i).String() + "@example.com", Status: tasks.Sending})
	}
	s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "desk", all))
	if got := s.get(c.ID); len(got.Deliveries) != len(all) {
		s.t.Fatalf("%d deliveries, want %d", len(got.Deliveries), len(all))
	}
	one := all[300]
	one.Status, one.Code, one.Reply, one.Attempts = tasks.Delivered, 250, "2.0.0 Ok", 1
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Route: "desk", Deliveries: []tasks.Delivery{one}}))
	delivered := 0
	for _, d := range s.get(c.ID).Deliveries {
		if d.Status == tasks.Delivered {
			delivered++
			at := d.DeliveredAt
			if d.DeliveredAt = nil; at == nil || d != one {
				s.t.Errorf("delivery %+v at %v, want %+v and when", d, at, one)
			}
		}
	}
	if delivered != 1 {
		s.t.Errorf("%d delivered, want 1", delivered)
	}
}

// testFinishEvents: the trail tells of every end but a plain success, which the deliveries tell.
func testFinishEvents(s *suite) {
	for status, want := range map[tasks.Status][]string{
		tasks.Forwarded: nil, tasks.SkippedNoMatch: {"skipped_no_match"}, tasks.Skipped: {"skipped"}, tasks.Error: {"error"},
		tasks.Dead: {"dead"}, tasks.Uncertain: {"uncertain"},
	} {
		p := s.place()
		c := p.finished(tasks.Result{Status: status, Route: "desk", Reason: "the reason"})
		s.has(c.ID, want...)
		if got := s.stands(c.ID, status); got.Route != "desk" || got.Reason != "the reason" {
			s.t.Errorf("%s: route %q, reason %q; want what it was finished with", status, got.Route, got.Reason)
		}
		events, err := s.Queue.Events(s.ctx, c.ID)
		s.must("events", err)
		for _, e := range events {
			if e.TaskID != c.ID || e.Worker != "worker" || e.Detail != "the reason" || p.now().Sub(e.At).Abs() > time.Minute {
				s.t.Errorf("event %+v; want its task, worker, reason and time", e)
			}
		}
	}
}
