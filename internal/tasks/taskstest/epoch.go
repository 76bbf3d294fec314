package taskstest

import (
	"context"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var epochTests = map[string]func(*suite){
	"epoch/moved":           testMoved,
	"epoch/equal messages":  testMovedEqual,
	"epoch/needed first":    testMovedNeeded,
	"epoch/missed":          testMissed,
	"epoch/unfinished":      testMovedUnfinished,
	"epoch/several":         testMovedTwice,
	"epoch/purged":          testMovedPurged,
	"epoch/baseline":        testMovedBaseline,
	"epoch/too large":       testMovedTooLarge,
	"epoch/poison read":     testMovedPoison,
	"epoch/reserved":        testMovedReserved,
	"epoch/other folder":    testMovedElsewhere,
	"epoch/unreconciled":    testUnreconciled,
	"epoch/dry run":         testMovedDryRun,
	"epoch/dedupe is off":   testMovedOff,
	"epoch/registered once": testMovedOnce,
	"epoch/vanished":        testBack,
	"epoch/same UID":        testBackInPlace,
	"epoch/sent since":      testSentSince,
}

// testMoved: a folder is made again with the messages it had and new ones. Exactly the new ones are
// new.
func testMoved(s *suite) {
	p := s.place()
	before := p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"))
	p.work()
	p = p.renewed()
	page := []tasks.Entry{s.msg(1, "c"), s.msg(2, "new"), s.msg(7, "a"), s.msg(9, "b")}
	after := p.became(page, "moved", "new", "moved", "moved")
	if after[0].TaskID != before[2].TaskID ||
		after[2].TaskID != before[0].TaskID ||
		after[3].TaskID != before[1].TaskID {
		s.t.Errorf("tasks %v after, %v before; want each message to find its own", after, before)
	}
	if got := s.stands(before[1].TaskID, tasks.Forwarded); got.UID != 9 || got.Epoch != p.epoch {
		s.t.Errorf("the task is of UID %d in epoch %d; want where its message is now, 9 in %d",
			got.UID, got.Epoch, p.epoch)
	}
	p.claimed(10, 2)
}

// testMovedEqual: two equal messages find two tasks, one each, in one page and in several.
func testMovedEqual(s *suite) {
	for _, pages := range [][][]uint32{{{4, 5, 6}}, {{4}, {5}, {6}}} {
		p := s.place()
		before := p.became([]tasks.Entry{s.msg(1, "a"), s.msg(2, "a")}, "new", "waits")
		p.work()
		p = p.renewed()
		var after []tasks.Registration
		for _, uids := range pages {
			var page []tasks.Entry
			for _, uid := range uids {
				page = append(page, s.msg(uid, "a"))
			}
			after = append(after, p.register(page...)...)
		}
		if s.fate(after[0]) != "moved" || s.fate(after[1]) != "moved" || s.fate(after[2]) != "duplicate" {
			s.t.Errorf("pages %v: %v; want two that moved and a duplicate", pages, after)
		}
		if after[0].TaskID != before[0].TaskID || after[1].TaskID != before[1].TaskID {
			s.t.Errorf("pages %v: %v, before %v; want one task each, in order", pages, after, before)
		}
	}
}

// testMovedNeeded: when one of two equal messages is gone, the other one is that of the task that
// still has to be sent, or of the one whose message was not gone before.
func testMovedNeeded(s *suite) {
	finishes := []func(c tasks.Claim){
		func(c tasks.Claim) { s.vanish(c) },
		func(c tasks.Claim) { s.finish(c, tasks.Forwarded) },
		func(c tasks.Claim) { s.finish(c, tasks.Dead) },
		func(c tasks.Claim) { s.finish(c, tasks.Error) },
	}
	for i, first := range finishes {
		for _, second := range finishes[i+1:] {
			p := s.place().under(tasks.DedupeOff)
			p.register(s.msg(1, "a"), s.msg(2, "a"))
			claims := p.claimed(2, 1, 2)
			first(claims[0])
			second(claims[1])
			p = p.renewed()
			if got := p.became([]tasks.Entry{s.msg(5, "a")}, "moved")[0]; got.TaskID != claims[1].Task.ID {
				s.t.Errorf("the first task is %s, the second %s, and the first has the message; want the second",
					s.get(claims[0].Task.ID).Status, s.get(claims[1].Task.ID).Status)
			}
		}
	}
}

// testMovedUnfinished: a task that is not finished finds its message again, is claimed there, and
// goes on.
func testMovedUnfinished(s *suite) {
	p := s.place()
	p.register(s.msg(1, "due"), s.msg(2, "held"), s.msg(3, "late"))
	claims := p.claimed(3, 1, 2, 3)
	s.must("release", s.Queue.Release(s.ctx, claims[0], "stopped", 0, nil))
	s.finish(claims[2], tasks.Error)
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(11, "due"), s.msg(12, "held"), s.msg(13, "late")}, "moved", "moved", "moved")
	p.claimed(10, 11)
	s.finish(claims[1], tasks.Forwarded)
	if got := s.stands(claims[1].Task.ID, tasks.Forwarded); got.UID != 12 {
		s.t.Errorf("UID %d, want 12", got.UID)
	}
	s.Age(s.t, time.Hour+time.Second)
	claims = p.receive(10)
	late := slices.ContainsFunc(claims, func(c tasks.Claim) bool { return c.Task.UID == 13 })
	if len(claims) == 0 || !late && !claims[0].Alone {
		s.t.Errorf("claimed %v, want the task that was to be tried again", claims)
	}
}

