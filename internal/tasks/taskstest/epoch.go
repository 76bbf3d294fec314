package taskstest

import (
	"time"

	"postrider/internal/tasks"
)

var epochTests = map[string]func(*suite){
	"epoch/moved":           testMoved,
	"epoch/equal messages":  testMovedEqual,
	"epoch/missed":          testMissed,
	"epoch/unfinished":      testMovedUnfinished,
	"epoch/several":         testMovedTwice,
	"epoch/purged":          testMovedPurged,
	"epoch/baseline":        testMovedBaseline,
	"epoch/too large":       testMovedTooLarge,
	"epoch/poison read":     testMovedPoison,
	"epoch/other folder":    testMovedElsewhere,
	"epoch/unreconciled":    testUnreconciled,
	"epoch/dry run":         testMovedDryRun,
	"epoch/dedupe is off":   testMovedOff,
	"epoch/registered once": testMovedOnce,
}

// testMoved: a folder is made anew with the messages it had and new ones. Exactly the new ones are new.
func testMoved(s *suite) {
	p := s.place()
	before := p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
	p.finishAll(tasks.Forwarded)
	p = p.anew()
	after := p.fates([]tasks.Entry{s.msg(1, "c"), s.msg(2, "new"), s.msg(7, "a"), s.msg(9, "b")},
		tasks.Moved, tasks.New, tasks.Moved, tasks.Moved)
	if after[0].TaskID != before[2].TaskID || after[2].TaskID != before[0].TaskID || after[3].TaskID != before[1].TaskID {
		s.t.Errorf("tasks %v after, %v before; want each message to find its own", after, before)
	}
	if got := s.stands(before[1].TaskID, tasks.Forwarded); got.UID != 9 || got.Epoch != p.epoch {
		s.t.Errorf("the task is of UID %d in epoch %d; want where its message is now, 9 in %d", got.UID, got.Epoch, p.epoch)
	}
	p.claimed(10, 2)
}

// finishAll works off what is due.
func (p place) finishAll(as tasks.Status) {
	p.t.Helper()
	for _, c := range p.receive(100) {
		p.must("finish", p.Queue.Finish(p.ctx, c.Receipt, tasks.Result{Status: as, Route: "desk"}))
	}
}

// testMovedEqual: two equal messages find two tasks, one each, in one page and in several.
func testMovedEqual(s *suite) {
	for _, pages := range [][][]uint32{{{4, 5, 6}}, {{4}, {5}, {6}}} {
		p := s.place()
		before := p.fates([]tasks.Entry{s.msg(1, "a"), s.msg(2, "a")}, tasks.New, tasks.Duplicate)
		p.finishAll(tasks.Forwarded)
		p = p.anew()
		var after []tasks.Registration
		for _, uids := range pages {
			var page []tasks.Entry
			for _, uid := range uids {
				page = append(page, s.msg(uid, "a"))
			}
			after = append(after, p.register(page...)...)
		}
		if after[0].Fate != tasks.Moved || after[1].Fate != tasks.Moved || after[2].Fate != tasks.Duplicate {
			s.t.Errorf("pages %v: %v; want two that moved and a duplicate", pages, after)
		}
		if after[0].TaskID != before[0].TaskID || after[1].TaskID != before[1].TaskID {
			s.t.Errorf("pages %v: %v, before %v; want one task each, in order", pages, after, before)
		}
	}
}

// testMovedUnfinished: a task that is not finished finds its message again, is claimed there, and goes on.
func testMovedUnfinished(s *suite) {
	p := s.place()
	p.register(s.msg(1, "due"), s.msg(2, "held"), s.msg(3, "late"))
	claims := p.claimed(3, 1, 2, 3)
	s.must("release", s.Queue.Release(s.ctx, claims[0], "stopped", 0, nil))
	s.must("finish", s.Queue.Finish(s.ctx, claims[2].Receipt, tasks.Result{Status: tasks.Error, Route: "desk", Delay: time.Hour}))
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(11, "due"), s.msg(12, "held"), s.msg(13, "late")}, tasks.Moved, tasks.Moved, tasks.Moved)
	p.claimed(10, 11)
	s.must("finish by the holder", s.Queue.Finish(s.ctx, claims[1].Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk"}))
	if got := s.stands(claims[1].ID, tasks.Forwarded); got.UID != 12 {
		s.t.Errorf("UID %d, want 12", got.UID)
	}
	s.Age(s.t, time.Hour+time.Second)
	claims = p.receive(10)
	if len(claims) == 0 || !hasUID(claims, 13) && !claims[0].Alone {
		s.t.Errorf("claimed %v, want the task that was to be tried again", claims)
	}
}

func hasUID(claims []tasks.Claim, uid uint32) bool {
	for _, c := range claims {
		if c.UID == uid {
			return true
		}
	}
	return false
}

func testMovedTwice(s *suite) {
	p := s.place()
	id := p.register(s.msg(1, "a"))[0].TaskID
	for uid := uint32(2); uid < 6; uid++ {
		p = p.anew()
		if r := p.fates([]tasks.Entry{s.msg(uid, "a")}, tasks.Moved)[0]; r.TaskID != id {
			s.t.Fatalf("epoch %d: task %d, want %d", p.epoch, r.TaskID, id)
		}
	}
	p.claimed(10, 5)
}

// testMovedPurged: purging must never let a mailbox be forwarded again.
func testMovedPurged(s *suite) {
	p := s.place()
	id := p.register(s.msg(1, "a"))[0].TaskID
	p.finishAll(tasks.Forwarded)
	p.purge()
	_, err := s.Queue.Get(s.ctx, id)
	s.wantErr("get a purged task", err, tasks.ErrNotFound)
	p.fates([]tasks.Entry{s.msg(1, "a")}, tasks.Known)
	p.beside("Junk").fates([]tasks.Entry{s.msg(1, "a")}, tasks.Duplicate)
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(4, "a"), s.msg(5, "a")}, tasks.Known, tasks.Duplicate)
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(6, "a"), s.msg(7, "a"), s.msg(8, "a")}, tasks.Known, tasks.Moved, tasks.Duplicate)
	p.claimed(10)
}

