package taskstest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var readTests = map[string]func(*suite){
	"list":          testList,
	"list/portions": testListPortions,
	"list/stops":    testListStops,
	"stats":         testStats,
	"stats/oldest":  testOldest,
}

// list lists the UIDs of the tasks that a filter selects.
func (p place) list(f tasks.Filter) []uint32 {
	p.t.Helper()
	var uids []uint32
	f.InboxID = p.inbox
	p.must("list", p.Queue.List(p.ctx, f, func(t tasks.Task) error {
		uids = append(uids, t.UID)
		return nil
	}))
	return uids
}

func testList(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"), s.unread(3, "c", "too_large"), s.msg(4, "d"))
	c := p.claimed(1, 1)[0]
	ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Delivered}}
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk", Deliveries: ds}))
	s.place().register(s.msg(9, "elsewhere"))
	for _, f := range []struct {
		name   string
		filter tasks.Filter
		want   []uint32
	}{
		{"all", tasks.Filter{}, []uint32{1, 2, 3, 4}},
		{"by state", tasks.Filter{Statuses: []tasks.Status{tasks.Received}}, []uint32{2, 4}},
		{"by states", tasks.Filter{Statuses: []tasks.Status{tasks.Received, tasks.Skipped}}, []uint32{2, 3, 4}},
		{"none", tasks.Filter{Statuses: []tasks.Status{tasks.Dead}}, nil},
		{"the newest", tasks.Filter{Limit: 2}, []uint32{4, 3}},
		{"more than there are", tasks.Filter{Limit: 20}, []uint32{4, 3, 2, 1}},
		{"the newest of a state", tasks.Filter{Limit: 1, Statuses: []tasks.Status{tasks.Received}}, []uint32{4}},
	} {
		if got := p.list(f.filter); !slices.Equal(got, f.want) {
			s.t.Errorf("%s: the UIDs %v, want %v", f.name, got, f.want)
		}
	}
	err := s.Queue.List(s.ctx, tasks.Filter{InboxID: p.inbox, Statuses: []tasks.Status{tasks.Forwarded}}, func(t tasks.Task) error {
		if t.Folder != "INBOX" || t.Inbox == "" || !sameDeliveries(t.Deliveries, ds) {
			s.t.Errorf("listed %+v; want the inbox, the folder and the deliveries with it", t)
		}
		return nil
	})
	s.must("list", err)
}

// fill registers n messages.
func (p place) fill(n int) {
	p.t.Helper()
	var page []tasks.Entry
	for i := range n {
		page = append(page, p.msg(uint32(i+1), fmt.Sprint("fill", i)))
	}
	p.register(page...)
}

func testListPortions(s *suite) {
	p := s.place()
	p.fill(1200)
	if got := p.list(tasks.Filter{}); len(got) != 1200 || !slices.IsSorted(got) {
		s.t.Errorf("%d tasks, sorted %t; want 1200, oldest first", len(got), slices.IsSorted(got))
	}
	got := p.list(tasks.Filter{Limit: 700})
	if len(got) != 700 || got[0] != 1200 || got[699] != 501 {
		s.t.Errorf("%d tasks; want the newest 700, newest first", len(got))
	}
	if got := p.list(tasks.Filter{Limit: 500}); len(got) != 500 {
		s.t.Errorf("%d tasks, want 500", len(got))
	}
}

func testListStops(s *suite) {
	p := s.place()
	p.fill(3)
	stop := errors.New("enough")
	n := 0
	err := s.Queue.List(s.ctx, tasks.Filter{InboxID: p.inbox}, func(tasks.Task) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		s.t.Errorf("error %v after %d tasks; want the callback's after 1", err, n)
	}
}

func testStats(s *suite) {
	p := s.place()
	empty, err := s.Queue.Stats(s.ctx, p.inbox)
	if err != nil || len(empty.ByStatus) != 0 || empty.Due != 0 || empty.Oldest != nil {
		s.t.Errorf("an empty inbox: %+v, %v", empty, err)
	}
	urgent := s.msg(4, "d")
	urgent.Priority = tasks.High
	p.register(s.unread(1, "a", "too_large"), s.msg(2, "b"), s.msg(3, "c"), urgent, s.msg(5, "e"), s.msg(6, "f"))
	claims := p.claimed(3, 4, 2, 3)
	s.must("finish", s.Queue.Finish(s.ctx, claims[0].Receipt, tasks.Result{Status: tasks.Forwarded}))
	s.must("finish", s.Queue.Finish(s.ctx, claims[1].Receipt, tasks.Result{Status: tasks.Error, Delay: time.Hour}))
	got, err := s.Queue.Stats(s.ctx, p.inbox)
	s.must("stats", err)
	want := map[tasks.Status]int{tasks.Skipped: 1, tasks.Forwarded: 1, tasks.Error: 1, tasks.InProgress: 1, tasks.Received: 2}
	if !maps.Equal(got.ByStatus, want) || got.Due != 2 {
		s.t.Errorf("counts %v, due %d; want %v, 2", got.ByStatus, got.Due, want)
	}
	s.Age(s.t, lease+time.Second)
	if got, err := s.Queue.Stats(s.ctx, p.inbox); err != nil || got.Due != 3 {
		s.t.Errorf("due %d, %v; want 3, with the one whose lease ran out", got.Due, err)
	}
	if due, err := s.Queue.Due(s.ctx, p.inbox); err != nil || due != 3 {
		s.t.Errorf("Due says %d, %v; want 3", due, err)
	}
}

// testOldest: the longest waiting live task, by when it was queued: one put back by a person waits since then.
func testOldest(s *suite) {
	p, dead := s.bring(tasks.Dead)
	second := p.register(s.msg(2, "b"))[0].TaskID
	s.Age(s.t, 2*time.Hour)
	p.register(s.msg(3, "c"))
	if n, err := s.Queue.Requeue(s.ctx, "ann", dead.ID); n != 1 || err != nil {
		s.t.Fatalf("requeue: %d, %v", n, err)
	}
	got, err := s.Queue.Stats(s.ctx, p.inbox)
	s.must("stats", err)
	if want := s.get(second).QueuedAt; got.Oldest == nil || !got.Oldest.Equal(want) {
		s.t.Errorf("oldest %v, want %v", got.Oldest, want)
	}
}
