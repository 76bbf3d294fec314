package taskstest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"postrider/internal/tasks"
)

var raceTests = map[string]func(*suite){
	"race/claims":    testRaceClaims,
	"race/take over": testRaceTakeOver,
	"race/losers":    testRaceLosers,
	"race/register":  testRaceRegister,
	"race/own":       testRaceOwn,
	"race/reserve":   testRaceReserve,
	"race/settled":   testRaceSettled,
	"race/crosswise": testRaceCrosswise,
	"race/disable":   testRaceDisable,
	"race/remove":    testRaceRemove,
	"race/storm":     testRaceStorm,
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

// reports is must for goroutines.
func (s *suite) reports(doing string, err error) {
	if err != nil {
		s.t.Errorf("%s: %v", doing, err)
	}
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
			s.reports("receive", err)
			if len(claims) == 0 {
				return
			}
			mu.Lock()
			for _, c := range claims {
				got[c.Task.ID]++
			}
			mu.Unlock()
			for _, c := range claims {
				_, err := p.deliver(q, c, tasks.Delivered)
				s.reports("deliver", err)
			}
		}
	})
	for id, n := range got {
		if n != 1 {
			s.t.Errorf("task %d was claimed %d times", id, n)
		}
	}
	if by := p.stats().ByStatus; by[tasks.Forwarded] != messages {
		s.t.Errorf("%v; want %d forwarded", by, messages)
	}
}

// testRaceTakeOver: the old holder finishes while others take over. Exactly one side has the task
// in the end.
func testRaceTakeOver(s *suite) {
	for range 10 {
		p := s.place()
		c := p.claim()
		s.Age(s.t, lease+time.Second)
		var finished error
		var taken atomic.Int64
		s.together(4, func(i int, q tasks.Queue) {
			if i == 0 {
				finished = q.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded))
				return
			}
			claims, err := q.Receive(s.ctx, p.want(1))
			s.reports("receive", err)
			taken.Add(int64(len(claims)))
		})
		switch n := taken.Load(); {
		case finished == nil && n == 0:
			s.stands(c.Task.ID, tasks.Forwarded)
		case errors.Is(finished, tasks.ErrLeaseLost) && n == 1:
			s.stands(c.Task.ID, tasks.InProgress)
		default:
			s.t.Fatalf("finish by the old holder: %v, and %d took over; want one or the other", finished, n)
		}
	}
}

// testRaceLosers: workers let their leases expire, release and defer, all at once. Each task is
// finished once, however many receipts it had, and none is lost.
func testRaceLosers(s *suite) {
	const messages = 60
	p := s.place()
	p.fill(messages)
	var mu sync.Mutex
	finished := map[int64]int{}
	var lapsed []tasks.Claim
	finish := func(q tasks.Queue, c tasks.Claim) {
		err := q.Finish(s.ctx, c.Receipt, ending(c, tasks.Forwarded))
		if err == nil {
			mu.Lock()
			finished[c.Task.ID]++
			mu.Unlock()
		} else if !errors.Is(err, tasks.ErrLeaseLost) {
			s.reports("finish", err)
		}
	}
	for range 3 {
		s.together(6, func(i int, q tasks.Queue) {
			want := p.want(4)
			want.Worker, want.MaxLostLeases = fmt.Sprint("worker", i), 1000
			for {
				claims, err := q.Receive(s.ctx, want)
				s.reports("receive", err)
				if len(claims) == 0 {
					return
				}
				for _, c := range claims {
					switch way := c.Task.ID % 4; {
					case c.Task.Attempts == 1 && way == 0:
						mu.Lock()
						lapsed = append(lapsed, c)
						mu.Unlock()
					case c.Task.Attempts == 1 && way == 1:
						s.reports("put off", q.Finish(s.ctx, c.Receipt, ending(c, tasks.Error)))
					default:
						finish(q, c)
					}
				}
			}
		})
		s.Age(s.t, 2*time.Hour)
		s.together(2, func(i int, q tasks.Queue) { // some of those that lapsed come first
			for j, c := range lapsed {
				if j%4 == i {
					finish(q, c)
				}
			}
		})
	}
	for _, c := range lapsed {
		finish(s.Queue, c)
	}
	if by := p.stats().ByStatus; len(finished) != messages || by[tasks.Forwarded] != messages {
		s.t.Errorf("%d finished, %v; want %d", len(finished), by, messages)
	}
}

