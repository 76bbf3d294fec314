package taskstest

import (
	"slices"
	"time"

	"postrider/internal/tasks"
)

var purgeTests = map[string]func(*suite){
	"purge/by a person":      testPurge,
	"purge/stays known":      testPurgeKnown,
	"purge/found by content": testPurgeFoundByContent,
	"purge/duplicate":        testPurgeDuplicate,
	"purge/counted":          testPurgeCounted,
	"expire":                 testExpire,
	"expire/portions":        testExpirePortions,
	"expire/events":          testExpireEvents,
	"expire/doubt":           testExpireDoubt,
}

// vanished is the end of a task whose message is not there any more.
var vanished = tasks.Result{Status: tasks.Skipped, Reason: tasks.VanishedPrefix + "expunged", Yields: true}

// purged deletes a task by a person's word.
func (s *suite) purged(ids ...int64) {
	s.t.Helper()
	if n, err := s.Queue.Purge(s.ctx, "ann", ids...); n != len(ids) || err != nil {
		s.t.Fatalf("purge of %d tasks: %d, %v", len(ids), n, err)
	}
}

// testPurge: the task goes, once; its trail stays and says who did it. testTransitions has the states it may be in.
func testPurge(s *suite) {
	ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Failed}}
	p := s.place()
	p.register(s.msg(2, "other"))
	other := p.claimed(1, 2)[0]
	c := p.finished(tasks.Result{Status: tasks.Dead, Reason: "550", Route: "desk", Deliveries: ds})
	s.purged(c.ID)
	_, err := s.Queue.Get(s.ctx, c.ID)
	s.wantErr("get a purged task", err, tasks.ErrNotFound)
	s.byAnn(c.ID, "dead", "purged")
	if n, err := s.Queue.Purge(s.ctx, "ann", c.ID, other.ID, 1<<40); n != 0 || err != nil {
		s.t.Errorf("purge of what is gone, in progress, or never was: %d, %v; want 0", n, err)
	}
	s.byAnn(c.ID, "dead", "purged")
	s.has(other.ID)
	if uids := p.list(tasks.Filter{}); !slices.Equal(uids, []uint32{2}) {
		s.t.Errorf("left are the UIDs %v, want 2", uids)
	}
}

// testPurgeKnown: what was seen stays known, in this epoch and the next. Only what was forwarded makes duplicates, and only what had vanished is
// new when it shows up again.
func testPurgeKnown(s *suite) {
	for _, c := range []struct {
		name             string
		res              tasks.Result
		elsewhere, after tasks.Fate
	}{
		{"forwarded", tasks.Result{Status: tasks.Forwarded, Route: "desk"}, tasks.Duplicate, tasks.Known},
		{"dead", tasks.Result{Status: tasks.Dead, Route: "desk"}, tasks.New, tasks.Known},
		{"skipped", tasks.Result{Status: tasks.Skipped, Route: "desk", Reason: "loop"}, tasks.New, tasks.Known},
		{"without a match", tasks.Result{Status: tasks.SkippedNoMatch}, tasks.New, tasks.Known},
		{"vanished", vanished, tasks.New, tasks.New},
	} {
		p := s.place()
		task := p.finished(c.res)
		s.purged(task.ID)
		if got := p.register(s.msg(1, "m"))[0]; got.Fate != tasks.Known || got.TaskID != task.ID {
			s.t.Errorf("%s, purged, registered again: %+v; want it known, as task %d", c.name, got, task.ID)
		}
		next := p.anew()
		if got := next.register(s.msg(5, "m"))[0]; got.Fate != c.after {
			s.t.Errorf("%s, purged, in a new epoch: fate %d, want %d", c.name, got.Fate, c.after)
		}
		q := s.place() // with nothing else alike
		task = q.finished(c.res)
		s.purged(task.ID)
		if got := q.beside("Junk").register(s.msg(1, "m"))[0]; got.Fate != c.elsewhere {
			s.t.Errorf("%s, purged, an equal message in another folder: fate %d, want %d", c.name, got.Fate, c.elsewhere)
		}
	}
}

// testPurgeCounted: once each, however often they were found again, of the inbox and of the time that is asked for.
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
	forwarded := tasks.Result{Status: tasks.Forwarded, Route: "desk"}
	s.purged(p.finished(forwarded).ID)
	p.anew().register(s.msg(5, "m"))
	dead := other.finished(tasks.Result{Status: tasks.Dead, Route: "desk"})
	id := other.register(s.msg(2, "other"))[0].TaskID
	s.must("finish", s.Queue.Finish(s.ctx, other.claimed(1, 2)[0].Receipt, forwarded))
	s.purged(id)
	counted(time.Hour, 1, 1)
	counted(-time.Hour, 0, 0) // in the time to come
	s.purged(dead.ID)
	counted(time.Hour, 1, 2)
}

// testPurgeFoundByContent: a task that was registered unread, found again by its content, and died makes no duplicate of an equal message.
func testPurgeFoundByContent(s *suite) {
	p := s.place()
	id := p.register(s.unread(1, "m", ""))[0].TaskID
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(2, "m")}, tasks.Moved)
	p.finishAll(tasks.Dead)
	s.purged(id)
	p.disposed([]tasks.Disposition{{UID: 2, TaskID: id, Status: tasks.Dead, Purged: true}})
	p.beside("Junk").fates([]tasks.Entry{s.msg(1, "m")}, tasks.New)
}

