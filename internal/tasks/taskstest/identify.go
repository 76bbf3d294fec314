package taskstest

import (
	"reflect"
	"strings"
	"time"

	"postrider/internal/tasks"
)

var identifyTests = map[string]func(*suite){
	"identify":                testIdentify,
	"identify/duplicates":     testIdentifyDuplicates,
	"identify/same message":   testIdentifyOlderEpoch,
	"identify/hostile":        testIdentifyHostile,
	"heirs/first takes place": testHeirs,
	"heirs/none":              testNoHeirs,
	"heirs/of some":           testHeirOfSome,
	"heirs/some have it":      testSomeHaveIt,
	"heirs/refused":           testHeirOfRefused,
	"heirs/refused, put back": testRefusedPutBack,
	"heirs/back":              testBack,
	"heirs/identified":        testHeirIdentified,
	"heirs/sent since":        testSentSince,
}

// testIdentify: a message that could not be read when it was registered becomes known by its content.
func testIdentify(s *suite) {
	p := s.place()
	p.register(s.unread(1, "m", ""))
	c := p.claimed(1, 1)[0]
	e := s.msg(1, "m")
	e.Date = time.Date(2026, 3, 1, 12, 30, 0, 123456000, time.UTC)
	for range 2 { // doing it twice changes nothing
		of, err := s.Queue.Identify(s.ctx, c.Receipt, e, tasks.DedupeInbox)
		if of != 0 || err != nil {
			s.t.Fatalf("identify: duplicate of %d, %v; want it to be none", of, err)
		}
	}
	got := s.stands(c.ID, tasks.InProgress)
	if got.Date == nil || !got.Date.Equal(e.Date) {
		s.t.Errorf("date %v, want %v", got.Date, e.Date)
	}
	want := c.Task
	want.Fingerprint, want.MessageID, want.Subject, want.Sender, want.Size = e.Fingerprint, e.MessageID, e.Subject, e.Sender, e.Size
	want.Date, want.UpdatedAt, want.VisibleAt = got.Date, got.UpdatedAt, got.VisibleAt
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the task reads\n%+v, want\n%+v", got, want)
	}
	s.has(c.ID)
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Forwarded, Route: "desk"}))
	p.beside("Junk").fates([]tasks.Entry{s.msg(1, "m")}, tasks.Duplicate)
	p.anew().fates([]tasks.Entry{s.msg(4, "m")}, tasks.Moved)
}

// testIdentifyDuplicates: it is told of the task of an equal message that was forwarded or is going to be, in the scope.
func testIdentifyDuplicates(s *suite) {
	for _, c := range []struct {
		name   string
		dedupe tasks.Dedupe
		where  string
		status tasks.Status
		want   bool
	}{
		{"waiting", tasks.DedupeInbox, "same inbox", tasks.Received, true},
		{"forwarded", tasks.DedupeInbox, "same inbox", tasks.Forwarded, true},
		{"in this folder", tasks.DedupeInbox, "same folder", tasks.Forwarded, true},
		{"dead", tasks.DedupeInbox, "same inbox", tasks.Dead, false},
		{"skipped", tasks.DedupeInbox, "same inbox", tasks.Skipped, false},
		{"in another inbox", tasks.DedupeInbox, "other inbox", tasks.Forwarded, false},
		{"in any inbox", tasks.DedupeAll, "other inbox", tasks.Forwarded, true},
		{"nothing counts", tasks.DedupeOff, "same folder", tasks.Forwarded, false},
	} {
		here := s.place()
		there := map[string]place{"same folder": here, "same inbox": here.beside("Junk"), "other inbox": s.place()}[c.where]
		original := there.register(s.msg(9, c.name))[0].TaskID
		if c.status != tasks.Received {
			there.finishAll(c.status)
		}
		id := here.register(s.unread(1, c.name, ""))[0].TaskID
		claims := here.receive(10)
		of, err := s.Queue.Identify(s.ctx, claims[len(claims)-1].Receipt, s.msg(1, c.name), c.dedupe)
		s.must("identify", err)
		if claims[len(claims)-1].ID != id || of != map[bool]int64{c.want: original}[true] {
			s.t.Errorf("%s: task %d is a duplicate of %d; want that of %d: %t", c.name, id, of, original, c.want)
		}
	}
}

