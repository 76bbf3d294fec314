package taskstest

import (
	"errors"
	"fmt"
	"time"

	"postrider/internal/tasks"
)

var removeTests = map[string]func(*suite){
	"remove":                  testRemove,
	"remove/disabled":         testRemoveDisabled,
	"remove/scope of one":     testRemoveScope,
	"remove/is being sent":    testRemoveSending,
	"remove/unknown outcome":  testRemoveUnknown,
	"remove/skipped by hand":  testRemoveSkipped,
	"remove/one of its tasks": testRemoveOwn,
}

func (p place) remove() {
	p.t.Helper()
	p.must("remove", p.Queue.Remove(p.ctx, "ann", p.inbox))
}

// testRemove: only the trail of an inbox is left, and who got which content.
func testRemove(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	c, copied := p.halfSent(q, tasks.Pending)
	p.became([]tasks.Entry{s.msg(2, "m", ann, bob), s.msg(3, "n")}, "waits", "new")
	for range 2 { // doing it twice changes nothing
		p.remove()
	}
	if sent := q.work(); sent != 1 {
		s.t.Errorf("the other inbox sent it to %d, want to bob alone", sent)
	}
	s.stands(copied, tasks.Forwarded)
	s.recipients(copied, "ann duplicate of %d, bob delivered", c.Task.ID)
	_, err := s.Queue.Get(s.ctx, c.Task.ID)
	s.wantErr("get a task of the inbox that was removed", err, tasks.ErrNotFound)
	err = s.Queue.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded))
	s.lostTo("finish", err, "the task has been deleted, or its inbox was removed")
	s.has(c.Task.ID, "released", "conflict")
	p.disposed(nil)
	_, err = s.Queue.Register(s.ctx, p.page(s.msg(4, "o")))
	s.wantErr("register in the inbox that was removed", err, tasks.ErrEpochChanged)
	p.claimed(10)
	q.became([]tasks.Entry{s.msg(2, "n"), s.msg(3, "m", ann)}, "new", "duplicate")
}

// testRemoveDisabled: a task that waits in an inbox that was disabled goes on when that is enabled.
func testRemoveDisabled(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	c, copied := p.halfSent(q, tasks.Pending)
	q.disable()
	p.remove()
	s.Enable(s.t, q.inbox)
	got := q.claimed(10, 1)[0]
	if got.Task.ID != copied {
		s.t.Errorf("claimed task %d, want %d", got.Task.ID, copied)
	}
	q.reserve(got, []string{ann, bob}, fmt.Sprintf("ann duplicate of %d, bob pending", c.Task.ID))
}

// testRemoveScope: what was owned within the inbox alone is gone with it.
func testRemoveScope(s *suite) {
	p := s.place()
	p.finished(tasks.Forwarded)
	p.remove()
	s.place().under(tasks.DedupeAll).became([]tasks.Entry{s.msg(1, "m")}, "new")
}

// testRemoveSending: while a message is being sent, its inbox is only disabled. What it owns stays
// owned when the inbox is removed later.
func testRemoveSending(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	c, copied := p.halfSent(q, tasks.Sending)
	waits := p.added(s.msg(2, "n"))
	for range 2 { // doing it twice changes nothing
		s.wantErr("remove", s.Queue.Remove(s.ctx, "ann", p.inbox), tasks.ErrSending)
	}
	s.stands(waits, tasks.Received)
	p.claimed(10)
	q.claimed(10)
	c.Task = s.get(c.Task.ID)
	c.Task.Deliveries[1].Status = tasks.Delivered
	s.finish(c, tasks.Forwarded)
	p.remove()
	if sent := q.work(); sent != 0 {
		s.t.Errorf("the other inbox sent it to %d, want 0 recipients", sent)
	}
	s.recipients(copied, "ann duplicate of %d, bob duplicate of %d", c.Task.ID, c.Task.ID)
}

// testRemoveUnknown: what was not delivered for certain is given up, once the lease has run out.
func testRemoveUnknown(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	_, copied := p.halfSent(q, tasks.Sending)
	s.Age(s.t, lease+time.Second)
	p.remove()
	if sent := q.work(); sent != 1 {
		s.t.Errorf("the other inbox sent it to %d, want to bob, who may not have it", sent)
	}
	s.stands(copied, tasks.Forwarded)
}

// testRemoveSkipped: what an operator skipped stays accounted for.
func testRemoveSkipped(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	id := p.added(s.msg(1, "m"))
	s.skip(id)
	p.remove()
	s.recipients(q.became([]tasks.Entry{s.msg(1, "m")}, "duplicate")[0].TaskID, "ann duplicate of %d", id)
}

// testRemoveOwn: a task that waits in the removed inbox takes nothing, and the one elsewhere does.
func testRemoveOwn(s *suite) {
	both := s.places(2)
	p, q := both[0], both[1]
	p.register(s.msg(1, "m"))
	mine := p.became([]tasks.Entry{s.msg(2, "m")}, "waits")[0].TaskID
	q.became([]tasks.Entry{s.msg(1, "m")}, "waits")
	p.remove()
	if _, err := s.Queue.Get(s.ctx, mine); !errors.Is(err, tasks.ErrNotFound) {
		s.t.Errorf("a task of the inbox that was removed: %v, want %v", err, tasks.ErrNotFound)
	}
	s.Age(s.t, time.Second)
	if sent := q.work(); sent != 1 {
		s.t.Errorf("the other inbox sent it %d times, want once", sent)
	}
}
