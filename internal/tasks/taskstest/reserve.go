package taskstest

import (
	"slices"
	"time"

	"postrider/internal/tasks"
)

var reserveTests = map[string]func(*suite){
	"reserve/two without a route":   testReserveTwo,
	"reserve/a duplicate put back":  testReserveDuplicate,
	"reserve/in place of the dead":  testReserveDead,
	"reserve/some had it":           testReserveSome,
	"reserve/worker killed":         testReserveKilled,
	"reserve/put back, not decided": testReserveUndecided,
	"reserve/duplicates of a copy":  testReserveRename,
	"person/skip accounts":          testSkipAccounts,
}

// reserve claims the one task that is due and reserves it; it reports of which task it is a duplicate.
func (p place) reserve(uid uint32, content string) (tasks.Claim, int64) {
	p.t.Helper()
	c := p.claimed(1, uid)[0]
	of, err := p.Queue.Identify(p.ctx, c.Receipt, p.msg(uid, content), p.dedupe)
	p.must("reserve", err)
	return c, of
}

// forwarded ends a claim as forwarded to ann.
func (s *suite) forwarded(c tasks.Claim) {
	s.t.Helper()
	ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Delivered}}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk", Deliveries: ds}))
}

func (s *suite) requeue(ids ...int64) {
	s.t.Helper()
	if n, err := s.Queue.Requeue(s.ctx, "ann", ids...); n != len(ids) || err != nil {
		s.t.Fatalf("requeue: %d, %v; want %d", n, err, len(ids))
	}
}

// duplicate checks that a task was skipped as the duplicate of another.
func (s *suite) duplicate(id, of int64) {
	s.t.Helper()
	if got := s.stands(id, tasks.Skipped); got.Reason != tasks.DuplicateOf(of) {
		s.t.Errorf("task %d is skipped as %q, want as a duplicate of task %d", id, got.Reason, of)
	}
}

// testReserveTwo: of two copies that no route had matched, and that a person puts back, one goes out.
func testReserveTwo(s *suite) {
	p := s.place()
	a, b := s.msg(1, "m"), s.msg(2, "m")
	a.Route, b.Route = "", ""
	regs := p.fates([]tasks.Entry{a, b}, tasks.New, tasks.New)
	p.finishAll(tasks.SkippedNoMatch)
	s.requeue(regs[0].TaskID, regs[1].TaskID)
	first, of := p.reserve(1, "m")
	if of != 0 {
		s.t.Errorf("the first is a duplicate of task %d, want of none", of)
	}
	if got := s.get(first.ID); got.Route != "desk" {
		s.t.Errorf("the route of what is reserved is %q, want desk", got.Route)
	}
	if _, of = p.reserve(2, "m"); of != first.ID {
		s.t.Errorf("the second is a duplicate of task %d, want of the first, %d", of, first.ID)
	}
	s.duplicate(regs[1].TaskID, first.ID)
	s.forwarded(first)
	p.claimed(1)
}

// testReserveDuplicate: a duplicate that is put back is one again while its original waits, and after that was forwarded.
func testReserveDuplicate(s *suite) {
	p := s.place()
	regs := p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m")}, tasks.New, tasks.Duplicate)
	original := p.claimed(1, 1)[0]
	for range 2 {
		s.requeue(regs[1].TaskID)
		if _, of := p.reserve(2, "m"); of != original.ID {
			s.t.Errorf("put back it is a duplicate of task %d, want of %d", of, original.ID)
		}
		if s.get(original.ID).Status == tasks.InProgress {
			s.forwarded(original)
		}
	}
	s.has(regs[1].TaskID, "requeued", "skipped", "requeued", "skipped")
}

// testReserveDead: what ended before anybody got it, and whose place another took, is a duplicate of that one.
func testReserveDead(s *suite) {
	p := s.place()
	p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m")}, tasks.New, tasks.Duplicate)
	gone := p.claimed(1, 1)[0]
	s.must("finish", s.Queue.Finish(s.ctx, gone.Receipt, tasks.Result{Status: tasks.Dead, Reason: "no", Route: "desk", Yields: true, Dedupe: p.dedupe}))
	heir, of := p.reserve(2, "m")
	if of != 0 || heir.Route != "" {
		s.t.Errorf("the heir is a duplicate of task %d and goes by %q; want it to be decided on anew", of, heir.Route)
	}
	s.forwarded(heir)
	s.requeue(gone.ID)
	if _, of := p.reserve(1, "m"); of != heir.ID {
		s.t.Errorf("put back it is a duplicate of task %d, want of its heir, %d", of, heir.ID)
	}
}