// testIdentifyOlderEpoch: the same message in an older epoch of its folder, whatever the scope.
func testIdentifyOlderEpoch(s *suite) {
	p := s.place().under(tasks.DedupeOff)
	original := p.register(s.msg(1, "m"))[0].TaskID
	p.finishAll(tasks.Forwarded)
	p = p.anew()
	unread := s.unread(5, "not the same outline", "")
	p.register(unread)
	of, err := s.Queue.Identify(s.ctx, p.claimed(1, 5)[0].Receipt, s.msg(5, "m"), tasks.DedupeOff)
	if of != original || err != nil {
		s.t.Errorf("a duplicate of %d, %v; want of %d: it is the same message", of, err, original)
	}
}

// testIdentifyHostile: what senders write into headers must not keep a message from being identified.
func testIdentifyHostile(s *suite) {
	for _, year := range []int{-4, 1, 999, 9999, 10000} {
		p := s.place()
		p.register(s.unread(1, "m", ""))
		e := s.msg(1, "m")
		e.Date, e.Subject, e.MessageID = time.Date(year, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)), "a\xff\x00b", "<\x80@x>"
		if _, err := s.Queue.Identify(s.ctx, p.claimed(1, 1)[0].Receipt, e, tasks.DedupeInbox); err != nil {
			s.t.Errorf("identify with a date in the year %d: %v", year, err)
		}
	}
}

// testHeirs: when the original is gone before anybody got it, its first duplicate takes its place, and the others are that one's duplicates.
func testHeirs(s *suite) {
	p := s.place()
	regs := p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m"), s.msg(3, "m")}, tasks.New, tasks.Duplicate, tasks.Duplicate)
	gone := p.claimed(1, 1)[0]
	for i, heir := range []uint32{2, 3} {
		s.must("finish", s.Queue.Finish(s.ctx, gone.Receipt, tasks.Vanished(gone.Task, "expunged")))
		if got := s.stands(regs[i+1].TaskID, tasks.Received); got.Reason != "" {
			s.t.Errorf("the heir's reason is %q, want none", got.Reason)
		}
		s.has(regs[i+1].TaskID, "requeued")
		if last := s.get(regs[2].TaskID); i == 0 && last.Reason != tasks.DuplicateOf(regs[1].TaskID) {
			s.t.Errorf("the last one is skipped as %q; want as a duplicate of the heir, task %d", last.Reason, regs[1].TaskID)
		}
		gone = p.claimed(10, heir)[0]
	}
}

// testHeirOfSome: when some had got the message, the heir goes on for the others alone.
func testHeirOfSome(s *suite) {
	p := s.place()
	regs := p.fates([]tasks.Entry{s.msg(1, "m"), s.msg(2, "m")}, tasks.New, tasks.Duplicate)
	ds := []tasks.Delivery{
		{Recipient: "ann@example.com", Status: tasks.Delivered}, {Recipient: "bob@example.com", Status: tasks.Pending, Code: 450, Reply: "later"},
	}
	c := p.claimed(1, 1)[0]
	as := tasks.Form{Mode: "rewrite", ModeReason: "auto: the policy is reject"}
	s.must("sending", s.Queue.Sending(s.ctx, c.Receipt, "team", as, ds))
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: tasks.Error, Route: "team", Deliveries: ds}))
	s.Age(s.t, time.Second)
	c = p.claimed(1, 1)[0]
	s.must("finish", s.Queue.Finish(s.ctx, c.Receipt, tasks.Vanished(c.Task, "expunged")))
	if got := s.stands(regs[0].TaskID, tasks.Dead); !strings.Contains(got.Reason, "bob@example.com: 450 later") {
		s.t.Errorf("the reason is %q, want it to name who did not get it", got.Reason)
	}
	heir := p.claimed(1, 2)[0]
	if heir.Route != "team" || heir.Form != as || len(heir.Deliveries) != 2 || heir.Deliveries[0].Status != tasks.Delivered || heir.Deliveries[1].Status != tasks.Pending {
		s.t.Errorf("the heir goes by route %q as %+v to %+v; want all of it as its original", heir.Route, heir.Form, heir.Deliveries)
	}
}

