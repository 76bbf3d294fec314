package taskstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// storm is copies of a few messages in several inboxes, and all that is done to their tasks at
// once.
type storm struct {
	*suite
	places []place // of several inboxes, with several folders each
	last   int64   // the inbox that is removed

	mu     sync.Mutex
	uid    map[int64]uint32 // the last one of a folder
	came   map[delivery]bool
	sent   map[delivery]int // by the inboxes that stay
	before map[delivery]int // by the one that is removed
	by     map[sender]bool
}

// delivery is a content that a recipient gets; came says that it should.
type delivery struct {
	content message.Fingerprint
	to      string
}

type sender struct {
	task int64
	to   string
}

const stormContents = 25

// testRaceStorm: scans, workers of two processes and operators at once; one of them removes an
// inbox. Each recipient gets each content once. No delivery is a duplicate of one that was not
// sent.
func testRaceStorm(s *suite) {
	w := &storm{
		suite: s, uid: map[int64]uint32{}, came: map[delivery]bool{},
		sent: map[delivery]int{}, before: map[delivery]int{}, by: map[sender]bool{},
	}
	for _, p := range s.places(4) {
		w.places, w.last = append(w.places, p, p.beside("Archive")), p.inbox
	}
	actors := []func(tasks.Queue){w.scan, w.scan, w.work, w.work, w.work, w.work, w.operate, w.operate}
	s.together(len(actors), func(i int, q tasks.Queue) {
		for range 40 {
			actors[i](q)
		}
	})
	s.must("remove", s.Queue.Remove(s.ctx, "ann", w.last))
	w.places = w.places[:len(w.places)-2]
	for _, p := range w.places {
		s.Enable(s.t, p.inbox)
	}
	w.drain()
	w.check()
	var again []int64
	w.each(func(t tasks.Task) {
		if t.Status != tasks.Forwarded {
			again = append(again, t.ID)
		}
	})
	_, err := s.Queue.Requeue(s.ctx, operatorAnn, again...)
	s.must("requeue", err)
	w.drain()
	w.check() // by now all that came was sent
	for d := range w.came {
		if n, before := w.sent[d], w.before[d]; n+before != 1 {
			s.t.Errorf("message %x to %s was sent %d times, and %d times by the inbox that was removed; "+
				"want once by one of them", d.content[:4], d.to, n, before)
		}
	}
}

// to are the recipients of a message: the same ones, or some of them.
func to() []string { return [][]string{{ann}, {ann, bob}, {bob, ann}, {bob, eve}}[rand.IntN(4)] }

// scan registers a page of copies.
func (w *storm) scan(q tasks.Queue) {
	p := w.places[rand.IntN(len(w.places))]
	var page []tasks.Entry
	w.mu.Lock()
	for range 1 + rand.IntN(4) {
		w.uid[p.folder]++
		e := w.msg(w.uid[p.folder], fmt.Sprint(rand.IntN(stormContents)), ann, bob)
		if rand.IntN(4) == 0 {
			e.Decision = nil
		} else {
			e.Decision = decision(to()...)
		}
		page = append(page, e)
	}
	w.mu.Unlock()
	_, err := q.Register(w.ctx, p.page(page...))
	if p.inbox != w.last || !errors.Is(err, tasks.ErrEpochChanged) {
		w.failed("register", err)
	}
}

// work claims a few tasks and ends their claims in all the ways there are.
func (w *storm) work(q tasks.Queue) {
	p := w.places[rand.IntN(len(w.places))]
	want := p.want(3)
	want.MaxLostLeases = 1000
	claims, err := q.Receive(w.ctx, want)
	w.failed("receive", err)
	for _, c := range claims {
		switch rand.IntN(7) {
		case 0:
			w.failed("finish", q.Finish(w.ctx, c.Receipt, tasks.Vanished(c.Task, "it was expunged")))
		case 1:
			w.failed("release", q.Release(w.ctx, c, "stopped", 0, nil))
		case 2:
			w.failed("finish", q.Finish(w.ctx, c.Receipt, tasks.Result{Status: tasks.Error}))
		case 3:
			w.send(p, q, c, tasks.Failed)
		default:
			w.send(p, q, c, tasks.Delivered)
		}
	}
}

// send sends what is claimed, as a pass does.
func (w *storm) send(p place, q tasks.Queue, c tasks.Claim, end tasks.DeliveryStatus) {
	to, err := p.deliver(q, c, end)
	w.failed("deliver", err)
	if end != tasks.Delivered {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range to {
		d := delivery{c.Task.Identity.Fingerprint, to}
		w.by[sender{c.Task.ID, to}] = true
		if c.Task.InboxID == w.last {
			w.before[d]++
		} else {
			w.sent[d]++
		}
	}
}

// operate changes what it finds.
func (w *storm) operate(q tasks.Queue) {
	var ids []int64
	w.each(func(t tasks.Task) {
		if rand.IntN(5) == 0 {
			ids = append(ids, t.ID)
		}
	})
	p := w.places[rand.IntN(len(w.places))]
	var err error
	switch rand.IntN(4) {
	case 0:
		if err = q.Disable(w.ctx, operatorAnn, p.inbox); rand.IntN(10) == 0 {
			err = errors.Join(err, q.Remove(w.ctx, "ann", w.last))
		}
	case 1:
		if p.inbox != w.last {
			w.Enable(w.t, p.inbox)
		}
	case 2:
		_, err = q.Requeue(w.ctx, operatorAnn, ids...)
	case 3:
		_, err = q.Expire(w.ctx, []int64{p.inbox}, 0, 3)
	}
	w.failed("change", err)
}

// drain sends everything that is left.
func (w *storm) drain() {
	for range 5 {
		w.Age(w.t, 2*lease)
		for _, p := range w.places {
			for range 1000 {
				want := p.want(8)
				want.MaxLostLeases = 1000
				claims, err := w.Queue.Receive(w.ctx, want)
				w.must("receive", err)
				if len(claims) == 0 {
					break
				}
				for _, c := range claims {
					w.send(p, w.Queue, c, tasks.Delivered)
				}
			}
		}
	}
}

// check checks that nothing waits, and that each duplicate is one of a delivery that was made.
func (w *storm) check() {
	w.each(func(t tasks.Task) {
		if !t.Status.Ended() {
			w.t.Errorf("task %d still is %s (%s)", t.ID, t.Status, t.Reason)
		}
		for _, d := range t.Deliveries {
			w.came[delivery{t.Identity.Fingerprint, d.Recipient}] = true
			if d.Status == tasks.Duplicated && !w.by[sender{d.DuplicateOf, d.Recipient}] {
				w.t.Errorf("the delivery of task %d to %s is a duplicate of task %d, which did not deliver it",
					t.ID, d.Recipient, d.DuplicateOf)
			}
		}
	})
}

func (w *storm) each(f func(tasks.Task)) {
	for i := 0; i < len(w.places); i += 2 {
		one := tasks.Filter{Inboxes: []int64{w.places[i].inbox}}
		w.failed("list", w.Queue.List(w.ctx, one, func(t tasks.Task) error {
			f(t)
			return nil
		}))
	}
}

// failed reports any error but that a claim was lost, or that a message is being sent.
func (w *storm) failed(doing string, err error) {
	if !errors.Is(err, tasks.ErrLeaseLost) && !errors.Is(err, tasks.ErrSending) {
		w.reports(doing, err)
	}
}
