package taskstest

import (
	"fmt"
	"sync/atomic"

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
	"race/reserve":                  testRaceReserve,
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

// testRaceReserve: of equal messages that nobody had a route for, and that are reserved at once, one is.
func testRaceReserve(s *suite) {
	for _, dedupe := range []tasks.Dedupe{tasks.DedupeInbox, tasks.DedupeAll} {
		for round := range 3 {
			content := fmt.Sprint(dedupe, round)
			p := s.place().under(dedupe)
			var claims []tasks.Claim
			for uid := range uint32(6) {
				if dedupe == tasks.DedupeAll {
					p = s.place().under(dedupe)
				}
				e := s.msg(uid+1, content)
				e.Route = ""
				p.register(e)
				claims = append(claims, p.claimed(1, uid+1)...)
			}
			var reserved atomic.Int64
			s.together(len(claims), func(i int, q tasks.Queue) {
				of, err := q.Identify(s.ctx, claims[i].Receipt, s.msg(claims[i].UID, content), dedupe)
				if err != nil {
					s.t.Errorf("reserve: %v", err)
				}
				if of == 0 {
					reserved.Add(1)
				}
			})
			if n := reserved.Load(); n != 1 {
				s.t.Errorf("dedupe %s: %d of %d equal messages are reserved, want 1", dedupe, n, len(claims))
			}
		}
	}
}