// testReserveSome: what some had got keeps them alone when another goes on for the rest: put back, it has nobody to go to.
func testReserveSome(s *suite) {
	p := s.place()
	p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m")}, tasks.New, tasks.Duplicate)
	c := p.claimed(1, 1)[0]
	ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Delivered}, {Recipient: "bob@example.com", Status: tasks.Pending}}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{
		Status: tasks.Dead, Reason: "gone", Route: "desk", Deliveries: ds, Yields: true, Dedupe: p.dedupe,
	}))
	if is := s.standing(p.claimed(1, 2)[0].ID); len(is) != 2 || is["ann@example.com"] != tasks.Delivered || is["bob@example.com"] != tasks.Pending {
		s.t.Errorf("the heir has %v, want ann delivered and bob pending", is)
	}
	s.requeue(c.ID)
	got := p.claimed(1, 1)[0]
	if len(got.Deliveries) != 1 || got.Deliveries[0].Recipient != "ann@example.com" || got.Deliveries[0].Status != tasks.Delivered || got.Route != "desk" {
		s.t.Errorf("put back it goes by %q to %+v, want ann alone, who has it", got.Route, got.Deliveries)
	}
}

// testReserveKilled: what was reserved stays so when its worker dies before it sends.
func testReserveKilled(s *suite) {
	p := s.place()
	a, b := s.msg(1, "m"), s.msg(2, "m")
	a.Route, b.Route = "", ""
	p.register(a, b)
	p.reserve(1, "m")
	if _, of := p.reserve(2, "m"); of == 0 {
		s.t.Error("the second is no duplicate, though the first is reserved")
	}
	s.Age(s.t, 2*lease)
	if c := p.claimed(1, 1)[0]; c.Route != "desk" || len(c.Deliveries) != 0 {
		s.t.Errorf("taken over, it goes by %q to %+v; want it reserved, and sent to nobody yet", c.Route, c.Deliveries)
	}
}

// testReserveUndecided: what is put back makes no duplicates before it is reserved again, and keeps no recipients that did not get it.
func testReserveUndecided(s *suite) {
	p := s.place()
	pending := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Failed, Code: 550}}
	dead := p.finished(tasks.Result{Status: tasks.Dead, Reason: "refused", Route: "desk", Deliveries: pending})
	s.requeue(dead.ID)
	if got := s.stands(dead.ID, tasks.Received); got.Route != "" || len(got.Deliveries) != 0 {
		s.t.Errorf("put back it goes by %q to %+v; want it to be decided on anew", got.Route, got.Deliveries)
	}
	other := p.fates([]tasks.Entry{s.msg(2, "m")}, tasks.New)[0].TaskID
	if _, of := p.reserve(1, "m"); of != other {
		s.t.Errorf("it is a duplicate of task %d, want of the one that came first to a route, %d", of, other)
	}
}

// testReserveRename: a duplicate's own duplicates are those of its original: it is that one whose place they may have to take.
func testReserveRename(s *suite) {
	p := s.place()
	dead := p.finished(tasks.Result{Status: tasks.Error, Route: "desk"})
	heir := p.fates([]tasks.Entry{s.msg(2, "m")}, tasks.Duplicate)[0].TaskID
	s.requeue(dead.ID)
	p.fates([]tasks.Entry{s.msg(3, "m")}, tasks.New)
	if _, of := p.reserve(1, "m"); of == 0 {
		s.t.Fatal("it is no duplicate of the one that came after it was put back")
	}
	original := p.claimed(1, 3)[0]
	s.duplicate(dead.ID, original.ID)
	s.duplicate(heir, original.ID)
}

// testSkipAccounts: what a person skipped accounts for equal messages, also once it is purged. Put back, it goes out.
func testSkipAccounts(s *suite) {
	p := s.place()
	id := p.register(s.msg(1, "m"))[0].TaskID
	if n, err := s.Queue.Skip(s.ctx, "ann", id); n != 1 || err != nil {
		s.t.Fatalf("skip: %d, %v; want 1", n, err)
	}
	junk := p.beside("Junk")
	copied := junk.fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	s.duplicate(copied, id)
	s.requeue(id)
	if c, of := p.reserve(1, "m"); of != 0 {
		s.t.Errorf("put back it is a duplicate of task %d, want it to go out", of)
	} else {
		s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Dead, Reason: "no", Route: "desk"}))
	}
	if n, err := s.Queue.Skip(s.ctx, "ann", id); n != 1 || err != nil {
		s.t.Fatalf("skip: %d, %v; want 1", n, err)
	}
	s.purgeAll(p.inbox)
	p.disposed([]tasks.Disposition{{UID: 1, TaskID: id, Status: tasks.Skipped, Purged: true}})
	p.beside("Archive").fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)
	s.place().fates([]tasks.Entry{s.msg(1, "m")}, tasks.New)
}

var disableTests = map[string]func(*suite){
	"disable/claims":     testDisableClaims,
	"disable/place":      testDisablePlace,
	"disable/some have":  testDisableSome,
	"disable/all":        testDisableAll,
	"disable/registered": testDisableRegistered,
}

func (p place) disable(forGood bool) {
	p.t.Helper()
	p.must("disable", p.Queue.Disable(p.ctx, "ann", p.inbox, forGood))
}

