package taskstest

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"postrider/internal/tasks"
)

var arrivalTests = map[string]func(*suite){
	"arrivals/shown":             testArrivals,
	"arrivals/what says more":    testArrivalsSayMore,
	"arrivals/of a member":       testArrivalsOfMember,
	"arrivals/of what was sent":  testArrivalsSent,
	"arrivals/time":              testArrivalsTime,
	"arrivals/at the same time":  testArrivalsRace,
	"arrivals/requeue":           testRequeueBounced,
	"arrivals/requeue the dead":  testRequeueBouncedDead,
	"arrivals/decided again":     testRequeueBouncedUndecided,
	"arrivals/purged":            testArrivalsPurged,
	"arrivals/by Message-ID":     testSentAs,
	"arrivals/who bounces again": testBounces,
	"arrivals/earlier attempt":   testEarlier,
}

// bounce is what a report says.
var bounce = tasks.Arrival{
	Status: tasks.Bounced, Code: 550, Enhanced: "5.1.1", Reply: "no such user", Remote: "mx.other.example",
}

// arrive records what became of a delivery, and checks whether that changed something.
func (s *suite) arrive(id int64, to string, a tasks.Arrival, want bool) {
	s.t.Helper()
	changed, err := s.Queue.Arrived(s.ctx, "reports", id, to, a)
	s.must("record an arrival", err)
	if changed != want {
		s.t.Fatalf("%s of the delivery to %s of task %d: changed %t, want %t", a.Status, to, id, changed, want)
	}
}

// sent is a task that was delivered to these recipients.
func (p place) sent(uid uint32, content string, to ...string) int64 {
	p.t.Helper()
	id := p.added(p.msg(uid, content, to...))
	p.finish(p.claimed(1, uid)[0], tasks.Forwarded)
	return id
}

// testArrivals: whoever reads a task, or counts, knows what became of its deliveries.
func testArrivals(s *suite) {
	p := s.place()
	id := p.sent(1, "m", ann, bob)
	p.sent(2, "other", ann)
	bounce := bounce
	bounce.Target = "member@other.example"
	s.arrive(id, ann, bounce, true)
	s.arrive(id, bob, tasks.Arrival{Status: tasks.Delayed}, true)
	s.has(id, "bounced", "delayed")
	trail, err := s.Queue.Events(s.ctx, id)
	s.must("events", err)
	e, said := trail[0], ann+" (for member@other.example): 550 5.1.1 no such user at mx.other.example"
	if e.Worker != "reports" || e.Detail != said {
		s.t.Errorf("the trail says %q by %q", e.Detail, e.Worker)
	}
	check := func(by string, ds []tasks.Delivery) {
		s.t.Helper()
		want := bounce
		if len(ds) != 2 || ds[0].Arrival == nil || ds[1].Arrival == nil {
			s.t.Fatalf("%s: the deliveries are %+v; want what became of both", by, ds)
		}
		want.At = ds[0].Arrival.At
		if *ds[0].Arrival != want || ds[1].Arrival.Status != tasks.Delayed || want.At.IsZero() {
			s.t.Errorf("%s: ann %+v, bob %+v; want %+v and delayed", by, ds[0].Arrival, ds[1].Arrival, want)
		}
	}
	s.stands(id, tasks.Forwarded)
	check("get", s.get(id).Deliveries)
	_, found := p.search(tasks.Search{Bounced: true, Limit: 5})
	if len(found.Tasks) != 1 {
		s.t.Fatalf("bounced are %+v; want one task", found.Tasks)
	}
	check("search", found.Tasks[0].Deliveries)
	if uids, _ := p.search(tasks.Search{Bounced: true, Statuses: []tasks.Status{tasks.Dead}, Limit: 5}); uids != nil {
		s.t.Errorf("dead and bounced are %v, want none", uids)
	}
	if uids := p.list(tasks.Filter{Bounced: true}); !slices.Equal(uids, []uint32{1}) {
		s.t.Errorf("listed as bounced are %v, want 1", uids)
	}
	ds, err := s.Queue.Dispositions(s.ctx, p.folder, p.epoch, 1, 1)
	s.must("dispositions", err)
	check("audit", ds[0].Deliveries)
	stats, err := s.Queue.Stats(s.ctx, []int64{p.inbox})
	s.must("stats", err)
	got := stats[p.inbox]
	want := map[tasks.ArrivalStatus]int{tasks.Bounced: 1, tasks.Delayed: 1}
	if got.Bounced != 1 || got.Bounces != 1 || !reflect.DeepEqual(got.Arrivals, want) {
		s.t.Errorf("counted %d tasks, %d lately, %v; want 1, 1, %v", got.Bounced, got.Bounces, got.Arrivals, want)
	}
	s.Age(s.t, 25*time.Hour)
	stats, err = s.Queue.Stats(s.ctx, []int64{p.inbox})
	s.must("stats", err)
	if got := stats[p.inbox]; got.Bounced != 1 || got.Bounces != 0 {
		s.t.Errorf("a day later %d tasks, %d lately; want 1, 0", got.Bounced, got.Bounces)
	}
}

