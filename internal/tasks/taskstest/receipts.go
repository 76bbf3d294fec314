package taskstest

import (
	"context"
	"fmt"
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

// testStale: once anyone else has changed the task the old receipt is invalid, and the trail names
// the late worker.
func testStale(s *suite) {
	lost := func(p place) tasks.Claim {
		s.Age(s.t, lease+time.Second)
		return p.claimed(1, 1)[0]
	}
	operator := func(c tasks.Claim, as tasks.Status, do func(context.Context, tasks.By, ...int64) (int, error)) {
		s.finish(c, as)
		s.byAnn(do(s.ctx, operatorAnn, c.Task.ID))
	}
	for name, lose := range map[string]func(p place, c tasks.Claim){
		"claimed by another":   func(p place, _ tasks.Claim) { lost(p) },
		"forwarded by another": func(p place, _ tasks.Claim) { s.finish(lost(p), tasks.Forwarded) },
		"given up by another":  func(p place, _ tasks.Claim) { s.finish(lost(p), tasks.Dead) },
		"put off by another":   func(p place, _ tasks.Claim) { s.finish(lost(p), tasks.Error) },
		"released by another": func(p place, _ tasks.Claim) {
			s.must("release", s.Queue.Release(s.ctx, lost(p), "", 0, nil))
		},
		"finished, requeued by an operator": func(_ place, c tasks.Claim) { operator(c, tasks.Dead, s.Queue.Requeue) },
		"finished, skipped by an operator":  func(_ place, c tasks.Claim) { operator(c, tasks.Error, s.Queue.Skip) },
		"finished, resolved by an operator": func(_ place, c tasks.Claim) {
			operator(c, tasks.Uncertain, s.Queue.Resolve)
		},
		"finished, purged by an operator": func(_ place, c tasks.Claim) { operator(c, tasks.Dead, s.Queue.Purge) },
		"dead, for it crashes its workers": func(p place, _ tasks.Claim) {
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
			before := s.record(c.Task.ID)
			if err := d.do(p, c); !s.refused(d, before, c, err, tasks.ErrLeaseLost) {
				s.t.Errorf("the task was %s", name)
			}
		}
	}
}

// testExpired: the receipt alone decides. Refusing a lease that ran out, but that nobody has
// claimed, would send twice.
func testExpired(s *suite) {
	for _, d := range withReceipt() {
		p := s.place()
		c := p.claim()
		s.Age(s.t, 10*lease)
		s.happened(d, tasks.InProgress, c.Task.ID, d.do(p, c))
		if got := s.get(c.Task.ID); got.LostLeases != 0 || slices.Contains(s.events(c.Task.ID), "conflict") {
			s.t.Errorf("%s after its lease ran out: lost leases %d, events %q; want none lost",
				d.name, got.LostLeases, s.events(c.Task.ID))
		}
	}
}

// testTwice: what was committed without our hearing of it is fine the second time.
func testTwice(s *suite) {
	for _, status := range tasks.Statuses {
		if !status.EndsClaim() {
			continue
		}
		p := s.place()
		c := p.finished(status)
		before := s.record(c.Task.ID)
		s.finish(c, status)
		if after := s.record(c.Task.ID); !reflect.DeepEqual(after, before) {
			s.t.Errorf("finished twice as %s, the task went from\n%+v to\n%+v", status, before, after)
		}
	}
	p := s.place()
	c := p.claim()
	for range 2 {
		s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil))
	}
	if got := s.stands(c.Task.ID, tasks.Received); got.Attempts != 0 {
		s.t.Errorf("released twice: attempts %d, want 0", got.Attempts)
	}
}

// testLostWhy: the error says why a lease was lost.
func testLostWhy(s *suite) {
	p := s.place()
	c := p.claim()
	s.Age(s.t, lease+time.Second)
	other := p.claimed(1, 1)[0]
	forwarded := func() error { return s.Queue.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded)) }
	s.lostTo("finish", forwarded(), "the task is in_progress, last claimed by worker")
	s.finish(other, tasks.Dead)
	s.requeue(c.Task.ID)
	s.lostTo("finish", forwarded(), "the task is received: it was changed concurrently")
}

func testUnknownTask(s *suite) {
	// Not a high id: its line of the trail would date tasks that come later.
	r := tasks.Receipt{TaskID: -1, Token: "x"}
	s.wantErr("finish", s.Queue.Finish(s.ctx, r, tasks.Result{Status: tasks.Forwarded}), tasks.ErrLeaseLost)
	sending := s.Queue.Sending(s.ctx, tasks.Claim{Receipt: r}, tasks.Form{Mode: "redirect"}, nil)
	s.wantErr("sending", sending, tasks.ErrLeaseLost)
	_, err := s.Queue.Get(s.ctx, r.TaskID)
	s.wantErr("get", err, tasks.ErrNotFound)
}

