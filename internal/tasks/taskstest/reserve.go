package taskstest

import (
	"fmt"
	"reflect"
	"time"

	"postrider/internal/tasks"
)

var reserveTests = map[string]func(*suite){
	"reserve/identity":    testReserveIdentity,
	"reserve/hostile":     testReserveHostile,
	"reserve/decision":    testReserveDecision,
	"reserve/gives up":    testReserveGivesUp,
	"reserve/keeps":       testReserveKeeps,
	"reserve/notes":       testReserveNotes,
	"reserve/nobody":      testReserveNobody,
	"reserve/requeued":    testReserveRequeued,
	"reserve/other scope": testReserveScope,
	"reserve/unread":      testReserveUnread,
	"reserve/header":      testReserveHeader,
	"reserve/keep":        testReserveKeep,
}

// testReserveIdentity: a message that could not be read when it was registered becomes known by its
// content, and owns its recipients from then on.
func testReserveIdentity(s *suite) {
	p := s.place()
	p.register(s.unread(1, "m"))
	c := p.claimed(1, 1)[0]
	id := s.identity("m")
	id.Date = time.Date(2026, 3, 1, 12, 30, 0, 123456000, time.FixedZone("", 3600))
	d := decision(bob)
	d.Priority, d.Route = tasks.High, "court"
	res := tasks.Reservation{Identity: &id, Decision: d, Revision: "r2", Dedupe: p.dedupe}
	for range 2 { // doing it twice changes nothing
		ds, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
		if err != nil || standing(ds) != "bob pending" {
			s.t.Fatalf("reserve: %s, %v; want bob pending", standing(ds), err)
		}
	}
	got := s.stands(c.Task.ID, tasks.InProgress)
	if !got.Identity.Date.Equal(id.Date) {
		s.t.Errorf("date %v, want %v", got.Identity.Date, id.Date)
	}
	want := c.Task
	id.Date = got.Identity.Date
	want.Identity, want.Read, want.Revision, want.Route, want.Priority = id, true, "r2", "court", tasks.High
	want.UpdatedAt, want.VisibleAt, want.Deliveries = got.UpdatedAt, got.VisibleAt, tasks.Decided(d)
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the task reads\n%+v, want\n%+v", got, want)
	}
	s.has(c.Task.ID)
	p.beside("Junk").became([]tasks.Entry{s.msg(1, "m", bob)}, "waits")
	p.renewed().became([]tasks.Entry{s.msg(4, "m")}, "moved")
}

// testReserveHostile: what senders write into headers must not keep a message from being
// identified.
func testReserveHostile(s *suite) {
	for _, year := range []int{-4, 1, 999, 9999, 10000} {
		p := s.place()
		p.register(s.unread(1, "m"))
		id := s.identity("m")
		id.Date = time.Date(year, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
		id.Subject, id.MessageID = "a\xff\x00b", "<\x80@x>"
		c := p.claimed(1, 1)[0]
		res := tasks.Reservation{Identity: &id, Decision: decision(), Revision: revision, Dedupe: p.dedupe}
		_, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
		if err != nil {
			s.t.Errorf("reserve with a date in the year %d: %v", year, err)
		}
	}
}

// testReserveDecision: a new decision replaces the recipients of a task that has not begun, and
// those who stay keep their history. Without one only the revision changes.
func testReserveDecision(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m", ann, bob))
	c := p.claimed(1, 1)[0]
	ds := []tasks.Delivery{{Recipient: bob, Status: tasks.Pending, Code: 451, Reply: "later", Attempts: 1}}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Deliveries: ds}))
	c = p.claimed(1, 1)[0]
	res := tasks.Reservation{Revision: "r2", Dedupe: p.dedupe}
	_, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
	s.must("reserve", err)
	s.recipients(c.Task.ID, "ann pending, bob pending")
	if got := s.get(c.Task.ID); got.Revision != "r2" || got.Route != "desk" {
		s.t.Errorf("revision %q, route %q; want r2, and the route as it was", got.Revision, got.Route)
	}
	res.Decision = &tasks.Decision{Revision: "r3", Route: "court", Recipients: []string{eve, bob}, Priority: tasks.High}
	res.Revision = "r3"
	_, err = s.Queue.Reserve(s.ctx, c.Receipt, res)
	s.must("reserve", err)
	got := s.get(c.Task.ID)
	if got.Revision != "r3" || got.Route != "court" || got.Priority != tasks.High {
		s.t.Errorf("revision %q, route %q, priority %d; want those of the decision",
			got.Revision, got.Route, got.Priority)
	}
	want := append(ds, tasks.Delivery{Recipient: eve, Status: tasks.Pending})
	if !sameDeliveries(got.Deliveries, want) {
		s.t.Errorf("deliveries %+v, want %+v", got.Deliveries, want)
	}
}