// testArrivalsSayMore: what says no more than what is known changes nothing.
func testArrivalsSayMore(s *suite) {
	p := s.place()
	for i, old := range tasks.ArrivalStatuses {
		for j, next := range tasks.ArrivalStatuses {
			uid := uint32(1 + i*10 + j)
			id := p.sent(uid, string(old+next), ann)
			s.arrive(id, ann, tasks.Arrival{Status: old, Reply: "first"}, true)
			before := s.record(id)
			s.arrive(id, ann, tasks.Arrival{Status: next, Reply: "second"}, j > i)
			if after := s.record(id); j <= i && !reflect.DeepEqual(after, before) {
				s.t.Errorf("%s after %s changed the task from\n%+v to\n%+v", next, old, before, after)
			} else if got := after.task.Deliveries[0].Arrival; j > i && (got.Status != next || got.Reply != "second") {
				s.t.Errorf("%s after %s: known is %+v", next, old, got)
			}
		}
	}
}

// testArrivalsOfMember: after a report about a member of an alias, one about the recipient itself
// confirms the delivery. A second bounce changes nothing.
func testArrivalsOfMember(s *suite) {
	p := s.place()
	for i, status := range tasks.ArrivalStatuses {
		confirms := status == tasks.Confirmed || status == tasks.Complained
		own := tasks.Arrival{Status: status}
		member := tasks.Arrival{Status: status, Target: "member@other.example"}
		id := p.sent(uint32(1+i), string(status), ann)
		s.arrive(id, ann, member, true)
		s.arrive(id, ann, member, false)
		s.arrive(id, ann, own, confirms)
		s.arrive(id, ann, own, false)
		s.arrive(id, ann, member, false)
		if d := s.get(id).Deliveries[0]; d.IsConfirmed() != confirms {
			s.t.Errorf("%s of a member, then of ann: confirmed is %t, want %t", status, d.IsConfirmed(), confirms)
		}
	}
}

// testArrivalsSent: of what was not sent, nothing is recorded. A delivery whose outcome is not
// known may have been.
func testArrivalsSent(s *suite) {
	_, dead := s.bring(tasks.Dead)
	_, waiting := s.bring(tasks.Received)
	for _, id := range []int64{dead.Task.ID, waiting.Task.ID} {
		before := s.record(id)
		s.arrive(id, ann, bounce, false)
		if after := s.record(id); !reflect.DeepEqual(after, before) {
			s.t.Errorf("a bounce of what was not sent changed the task from\n%+v to\n%+v", before, after)
		}
	}
	_, unknown := s.unknownOutcome()
	s.arrive(unknown, eve, bounce, true)
	s.resolve(unknown)
	if !s.stands(unknown, tasks.Forwarded).HasBounced() {
		s.t.Error("resolved, the bounce is forgotten")
	}
	for id, to := range map[int64]string{1 << 40: ann, dead.Task.ID: "ANN@example.com"} {
		_, err := s.Queue.Arrived(s.ctx, "reports", id, to, bounce)
		s.wantErr("record a bounce of what there is not", err, tasks.ErrNotFound)
	}
}