// testRaceRegister: two processes register one page.
func testRaceRegister(s *suite) {
	p := s.place()
	var fresh, known atomic.Int64
	s.together(6, func(_ int, q tasks.Queue) {
		regs, err := q.Register(s.ctx, p.page(s.msg(1, "a"), s.msg(2, "b")))
		s.reports("register", err)
		for _, r := range regs {
			switch r.Fate {
			case tasks.New:
				fresh.Add(1)
			case tasks.Known:
				known.Add(1)
			}
		}
	})
	if fresh.Load() != 2 || known.Load() != 10 {
		s.t.Errorf("%d new, %d known; want 2 and 10", fresh.Load(), known.Load())
	}
	p.claimed(10, 1, 2)
}

// sentOnce works the places off and checks that each of so many recipients got it once.
func (s *suite) sentOnce(places []place, recipients int) {
	s.t.Helper()
	sent := 0
	for range 3 {
		for _, p := range places {
			sent += p.work()
		}
		s.Age(s.t, tasks.WaitRecheck+time.Second)
	}
	for _, p := range places {
		live := []tasks.Status{tasks.Received, tasks.InProgress, tasks.Error}
		if uids := p.list(tasks.Filter{Statuses: live}); len(uids) > 0 {
			s.t.Errorf("the UIDs %v still wait", uids)
		}
	}
	if sent != recipients {
		s.t.Errorf("%d deliveries, want %d: one for each recipient", sent, recipients)
	}
}

// testRaceOwn: one message arrives in several inboxes, or folders, at once. Each recipient is owned
// by one of the tasks, and one delivers.
func testRaceOwn(s *suite) {
	for round := range 5 {
		p := s.place()
		for _, places := range [][]place{s.places(6), {p, p.beside("a"), p.beside("b"), p.beside("c")}} {
			content := fmt.Sprint(round, len(places))
			ids := make([]int64, len(places))
			s.together(len(places), func(i int, q tasks.Queue) {
				regs, err := q.Register(s.ctx, places[i].page(s.msg(1, content, ann, bob)))
				s.reports("register", err)
				if len(regs) == 1 {
					ids[i] = regs[0].TaskID
				}
			})
			s.ownedOnce(ids, 2)
			s.sentOnce(places, 2)
		}
	}
}

// ownedOnce checks that so many deliveries of the tasks are to be sent, and the others wait.
func (s *suite) ownedOnce(ids []int64, want int) {
	s.t.Helper()
	owned := 0
	for _, id := range ids {
		for _, d := range s.get(id).Deliveries {
			if d.Status == tasks.Pending && !d.Waits() {
				owned++
			}
		}
	}
	if owned != want {
		s.t.Errorf("%d deliveries are to be sent, want %d", owned, want)
	}
}

// testRaceReserve: of equal messages that are decided at once, one is to be sent.
func testRaceReserve(s *suite) {
	for round := range 3 {
		for _, places := range [][]place{s.places(6), {s.place()}} {
			content := fmt.Sprint(round, len(places))
			var claims []tasks.Claim
			var ids []int64
			for i := range 6 {
				p := places[i%len(places)]
				ids = append(ids, p.added(s.undecided(uint32(i+1), content)))
				claims = append(claims, p.claimed(1, uint32(i+1))...)
			}
			s.together(len(claims), func(i int, q tasks.Queue) {
				_, err := q.Reserve(s.ctx, claims[i].Receipt, tasks.Reservation{
					Decision: decision(ann, bob), Revision: revision, Dedupe: places[0].dedupe,
				})
				s.reports("reserve", err)
			})
			s.ownedOnce(ids, 2)
			for _, c := range claims {
				s.must("release", s.Queue.Release(s.ctx, c, "", 0, nil))
			}
			s.sentOnce(places, 2)
		}
	}
}