// testReserveGivesUp: a task gives up those who are no longer recipients, and makes the tasks due
// that wait for these.
func testReserveGivesUp(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m", ann, bob), s.msg(2, "m", ann), s.msg(3, "m", bob))
	c := p.claimed(10, 1)[0]
	p.reserve(c, []string{bob, eve}, "bob pending, eve pending")
	p.reserve(p.claimed(10, 2)[0], nil, "ann pending")
	s.finish(c, tasks.Forwarded)
	p.reserve(p.claimed(10, 3)[0], nil, fmt.Sprintf("bob duplicate of %d", c.Task.ID))
}

// testReserveKeeps: when a recipient has the message, or may have it, the recipients stay.
func testReserveKeeps(s *suite) {
	for _, has := range []tasks.DeliveryStatus{tasks.Delivered, tasks.Sending} {
		p := s.place()
		p.register(s.msg(1, "m", ann, bob))
		c := p.claimed(1, 1)[0]
		ds := []tasks.Delivery{{Recipient: ann, Status: has}}
		s.must("sending", s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, ds))
		d := decision(eve)
		d.Route, d.Notes = "court", []tasks.Note{{Event: "left_out", Detail: bob}}
		_, err := s.Queue.Reserve(s.ctx, c.Receipt, tasks.Reservation{Decision: d, Revision: "r2", Dedupe: p.dedupe})
		s.must("reserve", err)
		if got := s.get(c.Task.ID); got.Revision != "r2" || got.Route != "desk" {
			s.t.Errorf("%s: revision %q, route %q; want r2, and the route that it went by",
				has, got.Revision, got.Route)
		}
		s.recipients(c.Task.ID, "ann %s, bob pending", has)
		s.has(c.Task.ID)
	}
}

// testReserveNotes: notes of a decision are recorded once, also when it is made again.
func testReserveNotes(s *suite) {
	p := s.place()
	e := s.msg(1, "m")
	e.Decision.Notes = []tasks.Note{{Event: "left_out", Detail: eve}}
	p.register(e)
	c := p.claimed(1, 1)[0]
	for range 2 {
		d := decision()
		d.Notes = []tasks.Note{{Event: "left_out", Detail: bob}, {Event: "left_out", Detail: eve}}
		res := tasks.Reservation{Decision: d, Revision: revision, Dedupe: p.dedupe}
		_, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
		s.must("reserve", err)
	}
	events, err := s.Queue.Events(s.ctx, c.Task.ID)
	s.must("events", err)
	if len(events) != 2 ||
		events[0].Detail != eve || events[0].Worker != "" ||
		events[1].Detail != bob || events[1].Worker != "worker" {
		s.t.Errorf("the trail is %+v; want eve by no worker, then bob by the worker", events)
	}
}

// testReserveNobody: a decision by which no one gets the message leaves no recipients.
func testReserveNobody(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m"), s.msg(2, "m"))
	c := p.claimed(10, 1)[0]
	ds, err := s.Queue.Reserve(s.ctx, c.Receipt, tasks.Reservation{
		Decision: &tasks.Decision{Revision: revision, Recipients: []string{ann}, Skip: tasks.SkipByRoute},
		Revision: revision, Dedupe: p.dedupe,
	})
	if err != nil || len(ds) != 0 || len(s.get(c.Task.ID).Deliveries) != 0 {
		s.t.Errorf("reserved for %v, %v; want no recipient", ds, err)
	}
	if got := s.stands(c.Task.ID, tasks.InProgress); got.Route != "" {
		s.t.Errorf("route %q, want none", got.Route)
	}
	p.reserve(p.claimed(10, 2)[0], nil, "ann pending")
}