// testSomeHaveIt: a copy of what somebody got, or may have got, is a duplicate, whatever became of the task, also once that is
// purged: nobody gets it twice.
func testSomeHaveIt(s *suite) {
	for _, status := range []tasks.DeliveryStatus{tasks.Delivered, tasks.Sending} {
		for _, end := range []tasks.Status{tasks.Dead, tasks.Skipped} {
			p := s.place()
			content := string(status) + string(end)
			id := p.register(s.msg(1, content))[0].TaskID
			ds := []tasks.Delivery{{Recipient: "ann@example.com", Status: status}, {Recipient: "bob@example.com", Status: tasks.Failed}}
			s.must("finish", s.Queue.Finish(s.ctx, p.claimed(1, 1)[0].Receipt, tasks.Result{Status: end, Route: "desk", Deliveries: ds}))
			p.beside("Junk").fates([]tasks.Entry{s.msg(1, content)}, tasks.Duplicate)
			copies := p.beside("Copies")
			s.purgeAll(p.inbox)
			copies.fates([]tasks.Entry{s.msg(1, content)}, tasks.Duplicate)
			p.disposed([]tasks.Disposition{{UID: 1, TaskID: id, Status: end, Purged: true}})
		}
	}
}

// purgeAll purges what stands in the inbox, duplicates last.
func (s *suite) purgeAll(inbox int64) {
	for range 2 {
		var ids []int64
		err := s.Queue.List(s.ctx, tasks.Filter{InboxID: inbox}, func(t tasks.Task) error { ids = append(ids, t.ID); return nil })
		s.must("list", err)
		_, err = s.Queue.Purge(s.ctx, "ann", ids...)
		s.must("purge", err)
	}
}

// testNoHeirs: what does not yield leaves its duplicates alone.
func testNoHeirs(s *suite) {
	for name, res := range map[string]tasks.Result{
		"forwarded":              {Status: tasks.Forwarded, Route: "desk"},
		"dead, some may have it": {Status: tasks.Dead, Route: "desk"},
	} {
		p := s.place()
		regs := p.fates([]tasks.Entry{s.msg(1, name), s.msg(2, name)}, tasks.New, tasks.Duplicate)
		s.must("finish", s.Queue.Finish(s.ctx, p.claimed(1, 1)[0].Receipt, res))
		s.stands(regs[1].TaskID, tasks.Skipped)
		p.claimed(10)
	}
}

// testBack: a task that ended because its message was not there goes on when the message shows up again.
func testBack(s *suite) {
	p := s.place()
	id := p.finished(vanished).ID
	p = p.anew()
	if got := p.fates([]tasks.Entry{s.msg(7, "m")}, tasks.Moved)[0]; got.TaskID != id {
		s.t.Errorf("task %d, want %d", got.TaskID, id)
	}
	if got := s.stands(id, tasks.Received); got.Reason != "" || got.UID != 7 {
		s.t.Errorf("reason %q, UID %d; want none, 7", got.Reason, got.UID)
	}
	s.has(id, "skipped", "requeued")
	p.claimed(1, 7)
}

// testHeirIdentified: what turns out to be a duplicate is one at once. Should its worker die, it is not sent, and should its
// original be gone, it takes its place.
func testHeirIdentified(s *suite) {
	p := s.place()
	p.register(s.msg(1, "m"))
	late := p.beside("Junk").register(s.unread(1, "m", ""))[0].TaskID
	claims := p.claimed(2, 1, 1)
	of, err := s.Queue.Identify(s.ctx, claims[1].Receipt, s.msg(1, "m"), tasks.DedupeInbox)
	if of != claims[0].ID || err != nil {
		s.t.Fatalf("a duplicate of %d, %v; want of %d", of, err, claims[0].ID)
	}
	s.stands(late, tasks.Skipped)
	s.must("finish", s.Queue.Finish(s.ctx, claims[0].Receipt, tasks.Vanished(claims[0].Task, "expunged")))
	s.stands(late, tasks.Received)
	s.has(late, "skipped", "requeued")
}