// testDisableClaims: what is being worked on, and nobody got, can be sent no more; nothing is claimed until the inbox is enabled.
func testDisableClaims(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m"), s.msg(2, "n"))
	c := p.claimed(1, 1)[0]
	for range 2 { // doing it twice changes nothing
		p.disable(false)
	}
	err := s.Queue.Sending(s.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Sending}})
	s.wantErr("say to whom it goes", err, tasks.ErrLeaseLost)
	if got := s.stands(c.ID, tasks.Received); got.Attempts != 0 || got.Route != "" {
		s.t.Errorf("it has %d attempts and the route %q; want neither", got.Attempts, got.Route)
	}
	s.has(c.ID, "released", "conflict")
	p.claimed(10)
	s.Enable(s.t, p.inbox)
	if _, of := p.reserve(2, "n"); of != 0 {
		s.t.Errorf("it is a duplicate of task %d, want of none", of)
	}
	p.reserve(1, "m")
}

// testDisablePlace: a duplicate in another inbox takes the place, and what waited is its duplicate when the inbox is enabled.
func testDisablePlace(s *suite) {
	p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	original := p.register(s.msg(1, "m"))[0].TaskID
	here := p.fates([]tasks.Entry{s.msg(2, "m")}, tasks.Duplicate)[0].TaskID
	there := q.fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	p.disable(false)
	s.has(there, "requeued")
	s.duplicate(here, there)
	heir, of := q.reserve(1, "m")
	if heir.ID != there || of != 0 {
		s.t.Errorf("task %d is a duplicate of %d, want task %d to go out", heir.ID, of, there)
	}
	s.forwarded(heir)
	s.Enable(s.t, p.inbox)
	if c, of := p.reserve(1, "m"); c.ID != original || of != there {
		s.t.Errorf("enabled again, task %d is a duplicate of %d; want task %d of %d", c.ID, of, original, there)
	}
}

// testDisableSome: what some have got waits for its inbox with its place; for good, another goes on for the others.
func testDisableSome(s *suite) {
	for _, forGood := range []bool{false, true} {
		p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
		content := map[bool]string{false: "a", true: "b"}[forGood]
		p.register(s.msg(1, content))
		copied := q.fates([]tasks.Entry{s.msg(1, content)}, tasks.Duplicate)[0].TaskID
		c := p.claimed(1, 1)[0]
		ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Delivered}, {Recipient: "bob@example.com", Status: tasks.Pending}}
		s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, ds))
		p.disable(forGood)
		if !forGood {
			s.duplicate(copied, c.ID)
			s.forwarded(c) // its claim is good
			continue
		}
		if heir := q.claimed(1, 1)[0]; heir.Route != "desk" || !slices.Equal(outcomes(heir.Deliveries), outcomes(s.get(copied).Deliveries)) || len(heir.Deliveries) != 2 {
			s.t.Errorf("the heir goes by %q to %+v, want the route and the deliveries of what is removed", heir.Route, heir.Deliveries)
		}
		if is := s.standing(c.ID); len(is) != 1 || is["ann@example.com"] != tasks.Delivered {
			s.t.Errorf("what is removed still has %v, want ann alone, who has it", is)
		}
	}
}

// testDisableAll: when nobody can take the place now, each duplicate waits for its own inbox alone.
func testDisableAll(s *suite) {
	p, q, r := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	p.register(s.msg(1, "m"))
	second := q.fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	third := r.fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	q.disable(false)
	r.disable(false)
	p.disable(false)
	s.stands(second, tasks.Received)
	s.stands(third, tasks.Received)
	s.Enable(s.t, r.inbox)
	c, of := r.reserve(1, "m")
	if c.ID != third || of != 0 {
		s.t.Errorf("task %d is a duplicate of %d; want task %d to go out, whose inbox is in use", c.ID, of, third)
	}
	s.Enable(s.t, q.inbox)
	if _, of := q.reserve(1, "m"); of != third {
		s.t.Errorf("the other is a duplicate of task %d, want of %d", of, third)
	}
}

// testDisableRegistered: what is registered in an inbox out of use keeps nobody else from forwarding it.
func testDisableRegistered(s *suite) {
	p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	p.finished(vanished)
	p.disable(false)
	p = p.anew()
	regs := p.fates([]tasks.Entry{s.msg(3, "n"), s.msg(4, "m")}, tasks.New, tasks.Moved)
	for _, r := range regs {
		if got := s.stands(r.TaskID, tasks.Received); got.Route != "" {
			s.t.Errorf("task %d goes by %q, want no route", r.TaskID, got.Route)
		}
	}
	q.fates([]tasks.Entry{s.msg(1, "n"), s.msg(2, "m")}, tasks.New, tasks.New)
	s.Age(s.t, time.Second)
	q.claimed(10, 1, 2)
	p.claimed(10)
}
