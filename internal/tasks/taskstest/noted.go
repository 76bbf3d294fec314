package taskstest

import (
	"fmt"
	"reflect"
	"time"

	"postrider/internal/tasks"
)

var notedTests = map[string]func(*suite){
	"noted":            testNoted,
	"noted/read later": testNotedReadLater,
	"noted/restate":    testRestate,
}

// stated is the message with what the server says of it.
func stated(e tasks.Entry, at time.Time, size int64) tasks.Entry {
	read := e.Read()
	e.Stated = tasks.Stated{Received: at, Size: size}
	if !read {
		e.Identity.Fingerprint = e.Outline()
	}
	return e
}

// noted checks what the ledger has of all messages of the folder, also by their dispositions.
func (p place) noted(want ...tasks.Noted) {
	p.t.Helper()
	got, err := p.Queue.Noted(p.ctx, p.folder, p.epoch, 0, 1<<32-1)
	p.must("noted", err)
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		p.t.Errorf("the ledger has\n%+v, want\n%+v", got, want)
	}
	ds, err := p.Queue.Dispositions(p.ctx, p.folder, p.epoch, 0, 1<<32-1)
	p.must("dispositions", err)
	for i, d := range ds {
		if i < len(want) && !reflect.DeepEqual(d.Noted, want[i]) {
			p.t.Errorf("UID %d is disposed as\n%+v, want\n%+v", d.UID, d.Noted, want[i])
		}
	}
}

// testNoted: the ledger keeps what the server says of a message, to the second, also when its task
// is purged.
func testNoted(s *suite) {
	p := s.place()
	at := time.Date(2026, 3, 1, 12, 30, 5, 123456789, time.FixedZone("", 3600))
	year1 := time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	before := stated(s.unread(2, "before"), at, 100)
	s.must("baseline", s.Queue.Baseline(s.ctx, p.page(before)))
	read, unread := stated(s.msg(3, "m"), at, 200), stated(s.unread(4, "u"), year1, 1<<40)
	silent := stated(s.msg(9, "silent"), time.Time{}, 0)
	p.became([]tasks.Entry{read, unread, silent}, "new", "new", "new")
	utc := time.Date(2026, 3, 1, 11, 30, 5, 0, time.UTC)
	want := []tasks.Noted{
		{UID: 2, Fingerprint: before.Outline(), Stated: tasks.Stated{Received: utc, Size: 100}},
		{UID: 3, Fingerprint: read.Identity.Fingerprint, Stated: tasks.Stated{Received: utc, Size: 200}},
		{UID: 4, Fingerprint: unread.Outline(), Stated: tasks.Stated{Received: year1.UTC(), Size: 1 << 40}},
		{UID: 9, Fingerprint: silent.Identity.Fingerprint},
	}
	p.noted(want...)
	for i, isRead := range []bool{false, true, false, true} {
		if want[i].Read() != isRead {
			s.t.Errorf("UID %d: the content is known: %t; want %t", want[i].UID, !isRead, isRead)
		}
	}
	c := p.claimed(1, 3)[0]
	s.finish(c, tasks.Forwarded)
	_, err := s.Queue.Purge(s.ctx, operatorAnn, c.Task.ID)
	s.must("purge", err)
	p.noted(want...)
	got, err := s.Queue.Noted(s.ctx, p.folder, p.epoch, 3, 4)
	s.must("noted", err)
	if !reflect.DeepEqual(got, want[1:3]) {
		s.t.Errorf("of UIDs 3 and 4 the ledger has\n%+v, want\n%+v", got, want[1:3])
	}
	p.renewed().noted()
}

// testNotedReadLater: a message is known by its content from the claim on that reads it.
func testNotedReadLater(s *suite) {
	p := s.place()
	e := stated(s.undecided(1, "m"), time.Unix(1_000_000, 0), 100)
	e.Identity = tasks.Identity{Fingerprint: e.Outline(), Size: 100}
	p.became([]tasks.Entry{e}, "new")
	id := s.identity("m")
	res := tasks.Reservation{Identity: &id, Decision: decision(ann), Dedupe: p.dedupe}
	_, err := s.Queue.Reserve(s.ctx, p.claimed(1, 1)[0].Receipt, res)
	s.must("reserve", err)
	p.noted(tasks.Noted{UID: 1, Fingerprint: id.Fingerprint, Stated: e.Stated.Seconds()})
}

// testRestate: the ledger takes over what the server says now, and keeps what it does not say.
func testRestate(s *suite) {
	p := s.place()
	at, later := time.Unix(1_000_000, 0).UTC(), time.Unix(2_000_000, 0)
	var page []tasks.Entry
	for uid := range uint32(4) {
		page = append(page, stated(s.msg(uid+1, fmt.Sprint(uid)), at, 100))
	}
	p.became(page, "new", "new", "new", "new")
	s.must("restate", s.Queue.Restate(s.ctx, p.folder, p.epoch, map[uint32]tasks.Stated{
		1: {Received: later, Size: 200}, 2: {Received: later}, 3: {Size: 300}, 77: {Size: 1},
	}))
	s.must("restate", s.Queue.Restate(s.ctx, p.folder, p.epoch+1, map[uint32]tasks.Stated{4: {Size: 1}}))
	var want []tasks.Noted
	for i, now := range []tasks.Stated{
		{Received: later.UTC(), Size: 200},
		{Received: later.UTC(), Size: 100},
		{Received: at, Size: 300},
		{Received: at, Size: 100},
	} {
		want = append(want, tasks.Noted{UID: page[i].UID, Fingerprint: page[i].Identity.Fingerprint, Stated: now})
	}
	p.noted(want...)
}