// testReserveRequeued: a duplicate that is requeued is one again, while its owner is open and when
// it has delivered.
func testReserveRequeued(s *suite) {
	p := s.place()
	owner := p.finished(tasks.Forwarded).Task.ID
	id := p.became([]tasks.Entry{s.msg(2, "m")}, "duplicate")[0].TaskID
	for range 2 {
		s.requeue(id)
		s.recipients(id, "ann pending")
		if sent := p.work(); sent != 0 {
			s.t.Errorf("the duplicate was sent %d times, want never", sent)
		}
		s.recipients(id, "ann duplicate of %d", owner)
	}
	s.has(id, "requeued", "skipped", "requeued", "skipped")
	if got := s.stands(id, tasks.Skipped); got.Skip != tasks.SkipDuplicate {
		s.t.Errorf("skipped as %q, want as a duplicate", got.Skip)
	}
}

// testReserveScope: the scope is the one in force when a task is reserved.
func testReserveScope(s *suite) {
	p := s.place()
	owner := p.finished(tasks.Forwarded).Task.ID
	p.register(s.undecided(2, "m"))
	c := p.claimed(1, 2)[0]
	p.under(tasks.DedupeOff).reserve(c, []string{ann}, "ann pending")
	p.under(tasks.DedupeAll).reserve(c, []string{ann}, "ann pending") // no one owned it in all inboxes
	p.reserve(c, []string{ann}, fmt.Sprintf("ann duplicate of %d", owner))
}

// testReserveUnread: without an identity the content stays unknown, and nothing is owned.
func testReserveUnread(s *suite) {
	p := s.place()
	p.register(s.unread(1, "m"), s.unread(2, "m"))
	for _, c := range p.claimed(2, 1, 2) {
		p.reserve(c, []string{ann}, "ann pending")
		if s.get(c.Task.ID).Read {
			s.t.Error("the task says that its content is known")
		}
	}
}

// testReserveHeader: what a header says is recorded. The content stays unknown, and nothing is
// owned.
func testReserveHeader(s *suite) {
	p := s.place()
	p.register(s.unread(1, "m"), s.unread(2, "m"))
	for _, c := range p.claimed(2, 1, 2) {
		id := s.identity("m")
		id.Fingerprint = c.Task.Identity.Fingerprint
		res := tasks.Reservation{Identity: &id, Decision: decision(ann), Revision: revision, Dedupe: p.dedupe}
		ds, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
		if err != nil || standing(ds) != "ann pending" {
			s.t.Fatalf("reserve: %s, %v; want ann pending", standing(ds), err)
		}
		if got := s.get(c.Task.ID); got.Read || got.Identity != id {
			s.t.Errorf("the task has %+v, content known %t; want %+v, and its content not known",
				got.Identity, got.Read, id)
		}
	}
}

// testReserveKeep: why a message must stay on its server is with its task to the end, also when it
// is requeued. A later decision takes it back, unless some have the message.
func testReserveKeep(s *suite) {
	for _, begun := range []bool{false, true} {
		p := s.place()
		p.register(s.undecided(1, "m"))
		ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Failed}, {Recipient: bob, Status: tasks.Failed}}
		if begun {
			ds[0].Status = tasks.Delivered
		}
		attempt := func(keep tasks.KeepReason, end tasks.Status) int64 {
			c := p.claimed(1, 1)[0]
			d := decision(ann, bob)
			d.Keep = keep
			res := tasks.Reservation{Decision: d, Revision: revision, Dedupe: p.dedupe}
			_, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
			s.must("reserve", err)
			s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: end, Deliveries: ds}))
			return c.Task.ID
		}
		id := attempt(tasks.KeepUndecided, tasks.Dead)
		s.requeue(id)
		if got := s.get(id).Keep; got != tasks.KeepUndecided {
			s.t.Errorf("a requeued task has the keep reason %q, want that it was decided with", got)
		}
		ds[0].Status, ds[1].Status = tasks.Delivered, tasks.Delivered
		attempt("", tasks.Forwarded)
		if got := s.stands(id, tasks.Forwarded); (got.Keep != "") != begun {
			s.t.Errorf("after a decision without one, the keep reason is %q; some had the message before: %t",
				got.Keep, begun)
		}
	}
}
