package taskstest

import (
	"context"
	"errors"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var waitTests = map[string]func(*suite){
	"wait/due already":       testWaitDue,
	"wait/in vain":           testWaitInVain,
	"wait/for its time":      testWaitForItsTime,
	"wait/for news":          testWaitForNews,
	"wait/cancelled":         testWaitCancelled,
	"wait/cancelled already": testCancelledAlready,
	"wait/two for one":       testWaitTwoForOne,
	"wait/one each":          testWaitOneEach,
}

const (
	forever = time.Minute            // longer than any wait that ends well
	shortly = 300 * time.Millisecond // until something becomes due
)

// wait is Receive as another worker, for up to d.
func (p place) wait(q tasks.Queue, d time.Duration) ([]tasks.Claim, error) {
	want := p.want(1)
	want.Wait = d
	return q.Receive(p.ctx, want)
}

// waited claims within far less than forever, and nothing before its time.
func (p place) waited(what string, uid uint32) tasks.Claim {
	p.t.Helper()
	began := time.Now()
	claims, err := p.wait(p.Queue, forever)
	return p.gotInTime(what, claims, err, time.Since(began), uid)
}

func (p place) gotInTime(what string, claims []tasks.Claim, err error, took time.Duration, uid uint32) tasks.Claim {
	p.t.Helper()
	p.must("receive what was "+what, err)
	if len(claims) != 1 || claims[0].UID != uid {
		p.t.Fatalf("%s: claimed %+v; want the message with UID %d", what, claims, uid)
	}
	if took > forever/2 {
		p.t.Errorf("%s: claimed after %v, want it as soon as it is due", what, took)
	}
	if c := claims[0]; c.At.Before(c.Due) {
		p.t.Errorf("%s: claimed at %v, before it was due at %v", what, c.At, c.Due)
	}
	return claims[0]
}

// pause lets others begin to wait, by waiting in vain.
func (s *suite) pause() {
	s.t.Helper()
	if claims, err := s.place().wait(s.Queue, shortly/3); len(claims) != 0 || err != nil {
		s.t.Fatalf("an empty inbox: claimed %d, %v; want none", len(claims), err)
	}
}

// testWaitDue: what is due is returned at once, be it less than what is wanted.
func testWaitDue(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"))
	want := p.want(10)
	want.Wait = forever
	began := time.Now()
	claims, err := s.Queue.Receive(s.ctx, want)
	s.must("receive", err)
	if took := time.Since(began); len(claims) != 2 || took > forever/2 {
		s.t.Errorf("claimed %d after %v; want the 2 that are due, at once", len(claims), took)
	}
}

// testWaitInVain: none at the deadline, neither much later nor before, whatever happens elsewhere meanwhile.
func testWaitInVain(s *suite) {
	elsewhere := s.place()
	for name, bring := range map[string]func(p place){
		"an empty inbox": func(place) {},
		"a task that is far from due": func(p place) {
			p.register(s.msg(1, "m"))
			s.must("finish", s.Queue.Finish(s.ctx, p.claimed(1, 1)[0].Receipt, tasks.Result{Status: tasks.Error, Delay: time.Hour}))
		},
		"a task that another holds": func(p place) { p.claim() },
		"a task that has ended":     func(p place) { p.register(s.unread(1, "m", "too_large")) },
	} {
		p := s.place()
		bring(p)
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := s.Other.Register(s.ctx, elsewhere.page(s.msg(1, name)))
			if err != nil {
				s.t.Errorf("register elsewhere: %v", err)
			}
		}()
		claims, err := p.wait(s.Queue, shortly)
		took := time.Since(began)
		<-done
		if err != nil || len(claims) != 0 || took < shortly || took > forever/2 {
			s.t.Errorf("%s: claimed %d, %v, after %v; want none after %v", name, len(claims), err, took, shortly)
		}
	}
}

// testWaitForItsTime: a task comes when its delay has passed or its lease has run out.
func testWaitForItsTime(s *suite) {
	p := s.place()
	c := p.claim()
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Delay: shortly}))
	c = p.waited("put off", 1)
	s.must("release", s.Queue.Release(s.ctx, c, "later", shortly, nil))
	c = p.waited("released with a delay", 1)
	s.must("release", s.Queue.Release(s.ctx, c, "stopped", 0, nil))
	want := p.want(1)
	want.Lease = shortly
	if claims, err := s.Queue.Receive(s.ctx, want); err != nil || len(claims) != 1 {
		s.t.Fatalf("claimed %v, %v; want 1", claims, err)
	}
	if c = p.waited("held by a worker that died", 1); c.LostLeases != 1 {
		s.t.Errorf("lost leases %d, want 1", c.LostLeases)
	}
	if _, err := s.Queue.Extend(s.ctx, shortly, []tasks.Receipt{c.Receipt}); err != nil {
		s.t.Fatalf("extend: %v", err)
	}
	if c = p.waited("held by a worker that renewed its lease and died", 1); c.LostLeases != 2 {
		s.t.Errorf("lost leases %d, want 2", c.LostLeases)
	}
}