// testSentSince: what vanished and shows up again is not sent when an equal message has been sent since.
func testSentSince(s *suite) {
	p := s.place()
	p.finished(vanished)
	archive := p.beside("Archive")
	archive.fates([]tasks.Entry{s.msg(1, "m")}, tasks.New)
	archive.finishAll(tasks.Forwarded)
	p.anew().fates([]tasks.Entry{s.msg(7, "m")}, tasks.Duplicate)
	if again := p.receive(1); len(again) > 0 {
		s.t.Errorf("task %d is to be sent, want it to be a duplicate", again[0].ID)
	}
}

// testHeirOfRefused: what was refused for good leaves its place to a duplicate by another route alone. When that is refused, too, the next
// by another route has its turn, and each was tried once by its own.
func testHeirOfRefused(s *suite) {
	p := s.place()
	copied := s.msg(2, "m")
	elsewhere, nowhere := s.msg(3, "m"), s.msg(4, "m")
	elsewhere.Route, nowhere.Route = "court", ""
	fates := []tasks.Fate{tasks.New, tasks.Duplicate, tasks.Duplicate, tasks.Duplicate}
	regs := p.fates([]tasks.Entry{s.msg(1, "m"), copied, elsewhere, nowhere}, fates...)
	p.refused(p.claimed(10, 1)[0], "desk")
	s.duplicate(regs[1].TaskID, regs[0].TaskID)
	s.duplicate(regs[3].TaskID, regs[2].TaskID)
	heir, of := p.reserve(3, "m")
	if of != 0 || len(heir.Deliveries) != 0 {
		s.t.Errorf("the heir is a duplicate of task %d and goes to %v; want it to be decided on anew", of, heir.Deliveries)
	}
	p.refused(heir, "court")
	s.must("finish", s.Queue.Finish(s.ctx, p.claimed(10, 4)[0].Receipt, tasks.Result{Status: tasks.SkippedNoMatch, Yields: true, Dedupe: p.dedupe}))
	p.claimed(10)
	s.requeue(regs[0].TaskID)
	if _, of := p.reserve(1, "m"); of != 0 {
		s.t.Errorf("put back it is a duplicate of task %d, want of none: nobody got it", of)
	}
}

// refused ends a claim as refused for good by a route.
func (p place) refused(c tasks.Claim, route string) {
	p.t.Helper()
	ds := []tasks.Delivery{{Recipient: route + "@example.com", Status: tasks.Failed, Code: 550}}
	res := tasks.Result{Status: tasks.Dead, Reason: "550 no", Route: route, Deliveries: ds, Yields: true, Refused: true, Dedupe: p.dedupe}
	p.must("finish", p.Queue.Finish(p.ctx, c.Receipt, res))
}

// testRefusedPutBack: a person puts back what was refused while its copy waits in its place. One of them goes out, whichever is reserved first,
// and the copy again when the other is refused again.
func testRefusedPutBack(s *suite) {
	for _, originalFirst := range []bool{true, false} {
		p := s.place()
		copied := s.msg(2, "m")
		copied.Route = "court"
		regs := p.fates([]tasks.Entry{s.msg(1, "m"), copied}, tasks.New, tasks.Duplicate)
		p.refused(p.claimed(1, 1)[0], "desk")
		s.Age(s.t, time.Second) // what takes the place comes first
		s.requeue(regs[0].TaskID)
		claims := p.claimed(2, 2, 1)
		reserve := func(c tasks.Claim, as tasks.Entry) int64 {
			of, err := s.Queue.Identify(s.ctx, c.Receipt, as, p.dedupe)
			s.must("reserve", err)
			return of
		}
		if !originalFirst {
			if of := []int64{reserve(claims[0], copied), reserve(claims[1], s.msg(1, "m"))}; of[0] != 0 || of[1] != claims[0].ID {
				s.t.Errorf("the copy and then the original are duplicates of %d; want of none, and of the copy, %d", of, claims[0].ID)
			}
			continue
		}
		if of := []int64{reserve(claims[1], s.msg(1, "m")), reserve(claims[0], copied)}; of[0] != 0 || of[1] != claims[1].ID {
			s.t.Errorf("the original and then the copy are duplicates of %d; want of none, and of the original, %d", of, claims[1].ID)
		}
		p.refused(claims[1], "desk")
		p.claimed(10, 2)
	}
}
