package taskstest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"postrider/internal/tasks"
)

var raceTests = map[string]func(*suite){
	"race/claims":     testRaceClaims,
	"race/take over":  testRaceTakeOver,
	"race/losers":     testRaceLosers,
	"race/register":   testRaceRegister,
	"race/dedupe all": testRaceDedupeAll,
	"race/dedupe":     testRaceDedupeInbox,
	"race/scopes":     testRaceScopes,
	"race/storm":      testRaceStorm,
}

// together runs f on several goroutines at once, half of them as another process.
func (s *suite) together(n int, f func(i int, q tasks.Queue)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i, []tasks.Queue{s.Queue, s.Other}[i%2])
		})
	}
	close(start)
	wg.Wait()
}

// testRaceClaims: many workers work off one inbox; no task goes to two, none is left.
func testRaceClaims(s *suite) {
	const messages = 200
	p := s.place()
	p.fill(messages)
	var mu sync.Mutex
	got := map[int64]int{}
	s.together(8, func(i int, q tasks.Queue) {
		for {
			want := p.want(3)
			want.Worker = fmt.Sprint("worker", i)
			claims, err := q.Receive(s.ctx, want)
			if err != nil || len(claims) == 0 {
				if err != nil {
					s.t.Errorf("receive: %v", err)
				}
				return
			}
			mu.Lock()
			for _, c := range claims {
				got[c.ID]++
			}
			mu.Unlock()
			for _, c := range claims {
				ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Delivered}}
				err := errors.Join(q.Sending(s.ctx, c.Receipt, "desk", tasks.Form{Mode: "redirect"}, ds),
					q.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk", Deliveries: ds}))
				if err != nil {
					s.t.Errorf("finish: %v", err)
				}
			}
		}
	})
	for id, n := range got {
		if n != 1 {
			s.t.Errorf("task %d was claimed %d times", id, n)
		}
	}
	stats, err := s.Queue.Stats(s.ctx, p.inbox)
	if err != nil || stats.ByStatus[tasks.Forwarded] != messages {
		s.t.Errorf("%v, %v; want %d forwarded", stats.ByStatus, err, messages)
	}
}

// testRaceTakeOver: the old holder finishes while others take over. Exactly one side has the task in the end.
func testRaceTakeOver(s *suite) {
	for range 10 {
		p := s.place()
		c := p.claim()
		s.Age(s.t, lease+time.Second)
		var finished error
		var taken []tasks.Claim
		var mu sync.Mutex
		s.together(4, func(i int, q tasks.Queue) {
			if i == 0 {
				finished = q.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk"})
				return
			}
			claims, err := q.Receive(s.ctx, p.want(1))
			if err != nil {
				s.t.Errorf("receive: %v", err)
			}
			mu.Lock()
			taken = append(taken, claims...)
			mu.Unlock()
		})
		switch {
		case finished == nil && len(taken) == 0:
			s.stands(c.ID, tasks.Forwarded)
		case errors.Is(finished, tasks.ErrLeaseLost) && len(taken) == 1:
			s.stands(c.ID, tasks.InProgress)
		default:
			s.t.Fatalf("finish by the old holder: %v, and %d took over; want one or the other", finished, len(taken))
		}
	}
}