// testRaceSettled: a copy arrives while a message is delivered, or given up. In the end one of them
// was delivered.
func testRaceSettled(s *suite) {
	for round := range 10 {
		for _, end := range []tasks.Status{tasks.Forwarded, tasks.Dead} {
			content := fmt.Sprint(round, end)
			both := s.places(2)
			both[0].register(s.msg(1, content))
			c := both[0].claimed(1, 1)[0]
			s.together(2, func(i int, q tasks.Queue) {
				var err error
				if i == 0 {
					err = q.Finish(s.ctx, c.Receipt, ending(c, end))
				} else {
					_, err = q.Register(s.ctx, both[1].page(s.msg(1, content)))
				}
				s.reports("finish and register", err)
			})
			s.sentOnce(both, map[tasks.Status]int{tasks.Dead: 1}[end])
		}
	}
}

// testRaceCrosswise: tasks with the same recipients in different orders are decided at once.
func testRaceCrosswise(s *suite) {
	for round := range 5 {
		places := s.places(4)
		content := fmt.Sprint(round)
		var claims []tasks.Claim
		for _, p := range places {
			p.register(s.undecided(1, content))
			claims = append(claims, p.claimed(1, 1)...)
		}
		to := [][]string{{ann, bob, eve}, {eve, bob, ann}, {bob, eve}, {eve, ann}}
		s.together(len(claims), func(i int, q tasks.Queue) {
			_, err := q.Reserve(s.ctx, claims[i].Receipt, tasks.Reservation{
				Decision: decision(to[i]...), Revision: revision, Dedupe: tasks.DedupeAll,
			})
			s.reports("reserve", err)
			s.reports("release", q.Release(s.ctx, claims[i], "", 0, nil))
		})
		s.sentOnce(places, 3)
	}
}

// testRaceDisable: a message arrives in one inbox while another, where it waits and is claimed, is
// disabled. It goes out once.
func testRaceDisable(s *suite) {
	for round := range 6 {
		content := fmt.Sprint(round)
		both := s.places(2)
		p, q := both[0], both[1]
		p.register(s.msg(1, content))
		sent := 0
		s.together(3, func(i int, queue tasks.Queue) {
			switch i {
			case 0:
				s.reports("disable", queue.Disable(s.ctx, operatorAnn, p.inbox))
			case 1:
				_, err := queue.Register(s.ctx, q.page(s.msg(1, content)))
				s.reports("register", err)
			case 2:
				claims, err := queue.Receive(s.ctx, p.want(1))
				s.reports("receive", err)
				for _, c := range claims {
					to, err := p.deliver(queue, c, tasks.Delivered)
					if sent += len(to); err != nil && !errors.Is(err, tasks.ErrLeaseLost) {
						s.reports("deliver", err)
					}
				}
			}
		})
		s.Enable(s.t, p.inbox)
		s.sentOnce(both, 1-sent)
	}
}

// testRaceRemove: copies arrive elsewhere while an inbox is removed. Some recipients got the
// message by that inbox; the others get it elsewhere.
func testRaceRemove(s *suite) {
	for round := range 6 {
		content := fmt.Sprint(round)
		both := s.places(2)
		p, q := both[0], both[1]
		p.register(s.msg(1, content, ann, bob))
		ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Delivered}}
		s.must("sending", s.Queue.Sending(s.ctx, p.claimed(1, 1)[0], tasks.Form{Mode: "redirect"}, ds))
		s.together(2, func(i int, queue tasks.Queue) {
			if i == 0 {
				s.reports("remove", queue.Remove(s.ctx, "ann", p.inbox))
				return
			}
			_, err := queue.Register(s.ctx, q.page(s.msg(1, content, ann, bob)))
			s.reports("register", err)
		})
		s.sentOnce([]place{q}, 1)
	}
}