// testSending: the next worker and an operator know which recipients were `sending` when a worker
// died, in which mode and why.
func testSending(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m", bob, eve))
	c := p.claimed(1, 1)[0]
	ds := []tasks.Delivery{
		{Recipient: bob, Status: tasks.Sending, Attempts: 1},
		{Recipient: eve, Status: tasks.Failed, Code: 550, Reply: "5.1.1 no such user", Attempts: 1},
	}
	as := tasks.Form{Mode: "rewrite", ModeReason: "auto: the policy is reject"}
	for range 2 {
		s.must("sending", s.Queue.Sending(s.ctx, c, as, ds))
	}
	check := func(when string, t tasks.Task) {
		s.t.Helper()
		if t.Form != as || !sameDeliveries(t.Deliveries, ds) {
			s.t.Errorf("%s: form %+v, deliveries %+v; want %+v, %+v", when, t.Form, t.Deliveries, as, ds)
		}
	}
	check("registered", s.stands(c.Task.ID, tasks.InProgress))
	s.Age(s.t, lease+time.Second)
	c = p.claimed(1, 1)[0]
	check("claimed again", c.Task)
	s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil))
	check("released", s.get(c.Task.ID))
}

// testNote: a line is in the trail once, whoever noted it, and changes nothing else. A worker that
// lost the task notes nothing.
func testNote(s *suite) {
	p := s.place()
	first := p.late()
	before := s.get(first.Task.ID)
	note := func(c tasks.Claim, detail string) error {
		return s.Queue.Note(s.ctx, c.Receipt, tasks.Note{Event: "left_out", Detail: detail})
	}
	s.must("note", note(first, bob))
	after := s.get(first.Task.ID)
	if after.UpdatedAt = before.UpdatedAt; !reflect.DeepEqual(after, before) {
		s.t.Errorf("with a note the task went from\n%+v to\n%+v, want it unchanged", before, after)
	}
	s.Age(s.t, lease+time.Second)
	c := p.claimed(1, 1)[0]
	s.must("note it again", note(c, bob))
	s.must("note another", note(c, eve))
	s.wantErr("note by who has lost the task", note(first, ann), tasks.ErrLeaseLost)
	events, err := s.Queue.Events(s.ctx, c.Task.ID)
	s.must("events", err)
	var got []string
	for _, e := range events {
		if e.Event != "lease_lost" {
			got = append(got, e.Event+" "+e.Detail+" by "+e.Worker)
		}
	}
	want := []string{"left_out " + bob + " by late", "left_out " + eve + " by worker", "conflict"}
	if len(got) != len(want) || !slices.Equal(got[:2], want[:2]) || !strings.HasPrefix(got[2], want[2]) {
		s.t.Errorf("the trail is %q, want %q", got, want)
	}
}

// testModeFromTheStart: what has to go out in one mode says so to whoever claims it, also when an
// operator requeued it.
func testModeFromTheStart(s *suite) {
	p := s.place()
	e := s.unread(1, "large")
	e.Mode = "notice"
	p.register(e, s.msg(2, "m"))
	for i, c := range p.claimed(2, 1, 2) {
		if want := []string{"notice", ""}[i]; c.Task.Form.Mode != want {
			s.t.Errorf("UID %d is claimed with mode %q, want %q", c.Task.UID, c.Task.Form.Mode, want)
		}
		s.finish(c, tasks.Dead)
		s.requeue(c.Task.ID)
		if got := s.get(c.Task.ID); got.Form != c.Task.Form {
			s.t.Errorf("requeued, UID %d has the form %+v, want %+v", c.Task.UID, got.Form, c.Task.Form)
		}
	}
}

// testDeliveries: each recipient has one row, which is brought up to date, and those not named
// stay.
func testDeliveries(s *suite) {
	p := s.place()
	var to []string
	for i := range 450 { // more than one INSERT takes
		to = append(to, fmt.Sprintf("%c%d@example.com", 'a'+i%26, i))
	}
	p.register(s.msg(1, "m", to...))
	c := p.claimed(1, 1)[0]
	all := slices.Clone(c.Task.Deliveries)
	for i := range all {
		all[i].Status = tasks.Sending
	}
	s.must("sending", s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, all))
	one := &all[300]
	one.Status, one.Code, one.Reply, one.Attempts = tasks.Delivered, 250, "2.0.0 Ok", 1
	res := tasks.Result{Status: tasks.Error, Deliveries: []tasks.Delivery{*one}}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
	got := s.get(c.Task.ID).Deliveries
	if len(got) != len(to) || !sameDeliveries(got, all) || got[300].DeliveredAt == nil {
		s.t.Errorf("%d deliveries, one of them %+v; want %d, all but that one as they were, and that one %+v",
			len(got), got[300], len(to), one)
	}
}

// testFinishEvents: every end is in the trail but a plain success, which the deliveries say.
func testFinishEvents(s *suite) {
	for _, status := range tasks.Statuses {
		if !status.EndsClaim() {
			continue
		}
		p := s.place()
		c := p.claim()
		res := ending(c, status)
		res.Reason = "the reason"
		s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
		if got := s.stands(c.Task.ID, status); got.Reason != "the reason" || got.Skip != res.Skip {
			s.t.Errorf("%s: reason %q, skipped as %q; want what it was finished with", status, got.Reason, got.Skip)
		}
		if status == tasks.Forwarded {
			s.has(c.Task.ID)
			continue
		}
		s.has(c.Task.ID, string(status))
		events, err := s.Queue.Events(s.ctx, c.Task.ID)
		s.must("events", err)
		for _, e := range events {
			if e.TaskID != c.Task.ID || e.Worker != "worker" ||
				e.Detail != "the reason" || p.now().Sub(e.At).Abs() > time.Minute {
				s.t.Errorf("event %+v; want its task, worker, reason and time", e)
			}
		}
	}
}
