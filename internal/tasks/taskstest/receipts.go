package taskstest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"postrider/internal/tasks"
)

var receiptTests = map[string]func(*suite){
	"receipt/stale":        testStale,
	"receipt/expired":      testExpired,
	"receipt/twice":        testTwice,
	"receipt/why lost":     testLostWhy,
	"receipt/unknown task": testUnknownTask,
	"receipt/sending":      testSending,
	"receipt/note":         testNote,
	"receipt/mode":         testModeFromTheStart,
	"receipt/deliveries":   testDeliveries,
	"receipt/reasons":      testFinishEvents,
}

// late claims a task as a worker that will be late.
func (p place) late() tasks.Claim {
	p.t.Helper()
	p.register(p.msg(1, "m"))
	want := p.want(1)
	want.Worker = "late"
	claims, err := p.Queue.Receive(p.ctx, want)
	p.must("receive", err)
	if len(claims) != 1 || claims[0].Receipt.Worker != "late" {
		p.t.Fatalf("claimed %+v; want one task, by the worker late", claims)
	}
	return claims[0]
}

// testStale: once anybody else has changed the task the old receipt is good for nothing, and the trail says who was late.
func testStale(s *suite) {
	lost := func(p place) tasks.Claim {
		s.Age(s.t, lease+time.Second)
		return p.claimed(1, 1)[0]
	}
	finish := func(r tasks.Receipt, as tasks.Status) {
		s.must("finish", s.Queue.Finish(s.ctx, r, tasks.Result{Status: as, Route: "desk", Reason: "why"}))
	}
	person := func(do func(context.Context, string, ...int64) (int, error), id int64) {
		if n, err := do(s.ctx, "ann", id); n != 1 || err != nil {
			s.t.Fatalf("changed by a person: %d, %v; want 1", n, err)
		}
	}
	for name, lose := range map[string]func(p place, c tasks.Claim){
		"claimed by another":             func(p place, _ tasks.Claim) { lost(p) },
		"forwarded by another":           func(p place, _ tasks.Claim) { finish(lost(p).Receipt, tasks.Forwarded) },
		"given up by another":            func(p place, _ tasks.Claim) { finish(lost(p).Receipt, tasks.Dead) },
		"put off by another":             func(p place, _ tasks.Claim) { finish(lost(p).Receipt, tasks.Error) },
		"released by another":            func(p place, _ tasks.Claim) { s.must("release", s.Queue.Release(s.ctx, lost(p), "", 0, nil)) },
		"finished, requeued by a person": func(_ place, c tasks.Claim) { finish(c.Receipt, tasks.Dead); person(s.Queue.Requeue, c.ID) },
		"finished, skipped by a person":  func(_ place, c tasks.Claim) { finish(c.Receipt, tasks.Error); person(s.Queue.Skip, c.ID) },
		"finished, resolved by a person": func(_ place, c tasks.Claim) { finish(c.Receipt, tasks.Uncertain); person(s.Queue.Resolve, c.ID) },
		"finished, purged by a person":   func(_ place, c tasks.Claim) { finish(c.Receipt, tasks.Dead); person(s.Queue.Purge, c.ID) },
		"dead, for it kills its workers": func(p place, _ tasks.Claim) {
			s.Age(s.t, lease+time.Second)
			want := p.want(1)
			want.MaxLostLeases = 0
			if claims, err := s.Queue.Receive(s.ctx, want); err != nil || len(claims) != 0 {
				s.t.Fatalf("claimed %v, %v; want the task to be dead", claims, err)
			}
		},
	} {
		p := s.place()
		c := p.late()
		lose(p, c)
		for _, d := range withReceipt() {
			before := s.record(c.ID)
			if err := d.do(p, c); !s.refused(d, before, c, err, tasks.ErrLeaseLost) {
				s.t.Errorf("the task was %s", name)
			}
		}
	}
}