func testMovedTwice(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "a"))
	for uid := uint32(2); uid < 6; uid++ {
		p = p.renewed()
		if r := p.became([]tasks.Entry{s.msg(uid, "a")}, "moved")[0]; r.TaskID != id {
			s.t.Fatalf("epoch %d: task %d, want %d", p.epoch, r.TaskID, id)
		}
	}
	p.claimed(10, 5)
}

// testMovedPurged: purging must never let a mailbox be forwarded again.
func testMovedPurged(s *suite) {
	p := s.place()
	id := p.added(s.msg(1, "a"))
	p.work()
	p.purgeForwarded()
	_, err := s.Queue.Get(s.ctx, id)
	s.wantErr("get a purged task", err, tasks.ErrNotFound)
	p.became([]tasks.Entry{s.msg(1, "a")}, "known")
	p.beside("Junk").became([]tasks.Entry{s.msg(1, "a")}, "duplicate")
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(4, "a"), s.msg(5, "a")}, "known", "duplicate")
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(6, "a"), s.msg(7, "a"), s.msg(8, "a")}, "known", "moved", "duplicate")
	p.claimed(10)
}

func testMovedBaseline(s *suite) {
	p := s.place()
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(s.unread(1, "a"), s.unread(2, "b"))))
	for _, third := range []string{"new", "moved"} {
		p = p.renewed()
		p.became([]tasks.Entry{s.msg(3, "a"), s.msg(4, "b"), s.msg(5, "c")}, "known", "known", third)
	}
	p.claimed(10, 5)
}

// testMovedTooLarge: what was skipped for its size stays skipped, also when forward.max_size allows
// it by now.
func testMovedTooLarge(s *suite) {
	p := s.place()
	p.register(s.tooLarge(1, "a"), s.tooLarge(2, "b"))
	p = p.renewed()
	p.became([]tasks.Entry{s.tooLarge(3, "a"), s.msg(4, "b")}, "moved", "moved")
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(5, "a"), s.msg(6, "b")}, "moved", "moved")
	p.claimed(10)
}

// testMovedPoison: a message that could not be read was registered by its outline, and can be read
// now.
func testMovedPoison(s *suite) {
	p := s.place()
	id := p.added(s.unread(1, "a"))
	p.work()
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(3, "a")}, "moved")
	p = p.renewed()
	if r := p.became([]tasks.Entry{s.msg(4, "a")}, "moved")[0]; r.TaskID != id {
		s.t.Errorf("task %d, want %d", r.TaskID, id)
	}
}

// testMovedReserved: a message whose content became known when its task was reserved is found by
// that, and no longer by its outline.
func testMovedReserved(s *suite) {
	p := s.place()
	id := p.added(s.unread(1, "m"))
	c := p.claimed(1, 1)[0]
	m := s.identity("m")
	res := tasks.Reservation{Identity: &m, Decision: decision(), Revision: revision}
	_, err := s.Queue.Reserve(s.ctx, c.Receipt, res)
	s.must("reserve", err)
	p = p.renewed()
	other := s.msg(3, "another of this outline")
	other.Stated = s.said("m")
	same := s.msg(4, "m")
	same.Stated = s.said("as the server says now")
	if r := p.became([]tasks.Entry{other, same}, "new", "moved"); r[1].TaskID != id {
		s.t.Errorf("task %d, want %d", r[1].TaskID, id)
	}
}