// testPurgeDuplicate: a duplicate may have to take the place of its original, until that has ended.
func testPurgeDuplicate(s *suite) {
	p := s.place()
	regs := p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m")}, tasks.New, tasks.Duplicate)
	for _, state := range []tasks.Status{tasks.Received, tasks.InProgress, tasks.Error, tasks.Uncertain} {
		if state != tasks.Received {
			c := p.claimed(1, 1)[0]
			if state != tasks.InProgress {
				s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: state, Route: "desk"}))
			}
			s.Age(s.t, lease+time.Second)
		}
		if n, err := s.Queue.Purge(s.ctx, "ann", regs[1].TaskID); n != 0 || err != nil {
			s.t.Fatalf("purge of the duplicate of a task that is %s: %d, %v; want 0", state, n, err)
		}
	}
	s.has(regs[1].TaskID)
	if n, err := s.Queue.Resolve(s.ctx, "ann", regs[0].TaskID); n != 1 || err != nil {
		s.t.Fatalf("resolve: %d, %v", n, err)
	}
	s.purged(regs[1].TaskID, regs[0].TaskID)
}

// purge deletes the forwarded tasks of the inbox.
func (p place) purge() {
	p.t.Helper()
	_, err := p.Queue.Expire(p.ctx, p.inbox, -time.Hour, 1_000_000)
	p.must("expire", err)
}

// testExpire: forwarded tasks that ended so long ago go, with their deliveries; all others stay, and so does the trail.
func testExpire(s *suite) {
	for _, status := range tasks.Statuses {
		p, c := s.bring(status)
		elsewhere, other := s.bring(tasks.Forwarded)
		before := s.record(c.ID)
		if n, err := s.Queue.Expire(s.ctx, p.inbox, time.Hour, 100); n != 0 || err != nil {
			s.t.Errorf("a task that is %s, since now: %d expired, %v; want none", status, n, err)
		}
		s.Age(s.t, 2*time.Hour)
		want := map[bool]int{status == tasks.Forwarded: 1}[true]
		if n, err := s.Queue.Expire(s.ctx, p.inbox, time.Hour, 100); n != want || err != nil {
			s.t.Errorf("a task that is %s, since two hours: %d expired, %v; want %d", status, n, err, want)
		}
		after := s.record(c.ID)
		if after.gone != (want == 1) || len(after.events) != len(before.events) {
			s.t.Errorf("a task that was %s is gone: %t, events %+v; want only forwarded ones gone, and events kept", status, after.gone, after.events)
		}
		if s.record(other.ID).gone {
			s.t.Errorf("a task of inbox %d expired with those of inbox %d", elsewhere.inbox, p.inbox)
		}
	}
}

func testExpirePortions(s *suite) {
	p := s.place()
	for uid := uint32(5); uid > 0; uid-- { // the last one ends first
		p.register(s.msg(uid, string(rune('a'+uid))))
		p.finishAll(tasks.Forwarded)
		s.Age(s.t, time.Second)
	}
	for _, left := range [][]uint32{{3, 2, 1}, {1}, nil, nil} {
		before := len(p.list(tasks.Filter{}))
		n, err := s.Queue.Expire(s.ctx, p.inbox, 0, 2)
		if got := p.list(tasks.Filter{}); err != nil || n != before-len(left) || !slices.Equal(got, left) {
			s.t.Fatalf("expired %d, %v, left %v; want the two that ended first gone, %v left", n, err, got, left)
		}
	}
}

// testExpireEvents: lines of the trail go by their age, oldest first, of whatever inbox.
func testExpireEvents(s *suite) {
	_, err := s.Queue.ExpireEvents(s.ctx, -time.Hour, 1_000_000) // those of other tests
	s.must("expire events", err)
	var old []int64
	for range 5 {
		_, c := s.bring(tasks.Dead)
		old = append(old, c.ID)
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
	s.has(young.ID, "dead")
	s.stands(old[0], tasks.Dead)
}

// testExpireDoubt: that an outcome was unknown is known until the task is forwarded or purged, however long a person takes.
func testExpireDoubt(s *suite) {
	expire := func(want int) {
		s.t.Helper()
		s.Age(s.t, 2*time.Hour)
		if n, err := s.Queue.ExpireEvents(s.ctx, time.Hour, 1_000_000); n != want || err != nil {
			s.t.Fatalf("%d lines expired, %v; want %d", n, err, want)
		}
	}
	_, err := s.Queue.ExpireEvents(s.ctx, -time.Hour, 1_000_000) // those of other tests
	s.must("expire events", err)
	p, c := s.bring(tasks.Uncertain)
	expire(0)
	s.requeue(c.ID)
	expire(1)
	s.has(c.ID, "uncertain")
	again := p.claimed(1, c.UID)[0]
	s.must("finish", s.Queue.Finish(s.ctx, again.Receipt, tasks.Result{Status: tasks.Dead, Reason: "no", Route: "desk"}))
	expire(1)
	s.has(c.ID, "uncertain")
	s.requeue(c.ID)
	s.forwarded(p.claimed(1, c.UID)[0])
	expire(2)
	s.has(c.ID)
	_, c = s.bring(tasks.Uncertain)
	if n, err := s.Queue.Skip(s.ctx, "ann", c.ID); n != 1 || err != nil {
		s.t.Fatalf("skip: %d, %v; want 1", n, err)
	}
	if n, err := s.Queue.Purge(s.ctx, "ann", c.ID); n != 1 || err != nil {
		s.t.Fatalf("purge: %d, %v; want 1", n, err)
	}
	expire(3)
	s.has(c.ID)
}
