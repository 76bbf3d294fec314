package taskstest

import (
	"slices"
	"time"

	"postrider/internal/tasks"
)

var purgeTests = map[string]func(*suite){
	"purge/by an operator":   testPurge,
	"purge/stays known":      testPurgeKnown,
	"purge/found by content": testPurgeFoundByContent,
	"purge/counted":          testPurgeCounted,
	"expire":                 testExpire,
	"expire/portions":        testExpirePortions,
	"expire/many inboxes":    testExpireOfMany,
	"expire/events":          testExpireEvents,
}

// testPurge: the task goes, once; its trail stays and says who did it. testTransitions has the
// states it may be in.
func testPurge(s *suite) {
	p := s.place()
	p.register(s.msg(2, "other"))
	other := p.claimed(1, 2)[0]
	id := p.finished(tasks.Dead).Task.ID
	s.purge(id)
	_, err := s.Queue.Get(s.ctx, id)
	s.wantErr("get a purged task", err, tasks.ErrNotFound)
	s.lastByAnn(id, "dead", "purged")
	if n, err := s.Queue.Purge(s.ctx, operatorAnn, id, other.Task.ID, 1<<40); n != 0 || err != nil {
		s.t.Errorf("purge of what is gone, in progress, or never was: %d, %v; want 0", n, err)
	}
	s.lastByAnn(id, "dead", "purged")
	s.has(other.Task.ID)
	if uids := p.list(tasks.Filter{}); !slices.Equal(uids, []uint32{2}) {
		s.t.Errorf("left are the UIDs %v, want 2", uids)
	}
}

// testPurgeKnown: what was seen stays known, in this epoch and the next. Only what was delivered,
// or what an operator skipped, makes duplicates, and only what had vanished is new when it shows up
// again.
func testPurgeKnown(s *suite) {
	finish := func(status tasks.Status) func(tasks.Claim) { return func(c tasks.Claim) { s.finish(c, status) } }
	for _, c := range []struct {
		name             string
		end              func(tasks.Claim)
		elsewhere, after string
	}{
		{"forwarded", finish(tasks.Forwarded), "duplicate", "known"},
		{"dead", finish(tasks.Dead), "new", "known"},
		{"dead, and it may have arrived", func(c tasks.Claim) {
			res := ending(c, tasks.Uncertain)
			res.Status = tasks.Dead
			s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
		}, "duplicate", "known"},
		{"skipped", finish(tasks.Skipped), "new", "known"},
		{"skipped by an operator", func(c tasks.Claim) {
			s.finish(c, tasks.Error)
			s.skip(c.Task.ID)
		}, "duplicate", "known"},
		{"vanished", s.vanish, "new", "new"},
	} {
		p := s.place()
		task := p.claim()
		c.end(task)
		s.purge(task.Task.ID)
		if r := p.became([]tasks.Entry{s.msg(1, "m")}, "known")[0]; r.TaskID != task.Task.ID {
			s.t.Errorf("%s, purged, registered again: task %d, want %d", c.name, r.TaskID, task.Task.ID)
		}
		if got := s.fate(p.renewed().register(s.msg(5, "m"))[0]); got != c.after {
			s.t.Errorf("%s, purged, in a new epoch: %s, want %s", c.name, got, c.after)
		}
		p = s.place() // with nothing else alike
		task = p.claim()
		c.end(task)
		s.purge(task.Task.ID)
		if got := s.fate(p.beside("Junk").register(s.msg(1, "m"))[0]); got != c.elsewhere {
			s.t.Errorf("%s, purged, an equal message in another folder: %s, want %s", c.name, got, c.elsewhere)
		}
	}
}

// testPurgeCounted: once each, however often they were found again, of the inbox and of the time
// that is asked for.
func testPurgeCounted(s *suite) {
	p, other := s.place(), s.place()
	counted := func(within time.Duration, want, wantOther int) {
		s.t.Helper()
		for inbox, want := range map[int64]int{p.inbox: want, other.inbox: wantOther} {
			if n, err := s.Queue.Purged(s.ctx, inbox, within); n != want || err != nil {
				s.t.Errorf("purged tasks of inbox %d within %v: %d, %v; want %d", inbox, within, n, err, want)
			}
		}
	}
	counted(time.Hour, 0, 0)
	s.purge(p.finished(tasks.Forwarded).Task.ID)
	p.renewed().register(s.msg(5, "m"))
	dead := other.finished(tasks.Dead).Task.ID
	id := other.added(s.msg(2, "other"))
	s.finish(other.claimed(1, 2)[0], tasks.Forwarded)
	s.purge(id)
	counted(time.Hour, 1, 1)
	counted(-time.Hour, 0, 0) // in the time to come
	s.purge(dead)
	counted(time.Hour, 1, 2)
}

// testPurgeFoundByContent: a task that was registered unread, found again by its content, and died
// makes no duplicate of an equal message.
func testPurgeFoundByContent(s *suite) {
	p := s.place()
	id := p.added(s.unread(1, "m"))
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(2, "m")}, "moved")
	s.finish(p.claimed(1, 2)[0], tasks.Dead)
	s.purge(id)
	p.disposed([]tasks.Disposition{{UID: 2, TaskID: id, Status: tasks.Dead, Purged: true}})
	p.beside("Junk").became([]tasks.Entry{s.msg(1, "m")}, "new")
}