// testArrivalsTime: the report's time counts, unless it cannot be right.
func testArrivalsTime(s *suite) {
	p := s.place()
	id := p.sent(1, "m", ann, bob, eve)
	delivered := *s.get(id).Deliveries[0].DeliveredAt
	s.Age(s.t, time.Hour)
	stats, err := s.Queue.Stats(s.ctx, []int64{p.inbox})
	s.must("stats", err)
	now := stats[p.inbox].Now
	if is := *s.get(id).Deliveries[0].DeliveredAt; is.Before(delivered) { // time passed by making it older
		delivered = is
	}
	a := bounce
	for to, at := range map[string]time.Time{
		ann: delivered.Add(2 * time.Minute), bob: delivered.Add(-2 * time.Minute), eve: now.Add(time.Hour),
	} {
		a.At = at
		s.arrive(id, to, a, true)
	}
	for i, want := range []time.Time{delivered.Add(2 * time.Minute), now, now} {
		d := s.get(id).Deliveries[i]
		if off := d.Arrival.At.Sub(want); off.Abs() > 30*time.Second {
			s.t.Errorf("%s bounced at %s, want %s", d.Recipient, d.Arrival.At, want)
		}
	}
	const want = "bounced: 550 5.1.1 no such user at mx.other.example, 2 minutes after it was accepted"
	if got := s.get(id).Deliveries[0].Became(); got != want {
		s.t.Errorf("ann: %s; want %s", got, want)
	}
}