// testWaitForNews: whatever makes a task due wakes those who wait, in this process and in another.
func testWaitForNews(s *suite) {
	finish := func(p place, res tasks.Result) tasks.Claim {
		c := p.claimed(1, 1)[0]
		s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, res))
		return c
	}
	person := func(do func(q tasks.Queue, ctx context.Context, who string, ids ...int64) (int, error), q tasks.Queue, id int64) error {
		n, err := do(q, s.ctx, "ann", id)
		if err == nil && n != 1 {
			return errNone
		}
		return err
	}
	var waiting []func() func()
	pending := []tasks.Delivery{{Recipient: "later@example.com", Status: tasks.Pending}}
	for name, prepare := range map[string]func(p place) (uid uint32, deed func(q tasks.Queue) error){
		"registered": func(p place) (uint32, func(tasks.Queue) error) {
			return 2, func(q tasks.Queue) error {
				_, err := q.Register(s.ctx, p.page(s.msg(2, "n")))
				return err
			}
		},
		"released": func(p place) (uint32, func(tasks.Queue) error) {
			c := p.claim()
			return 1, func(q tasks.Queue) error { return q.Release(s.ctx, c, "stopped", 0, nil) }
		},
		"put off for no time": func(p place) (uint32, func(tasks.Queue) error) {
			c := p.claim()
			return 1, func(q tasks.Queue) error { return q.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error}) }
		},
		"requeued": func(p place) (uint32, func(tasks.Queue) error) {
			p.register(s.msg(1, "m"))
			c := finish(p, tasks.Result{Status: tasks.Dead})
			return 1, func(q tasks.Queue) error { return person(tasks.Queue.Requeue, q, c.ID) }
		},
		"resolved for some": func(p place) (uint32, func(tasks.Queue) error) {
			p.register(s.msg(1, "m"))
			c := finish(p, tasks.Result{Status: tasks.Uncertain, Deliveries: pending})
			return 1, func(q tasks.Queue) error { return person(tasks.Queue.Resolve, q, c.ID) }
		},
		"a duplicate of what has vanished": func(p place) (uint32, func(tasks.Queue) error) {
			p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m")}, tasks.New, tasks.Duplicate)
			c := p.claimed(1, 1)[0]
			return 2, func(q tasks.Queue) error { return q.Finish(s.ctx, c.Receipt, tasks.Vanished(c.Task, "expunged")) }
		},
		"there again": func(p place) (uint32, func(tasks.Queue) error) {
			p.register(s.msg(1, "m"))
			finish(p, vanished)
			p = p.anew()
			return 3, func(q tasks.Queue) error {
				_, err := q.Register(s.ctx, p.page(s.msg(3, "m")))
				return err
			}
		},
	} {
		for where, q := range map[string]tasks.Queue{"here": s.Queue, "in another process": s.Other} {
			p := s.place()
			uid, deed := prepare(p)
			waiting = append(waiting, p.waiter(name+" "+where, uid, func() error { return deed(q) }))
		}
	}
	s.pause()
	var ends []func()
	for _, deed := range waiting {
		ends = append(ends, deed())
	}
	for _, end := range ends {
		end()
	}
}

// waiter begins to wait for the message that the deed makes due. The function that it returns does the deed; what that
// returns sees the waiting end.
func (p place) waiter(name string, uid uint32, deed func() error) func() (end func()) {
	var claims []tasks.Claim
	var err error
	var took time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		began := time.Now()
		claims, err = p.wait(p.Queue, forever)
		took = time.Since(began)
	}()
	return func() (end func()) {
		if err := deed(); err != nil {
			p.t.Errorf("%s: %v", name, err)
		}
		return func() {
			<-done
			p.gotInTime(name, claims, err, took, uid)
		}
	}
}

// testWaitCancelled: the end of the context ends the waiting, and claims nothing.
func testWaitCancelled(s *suite) {
	p := s.place()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	want := p.want(1)
	want.Wait = forever
	var claims []tasks.Claim
	var err error
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		claims, err = s.Queue.Receive(ctx, want)
	}()
	s.pause()
	cancel()
	<-done
	if took := time.Since(began); !errors.Is(err, context.Canceled) || len(claims) != 0 || took > forever/2 {
		s.t.Errorf("claimed %d, %v, after %v; want none and that the context was cancelled, at once", len(claims), err, took)
	}
	p.register(s.msg(1, "a"))
	p.claimed(1, 1)
}

// testCancelledAlready: nothing is claimed for somebody who has left, be it due or not.
func testCancelledAlready(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	p := s.place()
	for _, wait := range []time.Duration{0, forever} {
		want := p.want(1)
		want.Wait = wait
		if claims, err := s.Queue.Receive(ctx, want); !errors.Is(err, context.Canceled) || len(claims) != 0 {
			s.t.Errorf("claimed %d, %v; want none and that the context was cancelled", len(claims), err)
		}
		p.register(s.msg(1, "a"))
	}
	p.claimed(1, 1)
}

// testWaitTwoForOne: two wait and one task becomes due. One of them gets it, the other gets nothing.
func testWaitTwoForOne(s *suite) {
	p := s.place()
	got := make(chan []tasks.Claim, 2)
	for _, q := range []tasks.Queue{s.Queue, s.Other} {
		go func() {
			claims, err := p.wait(q, 5*shortly)
			if err != nil {
				s.t.Errorf("receive: %v", err)
			}
			got <- claims
		}()
	}
	s.pause()
	p.register(s.msg(1, "a"))
	if n := len(<-got) + len(<-got); n != 1 {
		s.t.Errorf("%d claims of one task, want 1", n)
	}
	p.claimed(1)
}

// testWaitOneEach: as many tasks as there are those who wait. Each gets one.
func testWaitOneEach(s *suite) {
	const n = 6
	p := s.place()
	got := make(chan []tasks.Claim, n)
	go s.together(n, func(_ int, q tasks.Queue) {
		claims, err := p.wait(q, forever)
		if err != nil {
			s.t.Errorf("receive: %v", err)
		}
		got <- claims
	})
	s.pause()
	p.fill(n)
	var uids []uint32
	for range n {
		for _, c := range <-got {
			uids = append(uids, c.UID)
		}
	}
	slices.Sort(uids)
	if !slices.Equal(uids, []uint32{1, 2, 3, 4, 5, 6}) {
		s.t.Errorf("claimed the UIDs %v; want each once", uids)
	}
}
