package taskstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// storm is copies of a few messages in several inboxes, and all that is done to their tasks at once.
type storm struct {
	*suite
	places []place // of several inboxes, with several folders each
	last   int64   // the inbox that is removed
	mu     sync.Mutex
	came   map[message.Fingerprint]bool // elsewhere
	sent   map[message.Fingerprint]int  // elsewhere
	before map[message.Fingerprint]int  // sent by the last inbox
	uid    map[int64]uint32             // the last one of a folder
	gone   map[int64]bool               // tasks that were forwarded
}

const stormContents = 25

// testRaceStorm: scans, workers of two processes and people at once; one of them removes an inbox. Each message goes out once, but again when a
// copy comes after an inbox that had sent it was removed; and no copy is skipped for one that nobody got and that does not go on either.
func testRaceStorm(s *suite) {
	w := &storm{
		suite: s, came: map[message.Fingerprint]bool{}, sent: map[message.Fingerprint]int{}, before: map[message.Fingerprint]int{},
		uid: map[int64]uint32{}, gone: map[int64]bool{},
	}
	for range 4 {
		p := s.place().under(tasks.DedupeAll)
		w.places, w.last = append(w.places, p, p.beside("Archive")), p.inbox
	}
	actors := []func(tasks.Queue){w.scan, w.scan, w.work, w.work, w.work, w.work, w.people, w.people}
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
	s.Age(s.t, 2*lease)
	for w.drain() {
	}
	w.copies()
	var again []int64
	w.each(func(t tasks.Task) {
		if t.Status != tasks.Forwarded {
			again = append(again, t.ID)
		}
	})
	_, err := s.Queue.Requeue(s.ctx, "ann", again...)
	s.must("requeue", err)
	for w.drain() {
	}
	for content := range w.came {
		if n, before := w.sent[content], w.before[content]; n > 1 || before > 1 || n+before == 0 {
			s.t.Errorf("message %x was sent %d times, and %d times by the inbox that was removed; want once by one of them, or both", content[:4], n, before)
		}
	}
}

// scan registers a page of copies.
func (w *storm) scan(q tasks.Queue) {
	p := w.places[rand.IntN(len(w.places))]
	var page []tasks.Entry
	w.mu.Lock()
	for range 1 + rand.IntN(4) {
		w.uid[p.folder]++
		e := w.msg(w.uid[p.folder], fmt.Sprint(rand.IntN(stormContents)))
		if rand.IntN(4) == 0 {
			e.Route = ""
		}
		page = append(page, e)
		if p.inbox != w.last {
			w.came[e.Fingerprint] = true
		}
	}
	w.mu.Unlock()
	_, err := q.Register(w.ctx, p.page(page...))
	if p.inbox != w.last || !errors.Is(err, tasks.ErrEpochChanged) {
		w.failed("register", err)
	}
}

// work claims a few tasks and ends their claims in all the ways there are.
func (w *storm) work(q tasks.Queue) {
	want := w.places[rand.IntN(len(w.places))].want(3)
	want.MaxLostLeases = 1000
	claims, err := q.Receive(w.ctx, want)
	w.failed("receive", err)
	for _, c := range claims {
		switch rand.IntN(6) {
		case 0:
			w.failed("finish", q.Finish(w.ctx, c.Receipt, tasks.Result{Status: tasks.SkippedNoMatch, Yields: true, Dedupe: tasks.DedupeAll}))
		case 1:
			gone := tasks.Vanished(c.Task, "it was expunged")
			gone.Dedupe = tasks.DedupeAll
			w.failed("finish", q.Finish(w.ctx, c.Receipt, gone))
		case 2:
			w.failed("release", q.Release(w.ctx, c, "stopped", 0, nil))
		case 3:
			w.failed("finish", q.Finish(w.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Route: c.Route}))
		default:
			w.send(q, c)
		}
	}
}

// send sends what is claimed, as a pass does.
func (w *storm) send(q tasks.Queue, c tasks.Claim) {
	if c.Route == "" {
		e := tasks.Entry{UID: c.UID, Fingerprint: c.Fingerprint, MessageID: c.MessageID, Subject: c.Subject, Route: "desk"}
		of, err := q.Identify(w.ctx, c.Receipt, e, tasks.DedupeAll)
		if w.failed("reserve", err) || of != 0 {
			return
		}
	}
	ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Sending}}
	if w.failed("send", q.Sending(w.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, ds)) {
		return
	}
	w.mu.Lock()
	if c.InboxID == w.last {
		w.before[c.Fingerprint]++
	} else {
		w.sent[c.Fingerprint]++
	}
	w.gone[c.ID] = true
	w.mu.Unlock()
	ds[0].Status = tasks.Delivered
	w.failed("finish", q.Finish(w.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk", Deliveries: ds}))
}

// people change what they find.
func (w *storm) people(q tasks.Queue) {
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
		if err = q.Disable(w.ctx, "ann", p.inbox); rand.IntN(10) == 0 {
			err = errors.Join(err, q.Remove(w.ctx, "ann", w.last))
		}
	case 1:
		if p.inbox != w.last {
			w.Enable(w.t, p.inbox)
		}
	case 2:
		_, err = q.Requeue(w.ctx, "ann", ids...)
	case 3:
		_, err = q.Expire(w.ctx, p.inbox, 0, 3)
	}
	w.failed("change", err)
}

// drain sends what is due, and reports whether anything was.
func (w *storm) drain() (more bool) {
	for _, p := range w.places {
		want := p.want(8)
		want.MaxLostLeases = 1000
		claims, err := w.Queue.Receive(w.ctx, want)
		w.must("receive", err)
		for _, c := range claims {
			w.send(w.Queue, c)
		}
		more = more || len(claims) > 0
	}
	return more
}

// copies checks that each task that was skipped as a duplicate is one of a task that was forwarded.
func (w *storm) copies() {
	w.each(func(t tasks.Task) {
		var of int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(t.Reason, tasks.DuplicatePrefix), "%d", &of); err != nil || t.Status != tasks.Skipped {
			return
		}
		if !w.gone[of] {
			w.t.Errorf("task %d is skipped as a duplicate of task %d, which nobody got", t.ID, of)
		}
	})
}

func (w *storm) each(f func(tasks.Task)) {
	for i := 0; i < len(w.places); i += 2 {
		w.failed("list", w.Queue.List(w.ctx, tasks.Filter{InboxID: w.places[i].inbox}, func(t tasks.Task) error {
			f(t)
			return nil
		}))
	}
}

// failed reports whether the claim was lost, and tells of any other error.
func (w *storm) failed(doing string, err error) bool {
	if err != nil && !errors.Is(err, tasks.ErrLeaseLost) {
		w.t.Errorf("%s: %v", doing, err)
	}
	return err != nil
}