// testArrivalsRace: of many who record the same, one does.
func testArrivalsRace(s *suite) {
	id := s.place().sent(1, "m", ann)
	var changed atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			q := []tasks.Queue{s.Queue, s.Other}[i%2]
			ok, err := q.Arrived(s.ctx, "reports", id, ann, bounce)
			if err != nil {
				s.t.Errorf("record a bounce: %v", err)
			}
			if ok {
				changed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := changed.Load(); n != 1 {
		s.t.Errorf("%d of 8 changed something, want one", n)
	}
	s.has(id, "bounced")
}

// testArrivalsPurged: what is known of a task goes with it.
func testArrivalsPurged(s *suite) {
	p := s.place()
	purged, old := p.sent(1, "a", ann), p.sent(2, "b", ann)
	for _, id := range []int64{purged, old} {
		s.arrive(id, ann, bounce, true)
	}
	s.purge(purged)
	p.purgeForwarded()
	stats, err := s.Queue.Stats(s.ctx, []int64{p.inbox})
	s.must("stats", err)
	if got := stats[p.inbox]; got.Bounced != 0 || len(got.Arrivals) != 0 {
		s.t.Errorf("purged, %d tasks are bounced, %v; want none", got.Bounced, got.Arrivals)
	}
	_, err = s.Queue.Arrived(s.ctx, "reports", old, ann, bounce)
	s.wantErr("record a bounce of a purged task", err, tasks.ErrNotFound)
}

// testSentAs: the newest first, of those that went out within the time, by the exact Message-ID.
func testSentAs(s *suite) {
	a, b := s.place(), s.place()
	same := func(uid uint32, content string) tasks.Entry {
		e := s.msg(uid, content)
		e.Identity.MessageID = "<Same@" + s.t.Name() + ">"
		return e
	}
	add := func(p place, uid uint32, content string) int64 {
		id := p.added(same(uid, content))
		s.finish(p.claimed(1, uid)[0], tasks.Forwarded)
		return id
	}
	old := add(a, 1, "old")
	s.Age(s.t, 2*time.Hour)
	one, two := add(a, 2, "one"), add(b, 1, "two")
	a.added(same(3, "not sent"))
	check := func(id string, within time.Duration, want ...int64) {
		s.t.Helper()
		got, err := s.Queue.SentAs(s.ctx, id, within)
		if err != nil || !slices.Equal(got, want) {
			s.t.Errorf("sent as %s within %s: %v, %v; want %v", id, within, got, err, want)
		}
	}
	check("<Same@"+s.t.Name()+">", time.Hour, two, one)
	check("<Same@"+s.t.Name()+">", 3*time.Hour, two, one, old)
	check("<same@"+s.t.Name()+">", 3*time.Hour)
	check("", 3*time.Hour)
	for uid := range uint32(tasks.SentAsMost) {
		add(b, 10+uid, "more"+string(rune('a'+uid)))
	}
	got, err := s.Queue.SentAs(s.ctx, "<Same@"+s.t.Name()+">", time.Hour)
	if err != nil || len(got) != tasks.SentAsMost || slices.Contains(got, two) {
		s.t.Errorf("of many: %v, %v; want the newest %d", got, err, tasks.SentAsMost)
	}
}

// testEarlier: a report that was made well before the delivery is about an attempt before the task
// was requeued, and says nothing of this one. If nobody requeued it, the clock was wrong when the
// delivery was recorded.
func testEarlier(s *suite) {
	p, to := s.place(), "ann@"+s.t.Name()
	id := p.sent(1, "a", to)
	before := func(d time.Duration) tasks.Arrival {
		a := bounce
		a.At = s.get(id).Deliveries[0].DeliveredAt.Add(-d)
		return a
	}
	s.arrive(id, to, before(61*time.Minute), true)
	s.requeue(id)
	p.finish(p.claimed(1, 1)[0], tasks.Forwarded)
	s.arrive(id, to, before(61*time.Minute), false)
	s.arrive(id, to, before(59*time.Minute), true) // clocks differ
}

// notOfMailbox are bounces for which the recipient is not at fault.
var notOfMailbox = []tasks.Arrival{
	{Status: tasks.Bounced, Code: 554, Enhanced: "5.7.1", Reply: "looks like spam"},
	{Status: tasks.Bounced, Enhanced: "4.4.7", Reply: "expired"},
	{Status: tasks.Bounced, Code: 552, Reply: "too large"},
	{Status: tasks.Bounced, Code: 553, Enhanced: "5.1.7", Reply: "the sender is no address"},
	{Status: tasks.Bounced, Code: 553, Enhanced: "5.1.8", Reply: "the sender's domain does not exist"},
	{Status: tasks.Bounced, Code: 550, Reply: "this message was classified as spam"},
	{Status: tasks.Bounced, Code: 550, Enhanced: "5.0.0", Reply: "this message was classified as spam"},
	{Status: tasks.Bounced, Code: 550, Enhanced: "5.1.1", Reply: "no such user", Target: "member@other.example"},
}

// testBounces counts who bounced repeatedly lately.
func testBounces(s *suite) {
	p := s.place()
	bad, better := "bad@"+s.t.Name(), "better@"+s.t.Name()
	for uid := range uint32(4) {
		id := p.sent(1+uid, string(rune('a'+uid)), bad, better)
		s.arrive(id, bad, bounce, true)
		if uid == 0 {
			s.Age(s.t, 48*time.Hour)
		}
		s.arrive(id, better, tasks.Arrival{Status: tasks.Delayed}, true)
		if uid > 2 {
			s.arrive(id, better, bounce, true)
		}
	}
	for i, a := range notOfMailbox {
		s.arrive(p.sent(10+uint32(i), "other"+string(rune('a'+i)), bad), bad, a, true)
	}
	for _, c := range []struct {
		within time.Duration
		want   map[string]int
	}{
		{24 * time.Hour, map[string]int{bad: 3, better: 1}},
		{72 * time.Hour, map[string]int{bad: 4, better: 1}},
	} {
		got, err := s.Queue.Bounces(s.ctx, c.within)
		s.must("count bounces", err)
		for to := range got {
			if to != bad && to != better { // of other tests
				delete(got, to)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			s.t.Errorf("within %s: %v, want %v", c.within, got, c.want)
		}
	}
}