func testMovedBaseline(s *suite) {
	p := s.place()
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(1, "a", ""), s.unread(2, "b", ""))))
	for range 2 {
		p = p.anew()
		p.fates([]tasks.Entry{s.msg(3, "a"), s.msg(4, "b"), s.msg(5, "c")}, tasks.Known, tasks.Known, fate(p.epoch == epoch+1, tasks.New, tasks.Moved))
	}
	p.claimed(10, 5)
}

func fate(is bool, then, otherwise tasks.Fate) tasks.Fate {
	if is {
		return then
	}
	return otherwise
}

// testMovedTooLarge: what was skipped for its size stays skipped, also when forward.max_size allows it by now.
func testMovedTooLarge(s *suite) {
	p := s.place()
	p.register(s.unread(1, "a", "too_large"), s.unread(2, "b", "too_large"))
	p = p.anew()
	p.fates([]tasks.Entry{s.unread(3, "a", "too_large"), s.msg(4, "b")}, tasks.Moved, tasks.Moved)
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(5, "a"), s.msg(6, "b")}, tasks.Moved, tasks.Moved)
	p.claimed(10)
}

// testMovedPoison: a message that could not be read was registered by its outline, and can be read now.
func testMovedPoison(s *suite) {
	p := s.place()
	id := p.register(s.unread(1, "a", ""))[0].TaskID
	p.finishAll(tasks.Forwarded)
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(3, "a")}, tasks.Moved)
	p = p.anew()
	if r := p.fates([]tasks.Entry{s.msg(4, "a")}, tasks.Moved)[0]; r.TaskID != id {
		s.t.Errorf("task %d, want %d", r.TaskID, id)
	}
}

// testMovedElsewhere: an older epoch of another folder is nothing to this one.
func testMovedElsewhere(s *suite) {
	p := s.place().under(tasks.DedupeOff)
	p.register(s.msg(1, "a"))
	other := p.beside("Junk").anew()
	other.fates([]tasks.Entry{s.msg(1, "a")}, tasks.New)
}

func testUnreconciled(s *suite) {
	p := s.place()
	waits := func(want bool) {
		s.t.Helper()
		got, err := s.Queue.Unreconciled(s.ctx, p.folder, p.epoch)
		s.must("unreconciled", err)
		if got != want {
			s.t.Fatalf("unreconciled %t, want %t", got, want)
		}
	}
	waits(false)
	p.register(s.msg(1, "a"), s.msg(2, "b"))
	waits(false)
	p.finishAll(tasks.Forwarded)
	p.register(s.msg(3, "c"))
	p = p.anew()
	waits(true)
	junk := p.beside("Junk")
	if got, err := s.Queue.Unreconciled(s.ctx, junk.folder, junk.epoch); got || err != nil {
		s.t.Fatalf("unreconciled in another folder: %t, %v", got, err)
	}
	p.register(s.msg(9, "c"))
	waits(false) // the others have ended
}

func testMovedDryRun(s *suite) {
	p := s.place()
	id := p.register(s.msg(1, "a"))[0].TaskID
	p = p.anew()
	page := p.page(s.msg(2, "a"))
	page.DryRun = true
	regs, err := s.Queue.Register(s.ctx, page)
	if err != nil || len(regs) != 1 || regs[0].Fate != tasks.Moved {
		s.t.Fatalf("dry run: %v, %v; want one that moved", regs, err)
	}
	if got := s.get(id); got.UID != 1 {
		s.t.Errorf("a dry run moved the task to UID %d", got.UID)
	}
}

func testMovedOff(s *suite) {
	p := s.place().under(tasks.DedupeOff)
	p.register(s.msg(1, "a"), s.msg(2, "a"))
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(1, "a"), s.msg(2, "a"), s.msg(3, "a")}, tasks.Moved, tasks.Moved, tasks.New)
}

func testMovedOnce(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"))
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(2, "a")}, tasks.Moved)
	p.fates([]tasks.Entry{s.msg(2, "a")}, tasks.Known)
}

// testMissed: a message that is missed at one place and has been found again at another meanwhile has not vanished.
func testMissed(s *suite) {
	p := s.place()
	c := p.claim()
	p = p.anew()
	p.fates([]tasks.Entry{s.msg(5, "m")}, tasks.Moved)
	s.wantErr("finish as vanished", s.Queue.Finish(s.ctx, c.Receipt, tasks.Vanished(c.Task, "gone")), tasks.ErrMoved)
	s.has(c.ID)
	s.must("release", s.Queue.Release(s.ctx, c, "", 0, nil))
	again := p.claimed(1, 5)[0]
	s.must("finish as vanished", s.Queue.Finish(s.ctx, again.Receipt, tasks.Vanished(again.Task, "gone")))
	s.stands(c.ID, tasks.Skipped)
}