// purgeForwarded deletes the forwarded tasks of the inbox.
func (p place) purgeForwarded() {
	p.t.Helper()
	_, err := p.Queue.Expire(p.ctx, []int64{p.inbox}, -time.Hour, 1_000_000)
	p.must("expire", err)
}

// testExpire: forwarded tasks that ended so long ago go; all others stay, and so does the trail.
func testExpire(s *suite) {
	for _, status := range tasks.Statuses {
		p, c := s.bring(status)
		elsewhere, other := s.bring(tasks.Forwarded)
		before := s.record(c.Task.ID)
		if n, err := s.Queue.Expire(s.ctx, []int64{p.inbox}, time.Hour, 100); n != 0 || err != nil {
			s.t.Errorf("a task that is %s, since now: %d expired, %v; want none", status, n, err)
		}
		s.Age(s.t, 2*time.Hour)
		want := map[bool]int{status == tasks.Forwarded: 1}[true]
		if n, err := s.Queue.Expire(s.ctx, []int64{p.inbox}, time.Hour, 100); n != want || err != nil {
			s.t.Errorf("a task that is %s, since two hours: %d expired, %v; want %d", status, n, err, want)
		}
		after := s.record(c.Task.ID)
		if after.gone != (want == 1) || len(after.events) != len(before.events) {
			s.t.Errorf("a task that was %s is gone: %t, events %+v; want only forwarded ones gone, and events kept",
				status, after.gone, after.events)
		}
		if s.record(other.Task.ID).gone {
			s.t.Errorf("a task of inbox %d expired with those of inbox %d", elsewhere.inbox, p.inbox)
		}
	}
}

func testExpirePortions(s *suite) {
	p := s.place()
	for uid := uint32(5); uid > 0; uid-- { // the last one ends first
		p.register(s.msg(uid, string(rune('a'+uid))))
		p.work()
		s.Age(s.t, time.Second)
	}
	for _, left := range [][]uint32{{3, 2, 1}, {1}, nil, nil} {
		before := len(p.list(tasks.Filter{}))
		n, err := s.Queue.Expire(s.ctx, []int64{p.inbox}, 0, 2)
		if got := p.list(tasks.Filter{}); err != nil || n != before-len(left) || !slices.Equal(got, left) {
			s.t.Fatalf("expired %d, %v, left %v; want the two that ended first gone, %v left", n, err, got, left)
		}
	}
}

// testExpireOfMany: the limit is for all inboxes together, and each loses its oldest tasks first.
func testExpireOfMany(s *suite) {
	a, b, other := s.place(), s.place(), s.place()
	for uid := uint32(1); uid <= 3; uid++ {
		for _, p := range []place{a, b, other} {
			p.register(s.msg(uid, string(rune('a'+uid))))
			p.work()
		}
		s.Age(s.t, time.Second)
	}
	for _, left := range []int{2, 0, 0} {
		n, err := s.Queue.Expire(s.ctx, []int64{b.inbox, a.inbox}, 0, 4)
		inA, inB := a.list(tasks.Filter{}), b.list(tasks.Filter{})
		if err != nil || len(inA)+len(inB) != left || n > 4 {
			s.t.Fatalf("expired %d, %v, left %v and %v; want %d left of both", n, err, inA, inB, left)
		}
		for _, uids := range [][]uint32{inA, inB} {
			if !slices.Equal(uids, []uint32{1, 2, 3}[3-len(uids):]) {
				s.t.Errorf("%v are left, want the oldest to go first", uids)
			}
		}
	}
	if left := other.list(tasks.Filter{}); len(left) != 3 {
		s.t.Errorf("%v are left of an inbox that was not asked for, want all three", left)
	}
}

// testExpireEvents: lines of the trail go by their age, oldest first, of whatever inbox. One that
// was written while the clock was ahead does not keep the others.
func testExpireEvents(s *suite) {
	_, err := s.Queue.ExpireEvents(s.ctx, -time.Hour, 1_000_000) // those of other tests
	s.must("expire events", err)
	_, ahead := s.bring(tasks.Dead)
	s.Age(s.t, -24*time.Hour)
	var old []int64
	for range 5 {
		_, c := s.bring(tasks.Dead)
		old = append(old, c.Task.ID)
	}
	s.Age(s.t, 2*time.Hour)
	_, young := s.bring(tasks.Dead)
	for i, want := range []int{2, 2, 1, 0} {
		n, err := s.Queue.ExpireEvents(s.ctx, time.Hour, 2)
		if n != want || err != nil {
			s.t.Fatalf("portion %d: %d lines expired, %v; want %d", i, n, err, want)
		}
		for j, id := range old {
			if gone := len(s.events(id)) == 0; gone != (j < 2*(i+1)) {
				s.t.Errorf("after portion %d, line %d of 5 is gone: %t; want the oldest to go first", i, j, gone)
			}
		}
	}
	s.has(young.Task.ID, "dead")
	s.has(ahead.Task.ID, "dead")
	s.stands(old[0], tasks.Dead)
}
