package taskstest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var readTests = map[string]func(*suite){
	"list":               testList,
	"list/portions":      testListPortions,
	"list/stops":         testListStops,
	"list/filters":       testListFilters,
	"list/texts":         testListTexts,
	"stats/many inboxes": testManyInboxes,
	"stats/last day":     testLastDay,
	"stats":              testStats,
	"stats/oldest":       testOldest,
	"next due":           testNextDue,
}

// list lists the UIDs of the tasks that a filter selects.
func (p place) list(f tasks.Filter) []uint32 {
	p.t.Helper()
	var uids []uint32
	if f.Inboxes == nil {
		f.Inboxes = []int64{p.inbox}
	}
	p.must("list", p.Queue.List(p.ctx, f, func(t tasks.Task) error {
		uids = append(uids, t.UID)
		return nil
	}))
	return uids
}

func testList(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"), s.tooLarge(3, "c"), s.msg(4, "d"))
	c := p.claimed(1, 1)[0]
	s.finish(c, tasks.Forwarded)
	ds := []tasks.Delivery{{Recipient: ann, Status: tasks.Delivered}}
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
	for _, inboxes := range [][]int64{{p.inbox}, {p.inbox, p.inbox + 1_000_000}} {
		if got := p.list(tasks.Filter{Inboxes: inboxes, Limit: 1}); !slices.Equal(got, []uint32{4}) {
			s.t.Errorf("the newest of the inboxes %v is UID %v, want 4", inboxes, got)
		}
	}
	if got := p.list(tasks.Filter{Inboxes: []int64{p.inbox + 1_000_000}}); got != nil {
		s.t.Errorf("of another inbox there are the UIDs %v, want none", got)
	}
	f := tasks.Filter{Inboxes: []int64{p.inbox}, Statuses: []tasks.Status{tasks.Forwarded}}
	err := s.Queue.List(s.ctx, f, func(t tasks.Task) error {
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

// testListFilters: by route, by age, and by what could be claimed now, also together.
func testListFilters(s *suite) {
	p := s.place()
	routed := func(uid uint32, route string) tasks.Entry {
		e := s.msg(uid, route)
		e.Decision.Route = route
		return e
	}
	p.register(routed(1, "desk"), routed(2, "desk+court"), routed(3, "front-desk"), routed(4, "Desk"),
		routed(5, "a_b"), routed(6, "a%b"), s.undecided(7, "not decided"))
	s.finish(p.claimed(1, 1)[0], tasks.Forwarded)
	p.claimed(1, 2) // in progress, and its lease runs out below
	s.Age(s.t, 2*time.Hour)
	p.register(s.msg(8, "late"))
	late := s.msg(9, "late and skipped")
	late.Decision.Skip = tasks.SkipLoop
	p.register(late)
	for _, c := range []struct {
		name   string
		filter tasks.Filter
		want   []uint32
	}{
		{"by route, also one of several", tasks.Filter{Route: "desk"}, []uint32{1, 2, 8, 9}},
		{"by the other route", tasks.Filter{Route: "court"}, []uint32{2}},
		{"by part of a route", tasks.Filter{Route: "des"}, nil},
		{"a wildcard is none", tasks.Filter{Route: "a%b"}, []uint32{6}},
		{"registered long ago", tasks.Filter{Registered: time.Hour}, []uint32{1, 2, 3, 4, 5, 6, 7}},
		{"registered longer ago", tasks.Filter{Registered: 3 * time.Hour}, nil},
		{"registered of late", tasks.Filter{Within: time.Hour}, []uint32{8, 9}},
		{"registered within longer", tasks.Filter{Within: 3 * time.Hour}, []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"the newest of late", tasks.Filter{Within: time.Hour, Limit: 1}, []uint32{9}},
		{"ended long ago", tasks.Filter{Ended: time.Hour}, []uint32{1}},
		{"ended at all", tasks.Filter{Ended: time.Nanosecond}, []uint32{1, 9}},
		{"due", tasks.Filter{Due: true}, []uint32{2, 3, 4, 5, 6, 7, 8}},
		{"due and by route", tasks.Filter{Due: true, Route: "desk"}, []uint32{2, 8}},
		{"the newest by route", tasks.Filter{Route: "desk", Limit: 2, Registered: time.Hour}, []uint32{2, 1}},
	} {
		if got := p.list(c.filter); !slices.Equal(got, c.want) {
			s.t.Errorf("%s: the UIDs %v, want %v", c.name, got, c.want)
		}
	}
}

// testListTexts: by parts of sender, recipient, subject and Message-ID, whatever their case.
func testListTexts(s *suite) {
	p := s.place()
	about := func(uid uint32, sender, subject string, to ...string) tasks.Entry {
		e := s.msg(uid, subject, to...)
		id := &e.Identity
		id.Sender, id.Subject, id.MessageID = sender, subject, fmt.Sprintf("<%d@Court.example>", uid)
		return e
	}
	p.register(about(1, "Clerk <clerk@court.example>", "Ladung ÜBER 100%", ann, bob),
		about(2, "clerk@other.example", "hearing_1", bob))
	p.fill(600) // more than a portion
	p.register(
		about(5001, "Clerk <CLERK@court.example>", "Hearing", ann),
		about(5003, "Gericht", "通知:开庭 14/4 ", ann),
		about(5004, "Gericht", "\u212aILO", ann),
		about(5005, "Gericht", "STRASSE", ann),
		about(5006, "Gericht", "STRAẞE", ann),
		about(5007, "Gericht", "İ 5007", ann),
		about(5008, "Gericht  Nord", "Odd  blanks\u00a0and\ta\r\n fold", ann),
		about(5009, "Gericht", "Bu\u0308ro ２０２６ Rech\u00adnung ΟΔΟΣ", ann))
	received := []tasks.Status{tasks.Received}
	for _, c := range []struct {
		name   string
		filter tasks.Filter
		want   []uint32
	}{
		{"sender", tasks.Filter{Sender: "clerk@COURT"}, []uint32{1, 5001}},
		{"the newest by sender", tasks.Filter{Sender: "clerk", Limit: 2}, []uint32{5001, 2}},
		{"recipient", tasks.Filter{Recipient: bob[:4], Sender: "clerk"}, []uint32{1, 2}},
		{"subject", tasks.Filter{Subject: "über 100%"}, []uint32{1}},
		{"a wildcard is none", tasks.Filter{Subject: "hearing%"}, nil},
		{"subject and state", tasks.Filter{Subject: "hearing", Statuses: received}, []uint32{2, 5001}},
		{"Message-ID", tasks.Filter{MessageID: "2@court.example>"}, []uint32{2}},
		{"none", tasks.Filter{Sender: "nobody"}, nil},
		{"without letters", tasks.Filter{Subject: "100%"}, []uint32{1}},
		{"without a case", tasks.Filter{Subject: "开庭 14/4"}, []uint32{5003}},
		{"signs that are letters in lower case", tasks.Filter{Subject: "kilo"}, []uint32{5004}},
		{"and the other way round", tasks.Filter{Subject: "\u212aILO"}, []uint32{5004}},
		{"two letters for one", tasks.Filter{Subject: "strasse"}, []uint32{5005, 5006}},
		{"one letter for two", tasks.Filter{Subject: "straße"}, []uint32{5005, 5006}},
		{"decomposed", tasks.Filter{Subject: "büro"}, []uint32{5009}},
		{"digits of full width", tasks.Filter{Subject: "2026"}, []uint32{5009}},
		{"and the other way round", tasks.Filter{Subject: "１００%"}, []uint32{1}},
		{"a soft hyphen", tasks.Filter{Subject: "rechnung"}, []uint32{5009}},
		{"as it is shown", tasks.Filter{Subject: "rech nung"}, []uint32{5009}},
		{"a final sigma", tasks.Filter{Subject: "οδος"}, []uint32{5009}},
		{"a letter with two in lower case", tasks.Filter{Subject: "İ 5"}, []uint32{5007}},
		{"as they are shown", tasks.Filter{Sender: "gericht nord", Subject: "odd blanks and a fold"}, []uint32{5008}},
		{"as it was written", tasks.Filter{Subject: "BLANKS\u00a0and\ta"}, []uint32{5008}},
		{"words in another order", tasks.Filter{Subject: "blanks odd"}, nil},
		{"recipient in upper case", tasks.Filter{Recipient: "ANN@", Sender: "clerk"}, []uint32{1, 5001}},
	} {
		if got := p.list(c.filter); !slices.Equal(got, c.want) {
			s.t.Errorf("%s: the UIDs %v, want %v", c.name, got, c.want)
		}
	}
}

func testListStops(s *suite) {
	p := s.place()
	p.fill(3)
	stop := errors.New("enough")
	n := 0
	err := s.Queue.List(s.ctx, tasks.Filter{Inboxes: []int64{p.inbox}}, func(tasks.Task) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		s.t.Errorf("error %v after %d tasks; want the callback's after 1", err, n)
	}
}

func testStats(s *suite) {
	p := s.place()
	if empty := p.stats(); len(empty.ByStatus) != 0 || empty.Due != 0 || empty.Oldest != nil {
		s.t.Errorf("an empty inbox: %+v", empty)
	}
	urgent := s.msg(4, "d")
	urgent.Decision.Priority = tasks.High
	p.register(s.tooLarge(1, "a"), s.msg(2, "b"), s.msg(3, "c"), urgent, s.msg(5, "e"), s.msg(6, "f"))
	claims := p.claimed(3, 4, 2, 3)
	s.finish(claims[0], tasks.Forwarded)
	s.finish(claims[1], tasks.Error)
	got := p.stats()
	want := map[tasks.Status]int{
		tasks.Skipped: 1, tasks.Forwarded: 1, tasks.Error: 1, tasks.InProgress: 1, tasks.Received: 2,
	}
	if !maps.Equal(got.ByStatus, want) || got.Due != 2 {
		s.t.Errorf("counts %v, due %d; want %v, 2", got.ByStatus, got.Due, want)
	}
	s.Age(s.t, lease+time.Second)
	if due := p.stats().Due; due != 3 {
		s.t.Errorf("due %d; want 3, with the one whose lease ran out", due)
	}
	if due, err := s.Queue.DueOf(s.ctx, []int64{p.inbox}); err != nil || due[p.inbox] != 3 {
		s.t.Errorf("DueOf says %v, %v; want 3", due, err)
	}
}

// testManyInboxes: each inbox has its own numbers, however many are asked for at once.
func testManyInboxes(s *suite) {
	a, b, empty := s.place(), s.place(), s.place()
	a.fill(3)
	b.fill(2)
	s.finish(b.claim(), tasks.Forwarded)
	s.Age(s.t, time.Hour)
	later := b.added(s.msg(9, "later"))
	ids := []int64{b.inbox}
	for i := range int64(600) { // more than one statement takes
		ids = append(ids, 1<<40+i)
	}
	ids = append(ids, a.inbox, empty.inbox)
	got, err := s.Queue.Stats(s.ctx, ids)
	s.must("stats", err)
	for _, p := range []place{a, b, empty} {
		one, all := p.stats(), got[p.inbox]
		if one.Now = all.Now; !reflect.DeepEqual(one, all) {
			s.t.Errorf("inbox %d is %+v among others, want %+v as alone", p.inbox, all, one)
		}
	}
	if got[a.inbox].Due != 3 || got[b.inbox].Due != 2 || got[b.inbox].Ended != 1 ||
		got[b.inbox].Oldest == nil || !got[b.inbox].Oldest.Before(s.get(later).QueuedAt) {
		s.t.Errorf("stats are %+v and %+v, want 3 due in the first, and in the second 2 due and 1 ended",
			got[a.inbox], got[b.inbox])
	}
	due, err := s.Queue.DueOf(s.ctx, ids)
	s.must("due", err)
	if want := map[int64]int{a.inbox: 3, b.inbox: 2}; !maps.Equal(due, want) {
		s.t.Errorf("due are %v, want %v", due, want)
	}
}

// testNextDue: a task that can be claimed now is not the next; one is whose pause, or the lease of
// whose claim, is over first, in any of the inboxes.
func testNextDue(s *suite) {
	a, b := s.place(), s.place()
	ids := []int64{a.inbox, b.inbox, 1 << 40}
	wantNext := func(when string, within time.Duration, want bool) {
		s.t.Helper()
		in, ok, err := s.Queue.NextDue(s.ctx, ids)
		s.must("next due", err)
		if ok != want || ok && (in > within || in < within-time.Minute) {
			s.t.Errorf("%s: the next is due in %v, %v; want in %v, %v", when, in, ok, within, want)
		}
	}
	a.register(s.msg(1, "m"))
	wantNext("one is due", 0, false)
	claim := a.claimed(1, 1)[0]
	wantNext("it is claimed", lease, true)
	other := b.claim()
	failed := ending(other, tasks.Error)
	failed.Delay = time.Minute
	s.must("finish", s.Queue.Finish(s.ctx, other.Receipt, failed))
	wantNext("another one waits for a minute", time.Minute, true)
	s.Age(s.t, 2*time.Minute)
	wantNext("that one is due", lease-2*time.Minute, true)
	s.finish(claim, tasks.Forwarded)
	wantNext("the first has ended", 0, false)
}

// testLastDay: what ended, what of it took more than one attempt, and conflicts count for a day.
func testLastDay(s *suite) {
	p := s.place()
	p.register(s.msg(1, "a"), s.msg(2, "b"), s.msg(3, "c"), s.msg(4, "d"), s.msg(5, "e"))
	claims := p.claimed(4, 1, 2, 3, 4)
	finish := func(c tasks.Claim, as tasks.Status) error {
		res := ending(c, as)
		res.Delay = time.Nanosecond
		return s.Queue.Finish(s.ctx, c.Receipt, res)
	}
	s.must("finish", finish(claims[0], tasks.Forwarded))
	s.must("finish", finish(claims[1], tasks.Skipped)) // not an outcome
	s.must("finish", finish(claims[2], tasks.Error))
	late := claims[3]
	s.Age(s.t, lease+time.Second)
	for _, c := range slices.Concat(p.claimed(10, 5, 3), p.claimed(1, 4)) {
		switch c.Task.UID {
		case 3:
			s.must("finish", finish(c, tasks.Forwarded))
		case 4:
			s.must("finish", finish(c, tasks.Dead))
		}
	}
	s.wantErr("finish late", finish(late, tasks.Forwarded), tasks.ErrLeaseLost)
	s.wantErr("finish late", finish(late, tasks.Forwarded), tasks.ErrLeaseLost)
	s.day(p, 3, 2, 2)
	s.day(s.place(), 0, 0, 0)
	s.Age(s.t, 23*time.Hour)
	s.day(p, 3, 2, 2)
	s.Age(s.t, time.Hour)
	s.day(p, 0, 0, 0)
}

func (s *suite) day(p place, ended, retried, conflicts int) {
	s.t.Helper()
	before := time.Now()
	got := p.stats()
	if got.Ended != ended || got.Retried != retried || got.Conflicts != conflicts ||
		got.Now.Before(before.Add(-time.Minute)) {
		s.t.Errorf("ended %d, retried %d, conflicts %d at %v; want %d, %d, %d of the last day",
			got.Ended, got.Retried, got.Conflicts, got.Now, ended, retried, conflicts)
	}
}

// testOldest: the longest waiting live task, by when it was queued: one that was
// requeued waits since then.
func testOldest(s *suite) {
	p, dead := s.bring(tasks.Dead)
	second := p.added(s.msg(2, "b"))
	s.Age(s.t, 2*time.Hour)
	p.register(s.msg(3, "c"))
	s.requeue(dead.Task.ID)
	got := p.stats()
	if want := s.get(second).QueuedAt; got.Oldest == nil || !got.Oldest.Equal(want) {
		s.t.Errorf("oldest %v, want %v", got.Oldest, want)
	}
}