// testRaceRegister: two processes register one page.
func testRaceRegister(s *suite) {
	p := s.place()
	var mu sync.Mutex
	fresh, known := 0, 0
	s.together(6, func(_ int, q tasks.Queue) {
		regs, err := q.Register(s.ctx, p.page(s.msg(1, "a"), s.msg(2, "b")))
		if err != nil {
			s.t.Errorf("register: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range regs {
			switch r.Fate {
			case tasks.New:
				fresh++
			case tasks.Known:
				known++
			}
		}
	})
	if fresh != 2 || known != 10 {
		s.t.Errorf("%d new, %d known; want 2 and 10", fresh, known)
	}
	p.claimed(10, 1, 2)
}

// testRaceDedupeAll: one message arrives in several inboxes at once.
func testRaceDedupeAll(s *suite) {
	for round := range 5 {
		var places []place
		for range 6 {
			places = append(places, s.place().under(tasks.DedupeAll))
		}
		s.oneIsNew(places, fmt.Sprint("round", round))
	}
}

// testRaceDedupeInbox: one message arrives in several folders of an inbox at once.
func testRaceDedupeInbox(s *suite) {
	for round := range 5 {
		p := s.place()
		places := []place{p, p.beside("a"), p.beside("b"), p.beside("c")}
		s.oneIsNew(places, fmt.Sprint("round", round))
	}
}

func (s *suite) oneIsNew(places []place, content string) {
	s.t.Helper()
	var mu sync.Mutex
	fresh := 0
	s.together(len(places), func(i int, q tasks.Queue) {
		regs, err := q.Register(s.ctx, places[i].page(s.msg(1, content)))
		if err != nil {
			s.t.Errorf("register: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if regs[0].Fate == tasks.New {
			fresh++
		}
	})
	if fresh != 1 {
		s.t.Errorf("%d of %d equal messages registered at once are new, want 1", fresh, len(places))
	}
}

// testRaceLosers: workers that let their leases run out, release and put off, all at once. Each task is finished once,
// however many receipts it had, and none is lost.
func testRaceLosers(s *suite) {
	const messages = 60
	p := s.place()
	p.fill(messages)
	var mu sync.Mutex
	finished := map[int64]int{}
	var lapsed []tasks.Claim
	finish := func(q tasks.Queue, c tasks.Claim, res tasks.Result) {
		switch err := q.Finish(s.ctx, c.Receipt, res); {
		case err == nil && res.Status == tasks.Forwarded:
			mu.Lock()
			finished[c.ID]++
			mu.Unlock()
		case err != nil && !errors.Is(err, tasks.ErrLeaseLost):
			s.t.Errorf("finish: %v", err)
		}
	}
	s.together(6, func(i int, q tasks.Queue) {
		want := tasks.Want{InboxID: p.inbox, Max: 4, Lease: shortly / 3, Worker: fmt.Sprint("worker", i), Wait: 2 * shortly, MaxLostLeases: 1000}
		for {
			claims, err := q.Receive(s.ctx, want)
			if err != nil || len(claims) == 0 {
				if err != nil {
					s.t.Errorf("receive: %v", err)
				}
				return
			}
			for _, c := range claims {
				switch way := c.ID % 4; {
				case c.Attempts == 1 && way == 0:
					mu.Lock()
					lapsed = append(lapsed, c)
					mu.Unlock()
				case c.Attempts == 1 && way == 1:
					finish(q, c, tasks.Result{Status: tasks.Error, Route: "desk"})
				default:
					finish(q, c, tasks.Result{Status: tasks.Forwarded, Route: "desk"})
				}
			}
		}
	})
	for _, c := range lapsed {
		finish(s.Queue, c, tasks.Result{Status: tasks.Forwarded, Route: "desk"})
	}
	for id, n := range finished {
		if n != 1 {
			s.t.Errorf("task %d was finished %d times, want once", id, n)
		}
	}
	stats, err := s.Queue.Stats(s.ctx, p.inbox)
	if err != nil || len(finished) != messages || stats.ByStatus[tasks.Forwarded] != messages {
		s.t.Errorf("%d finished, %v, %v; want %d", len(finished), stats.ByStatus, err, messages)
	}
}

// testRaceScopes: a copy arrives in one inbox, where the scope is all of them, while a host whose scope is the inbox finds that the message
// has vanished from another. The copy goes out.
func testRaceScopes(s *suite) {
	for round := range 20 {
		content := fmt.Sprint(round)
		p, q := s.place(), s.place().under(tasks.DedupeAll)
		p.register(s.msg(1, content))
		c := p.claimed(1, 1)[0]
		s.together(2, func(i int, queue tasks.Queue) {
			var err error
			if i == 0 {
				gone := tasks.Vanished(c.Task, "it was expunged")
				gone.Dedupe = p.dedupe
				err = queue.Finish(s.ctx, c.Receipt, gone)
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
