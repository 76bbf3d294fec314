package taskstest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"postrider/internal/tasks"
)

var disableTests = map[string]func(*suite){
	"disable/claims":     testDisableClaims,
	"disable/place":      testDisablePlace,
	"disable/some have":  testDisableSome,
	"disable/all":        testDisableAll,
	"disable/registered": testDisableRegistered,
	"race/disable":       testRaceDisable,
	"remove":             testRemove,
	"remove/out of use":  testRemoveOutOfUse,
	"race/remove":        testRaceRemove,
}

func (p place) disable() {
	p.t.Helper()
	p.must("disable", p.Queue.Disable(p.ctx, "ann", p.inbox))
}

func (p place) remove() {
	p.t.Helper()
	p.must("remove", p.Queue.Remove(p.ctx, "ann", p.inbox))
}

// testDisableClaims: what is being worked on, and nobody got, can be sent no more; nothing is claimed until the inbox is enabled.
func testDisableClaims(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m"), s.msg(2, "n"))
	c := p.claimed(1, 1)[0]
	for range 2 { // doing it twice changes nothing
		p.disable()
	}
	err := s.Queue.Sending(s.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Sending}})
	s.lostTo("say to whom it goes", err, "the task is received: its inbox was taken out of use")
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
	p.disable()
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

// testDisableSome: what some have got waits for its inbox with its place.
func testDisableSome(s *suite) {
	p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	c, copied := p.halfSent(q)
	p.disable()
	s.duplicate(copied, c.ID)
	s.forwarded(c) // its claim is good
}

// halfSent is a claim that ann has got the message by and bob has not, and a duplicate in another inbox.
func (p place) halfSent(elsewhere place) (c tasks.Claim, duplicate int64) {
	p.t.Helper()
	p.register(p.msg(1, "m"))
	duplicate = elsewhere.fates([]tasks.Entry{p.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	c = p.claimed(1, 1)[0]
	ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Delivered}, {Recipient: "bob@example.com", Status: tasks.Pending}}
	p.must("sending", p.Queue.Sending(p.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, ds))
	return c, duplicate
}

// testRemove: nothing is left of an inbox but its trail; what some have got is gone on with for the others.
func testRemove(s *suite) {
	p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	c, copied := p.halfSent(q)
	p.fates([]tasks.Entry{s.msg(2, "m"), s.msg(3, "n")}, tasks.Duplicate, tasks.New)
	for range 2 { // doing it twice changes nothing
		p.remove()
	}
	heir := q.claimed(1, 1)[0]
	if is := s.standing(heir.ID); heir.ID != copied || heir.Route != "desk" || len(is) != 2 || is["ann@example.com"] != tasks.Delivered || is["bob@example.com"] != tasks.Pending {
		s.t.Errorf("task %d goes by %q to %v; want task %d, by desk to bob alone, since ann has it", heir.ID, heir.Route, is, copied)
	}
	if _, err := s.Queue.Get(s.ctx, c.ID); !errors.Is(err, tasks.ErrNotFound) {
		s.t.Errorf("a task of the inbox that was removed: %v, want %v", err, tasks.ErrNotFound)
	}
	s.lostTo("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded}), "the task has been deleted, or its inbox was removed")
	s.has(c.ID, "released", "conflict")
	p.disposed([]tasks.Disposition{})
	_, err := s.Queue.Register(s.ctx, p.page(s.msg(4, "o")))
	s.wantErr("register in the inbox that was removed", err, tasks.ErrEpochChanged)
	p.claimed(10)
	q.fates([]tasks.Entry{s.msg(2, "n")}, tasks.New)
}

// testRemoveOutOfUse: no task of the inbox that is removed takes the place of another of it, though the inbox of the only other is out of use.
func testRemoveOutOfUse(s *suite) {
	p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	p.beside("Junk").register(s.unread(1, "m", "")) // turns out to be a duplicate that is older than the one elsewhere
	junk := p.claimed(1, 1)[0]
	_, copied := p.halfSent(q)
	if of, err := s.Queue.Identify(s.ctx, junk.Receipt, s.msg(1, "m"), p.dedupe); of == 0 || err != nil {
		s.t.Fatalf("identify: a duplicate of %d, %v; want of another", of, err)
	}
	q.disable()
	p.remove()
	s.Enable(s.t, q.inbox)
	if heir := q.claimed(1, 1)[0]; heir.ID != copied || len(heir.Deliveries) != 2 {
		s.t.Errorf("task %d goes on to %v; want task %d, to bob alone, since ann has it", heir.ID, heir.Deliveries, copied)
	}
}

// testRaceRemove: copies arrive elsewhere while an inbox is removed that some have got the message from. Nobody is left out: what is
// registered before goes on for the others, and what is registered after is new.
func testRaceRemove(s *suite) {
	for round := range 6 {
		content := fmt.Sprint(round)
		p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
		p.register(s.msg(1, content))
		ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Delivered}, {Recipient: "bob@example.com", Status: tasks.Pending}}
		s.must("sending", s.Queue.Sending(s.ctx, p.claimed(1, 1)[0].Receipt, "desk", tasks.Form{Mode: "redirect"}, ds))
		s.together(2, func(i int, queue tasks.Queue) {
			var err error
			if i == 0 {
				err = queue.Remove(s.ctx, "ann", p.inbox)
			} else {
				_, err = queue.Register(s.ctx, q.page(s.msg(1, content)))
			}
			if err != nil {
				s.t.Errorf("%d: %v", i, err)
			}
		})
		q.claimed(10, 1)
	}
}

// testDisableAll: when nobody can take the place now, each duplicate waits for its own inbox alone.
func testDisableAll(s *suite) {
	p, q, r := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
	p.register(s.msg(1, "m"))
	second := q.fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	third := r.fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)[0].TaskID
	q.disable()
	r.disable()
	p.disable()
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
	p.disable()
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

// testRaceDisable: a message arrives in one inbox while another, where it waits and is claimed, is taken out of use. It is not lost.
func testRaceDisable(s *suite) {
	for round := range 6 {
		content := fmt.Sprint(round)
		p, q := s.place().under(tasks.DedupeAll), s.place().under(tasks.DedupeAll)
		p.register(s.msg(1, content))
		var sent atomic.Bool
		s.together(3, func(i int, queue tasks.Queue) {
			var err error
			switch i {
			case 0:
				err = queue.Disable(s.ctx, "ann", p.inbox)
			case 1:
				_, err = queue.Register(s.ctx, q.page(s.msg(1, content)))
			case 2:
				var claims []tasks.Claim
				claims, err = queue.Receive(s.ctx, p.want(1))
				for _, c := range claims {
					ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: tasks.Sending}}
					lost := queue.Sending(s.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, ds)
					sent.Store(lost == nil)
				}
			}
			if err != nil {
				s.t.Errorf("%d: %v", i, err)
			}
		})
		claims := q.receive(1)
		if sent.Load() == (len(claims) == 1) {
			s.t.Errorf("it is sent from the inbox out of use: %t, and to be sent from the other: %t; want one of them", sent.Load(), len(claims) == 1)
		}
	}
}