// testMovedElsewhere: an older epoch of another folder is nothing to this one.
func testMovedElsewhere(s *suite) {
	p := s.place().under(tasks.DedupeOff)
	p.register(s.msg(1, "a"))
	other := p.beside("Junk").renewed()
	other.became([]tasks.Entry{s.msg(1, "a")}, "new")
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
	p.work()
	p.register(s.msg(3, "c"))
	p = p.renewed()
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
	id := p.added(s.msg(1, "a"))
	p = p.renewed()
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
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(1, "a"), s.msg(2, "a"), s.msg(3, "a")}, "moved", "moved", "new")
}

func testMovedOnce(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"))
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(2, "a")}, "moved")
	p.became([]tasks.Entry{s.msg(2, "a")}, "known")
}

// testMissed: a message that is missed at one place and has been found again at another meanwhile
// has not vanished.
func testMissed(s *suite) {
	p := s.place()
	c := p.claim()
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(5, "m")}, "moved")
	s.wantErr("finish as vanished", s.Queue.Finish(s.ctx, c.Receipt, tasks.Vanished(c.Task, "gone")), tasks.ErrMoved)
	s.has(c.Task.ID)
	s.must("release", s.Queue.Release(s.ctx, c, "", 0, nil))
	again := p.claimed(1, 5)[0]
	s.vanish(again)
	s.stands(c.Task.ID, tasks.Skipped)
}

// testBack: a task that ended because its message was gone goes on when the message shows up again.
func testBack(s *suite) {
	p := s.place()
	id := p.vanished().Task.ID
	p = p.renewed()
	if got := p.became([]tasks.Entry{s.msg(7, "m")}, "moved")[0]; got.TaskID != id {
		s.t.Errorf("task %d, want %d", got.TaskID, id)
	}
	if got := s.stands(id, tasks.Received); got.Reason != "" || got.UID != 7 || got.Revision != "" {
		s.t.Errorf("reason %q, UID %d, revision %q; want it to be decided again, at UID 7",
			got.Reason, got.UID, got.Revision)
	}
	s.has(id, "skipped", "requeued")
	p.claimed(1, 7)
}

// testBackInPlace: so does one whose message shows up again under the same UID, once its content
// can be read.
func testBackInPlace(s *suite) {
	p := s.place()
	id := p.vanished().Task.ID
	for _, lookup := range []func(context.Context, int64, int64, []uint32) ([]uint32, error){
		s.Queue.Unseen, s.Queue.Unregistered,
	} {
		if got, err := lookup(s.ctx, p.folder, p.epoch, []uint32{1}); err != nil || len(got) != 1 {
			s.t.Errorf("%v, %v; want UID 1", got, err)
		}
	}
	if got, err := s.Queue.Noted(s.ctx, p.folder, p.epoch, 1, 1); err != nil || len(got) != 1 || !got[0].Gone() {
		s.t.Errorf("the ledger has %+v, %v; want it gone", got, err)
	}
	p.became([]tasks.Entry{s.unread(1, "m")}, "known")
	s.stands(id, tasks.Skipped)
	p.became([]tasks.Entry{s.msg(1, "m")}, "moved")
	p.became([]tasks.Entry{s.msg(1, "m")}, "known")
	s.stands(id, tasks.Received)
	s.has(id, "skipped", "requeued")
	p.claimed(1, 1)
}

// testSentSince: what vanished and shows up again is not sent when an equal message was sent since.
func testSentSince(s *suite) {
	p := s.place()
	id := p.vanished().Task.ID
	archive := p.beside("Archive")
	other := archive.became([]tasks.Entry{s.msg(1, "m")}, "new")[0].TaskID
	p.work()
	p = p.renewed()
	p.became([]tasks.Entry{s.msg(7, "m")}, "moved")
	if sent := p.work(); sent != 0 {
		s.t.Errorf("it was sent %d times, want never", sent)
	}
	s.stands(id, tasks.Skipped)
	s.recipients(id, "ann duplicate of %d", other)
}