// testExpired: the receipt alone decides. Refusing a lease that ran out, but that nobody has claimed, would send twice.
func testExpired(s *suite) {
	for _, d := range withReceipt() {
		p := s.place()
		c := p.claim()
		s.Age(s.t, 10*lease)
		s.happened(d, tasks.InProgress, c.ID, d.do(p, c))
		if got := s.get(c.ID); got.LostLeases != 0 || slices.Contains(s.events(c.ID), "conflict") {
			s.t.Errorf("%s after its lease ran out: lost leases %d, events %q; want none lost", d.name, got.LostLeases, s.events(c.ID))
		}
	}
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

// testLostWhy: who has lost a lease is told what has become of the task.
func testLostWhy(s *suite) {
	p := s.place()
	c := p.claim()
	s.Age(s.t, lease+time.Second)
	other := p.claimed(1, 1)[0]
	forwarded := func(c tasks.Claim) error {
		return s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk"})
	}
	s.lostTo("finish", forwarded(c), "the task is in_progress, last claimed by worker")
	s.must("finish", s.Queue.Finish(s.ctx, other.Receipt, tasks.Result{Status: tasks.Dead, Route: "desk"}))
	s.requeue(c.ID)
	s.lostTo("finish", forwarded(c), "the task is received: somebody else has changed it")
}

func testUnknownTask(s *suite) {
	r := tasks.Receipt{TaskID: -1, Token: "x"} // a line of the trail with a high id would date tasks that come later
	s.wantErr("finish", s.Queue.Finish(s.ctx, r, tasks.Result{Status: tasks.Forwarded}), tasks.ErrLeaseLost)
	s.wantErr("sending", s.Queue.Sending(s.ctx, r, "desk", tasks.Form{Mode: "redirect"}, nil), tasks.ErrLeaseLost)
	_, err := s.Queue.Get(s.ctx, r.TaskID)
	s.wantErr("get", err, tasks.ErrNotFound)
}

// testSending: who was `sending` when a worker died, as what and why so, is known to the next, and to a person.
func testSending(s *suite) {
	p := s.place()
	c := p.claim()
	ds := []tasks.Delivery{
		{Recipient: "bob@example.com", Status: tasks.Sending, Attempts: 1},
		{Recipient: "eve@example.com", Status: tasks.Failed, Code: 550, Reply: "5.1.1 no such user", Attempts: 1},
	}
	as := tasks.Form{Mode: "rewrite", ModeReason: "auto: the policy is reject"}
	for range 2 {
		s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "court", as, ds))
	}
	if got := s.stands(c.ID, tasks.InProgress); got.Route != "court" || got.Form != as || !sameDeliveries(got.Deliveries, ds) {
		s.t.Errorf("route %q, form %+v, deliveries %+v; want court, %+v, %+v", got.Route, got.Form, got.Deliveries, as, ds)
	}
	s.Age(s.t, lease+time.Second)
	c = p.claimed(1, 1)[0]
	if c.Route != "court" || c.Form != as || !sameDeliveries(c.Deliveries, ds) {
		s.t.Errorf("the next claim has route %q, form %+v, deliveries %+v; want court, %+v, %+v", c.Route, c.Form, c.Deliveries, as, ds)
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

// testNote: a line for the trail is there once, whoever noted it, and changes nothing else; who has lost the task notes nothing.
func testNote(s *suite) {
	p := s.place()
	first := p.late()
	before := s.get(first.ID)
	note := func(c tasks.Claim, detail string) error {
		return s.Queue.Note(s.ctx, c.Receipt, "left_out", detail)
	}
	s.must("note", note(first, "bob@example.com"))
	if after := s.get(first.ID); !reflect.DeepEqual(after, before) {
		s.t.Errorf("with a note the task went from\n%+v to\n%+v, want it unchanged", before, after)
	}
	s.Age(s.t, lease+time.Second)
	c := p.claimed(1, 1)[0]
	s.must("note it again", note(c, "bob@example.com"))
	s.must("note another", note(c, "eve@example.com"))
	s.wantErr("note by who has lost the task", note(first, "ann@example.com"), tasks.ErrLeaseLost)
	events, err := s.Queue.Events(s.ctx, c.ID)
	s.must("events", err)
	var got []string
	for _, e := range events {
		if e.Event != "lease_lost" {
			got = append(got, e.Event+" "+e.Detail+" by "+e.Worker)
		}
	}
	want := []string{"left_out bob@example.com by late", "left_out eve@example.com by " + c.Worker, "conflict"}
	if len(got) != len(want) || !slices.Equal(got[:2], want[:2]) || !strings.HasPrefix(got[2], want[2]) {
		s.t.Errorf("the trail is %q, want %q", got, want)
	}
}

// testModeFromTheStart: what has to go out in one mode says so to whoever claims it, also when a person had it begin anew.
func testModeFromTheStart(s *suite) {
	p := s.place()
	e := s.unread(1, "large", "")
	e.Mode = "notice"
	p.register(e, s.msg(2, "m"))
	for i, c := range p.claimed(2, 1, 2) {
		if want := []string{"notice", ""}[i]; c.Mode != want {
			s.t.Errorf("UID %d is claimed with mode %q, want %q", c.UID, c.Mode, want)
		}
		s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Dead, Route: "desk"}))
		if _, err := s.Queue.Requeue(s.ctx, "ann", c.ID); err != nil {
			s.t.Fatal(err)
		}
		if got := s.get(c.ID); got.Mode != c.Mode {
			s.t.Errorf("put back by a person, UID %d has mode %q, want %q", c.UID, got.Mode, c.Mode)
		}
	}
}

// testDeliveries: each recipient has one row, which is brought up to date, and those not named stay.
func testDeliveries(s *suite) {
	p := s.place()
	c := p.claim()
	var all []tasks.Delivery
	for i := range 450 { // more than one INSERT takes
		all = append(all, tasks.Delivery{Recipient: string(rune('a'+i%26)) + time.Duration(i).String() + "@example.com", Status: tasks.Sending})
	}
	s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, all))
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
