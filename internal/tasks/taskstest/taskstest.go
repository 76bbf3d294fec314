// Package taskstest is the suite that every implementation of tasks.Queue passes.
//
// It knows a queue by its contract alone. What it needs from behind the queue's back (folders to register in, time that
// passes) a Fixture gives. Nothing sleeps: long times pass by Age, short ones inside Receive.
//
// To run it against a queue of your own, give it a fixture; memqueue's test is the shortest one to begin from:
//
//	func TestQueue(t *testing.T) {
//		taskstest.Run(t, func(t *testing.T) taskstest.Fixture {
//			return taskstest.Fixture{Queue: mine, Other: mineAgain, Inbox: ..., Folder: ..., Age: ...}
//		})
//	}
package taskstest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Fixture is a queue and what a test does behind its back, all of which has to be given. The functions end the test when
// they fail.
type Fixture struct {
	Queue tasks.Queue
	Other tasks.Queue // the same registry, as another process has it open; Queue itself when it lives in one

	Inbox    func(t *testing.T, address string) int64
	Folder   func(t *testing.T, inboxID int64, name string, epoch int64) int64
	SetEpoch func(t *testing.T, folderID, epoch int64) // and the cursor goes to 0
	Cursor   func(t *testing.T, folderID int64) (lastSeen, baseline uint32)
	// Age makes everything that is registered older by d, or sets the registry's clock forward. Nobody waits in Receive then.
	Age func(t *testing.T, d time.Duration)
	// TakeOver gives the scan lease of an inbox, whose token was 0, to another run.
	TakeOver func(t *testing.T, inboxID int64) (token int64)
	// Enable takes an inbox into use again that the queue took out of use.
	Enable func(t *testing.T, inboxID int64)
}

// Run runs the suite on one fixture, which open gives with an empty registry.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	f := open(t)
	for _, group := range []map[string]func(*suite){
		transitionTests, registerTests, dedupeTests, epochTests, claimTests, waitTests, receiptTests, identifyTests, personTests, fenceTests, purgeTests,
		dispositionTests, readTests, raceTests, reserveTests, disableTests,
	} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				test(&suite{Fixture: f, t: t, ctx: ctx})
			})
		}
	}
}

// suite is one test on the fixture. Each test has inboxes and contents of its own.
type suite struct {
	Fixture
	t   *testing.T
	ctx context.Context
	n   int // inboxes made
}

// place is a folder to register in.
type place struct {
	*suite
	inbox, folder, epoch int64
	dedupe               tasks.Dedupe
}

const (
	lease = 5 * time.Minute
	epoch = 7
)

// place makes an inbox with one folder.
func (s *suite) place() place {
	s.t.Helper()
	s.n++
	inbox := s.Inbox(s.t, fmt.Sprintf("%x-%d@example.com", sha256.Sum256([]byte(s.t.Name())), s.n))
	return place{suite: s, inbox: inbox, folder: s.Folder(s.t, inbox, "INBOX", epoch), epoch: epoch, dedupe: tasks.DedupeInbox}
}

// beside makes another folder in the same inbox.
func (p place) beside(name string) place {
	p.t.Helper()
	p.folder = p.Folder(p.t, p.inbox, name, p.epoch)
	return p
}

// anew begins a new epoch in the folder.
func (p place) anew() place {
	p.t.Helper()
	p.epoch++
	p.SetEpoch(p.t, p.folder, p.epoch)
	return p
}

// under is the place with another scope of deduplication.
func (p place) under(d tasks.Dedupe) place {
	p.dedupe = d
	return p
}

// msg is a message that will be forwarded. Messages of one content, in one test, are equal.
func (s *suite) msg(uid uint32, content string) tasks.Entry {
	return tasks.Entry{
		UID: uid, Fingerprint: s.hash("content", content), Outline: s.hash("outline", content),
		MessageID: "<" + content + "@example.com>", Subject: content, Sender: "ann@example.com", Size: 4096, Route: "desk",
	}
}

// unread is the same message when its content is not known.
func (s *suite) unread(uid uint32, content, skip string) tasks.Entry {
	o := s.hash("outline", content)
	return tasks.Entry{UID: uid, Fingerprint: o, Outline: o, Size: 4096, Skip: skip, Route: "desk"}
}

func (s *suite) hash(what, content string) message.Fingerprint {
	return sha256.Sum256([]byte(s.t.Name() + what + content))
}

func (p place) page(entries ...tasks.Entry) tasks.Page {
	page := tasks.Page{InboxID: p.inbox, FolderID: p.folder, Epoch: p.epoch, Entries: entries, Dedupe: p.dedupe}
	for _, e := range entries {
		page.Cursor = max(page.Cursor, e.UID)
	}
	return page
}

// register registers one page.
func (p place) register(entries ...tasks.Entry) []tasks.Registration {
	p.t.Helper()
	regs, err := p.Queue.Register(p.ctx, p.page(entries...))
	p.must("register", err)
	if len(regs) != len(entries) {
		p.t.Fatalf("register: %d registrations for %d entries, want one each", len(regs), len(entries))
	}
	for i, r := range regs {
		if r.UID != entries[i].UID {
			p.t.Fatalf("register: registration %d is of UID %d, want them in the order of the entries", i, r.UID)
		}
	}
	return regs
}

// fates registers a page and checks what became of it.
func (p place) fates(entries []tasks.Entry, want ...tasks.Fate) []tasks.Registration {
	p.t.Helper()
	regs := p.register(entries...)
	var got []tasks.Fate
	for _, r := range regs {
		got = append(got, r.Fate)
	}
	if !slices.Equal(got, want) {
		p.t.Fatalf("fates %v, want %v (0 new, 1 skipped, 2 duplicate, 3 known, 4 moved)", got, want)
	}
	return regs
}

func (p place) want(n int) tasks.Want {
	return tasks.Want{InboxID: p.inbox, Max: n, Lease: lease, Worker: "worker", MaxLostLeases: 3}
}

// receive claims at most n tasks.
func (p place) receive(n int) []tasks.Claim {
	p.t.Helper()
	claims, err := p.Queue.Receive(p.ctx, p.want(n))
	p.must("receive", err)
	return claims
}

// claimed claims and checks the UIDs.
func (p place) claimed(n int, uids ...uint32) []tasks.Claim {
	p.t.Helper()
	claims := p.receive(n)
	var got []uint32
	for _, c := range claims {
		got = append(got, c.UID)
	}
	if !slices.Equal(got, uids) {
		p.t.Fatalf("claimed the UIDs %v, want %v", got, uids)
	}
	return claims
}

// claim registers one message and claims it.
func (p place) claim() tasks.Claim {
	p.t.Helper()
	p.register(p.msg(1, "m"))
	return p.claimed(1, 1)[0]
}

// finished registers one message and finishes it with the result.
func (p place) finished(res tasks.Result) tasks.Claim {
	p.t.Helper()
	c := p.claim()
	if res.Missed != nil {
		res.Missed = &tasks.Place{Epoch: c.Epoch, UID: c.UID}
	}
	p.must("finish", p.Queue.Finish(p.ctx, c.Receipt, res))
	return c
}

// now is the registry's clock. It may be far ahead of the test's, by what Age said has passed.
func (p place) now() time.Time {
	p.t.Helper()
	stats, err := p.Queue.Stats(p.ctx, p.inbox)
	p.must("stats", err)
	return stats.Now
}

func (s *suite) get(id int64) tasks.Task {
	s.t.Helper()
	task, err := s.Queue.Get(s.ctx, id)
	s.must("get", err)
	return task
}

// stands checks a task's status and returns the task.
func (s *suite) stands(id int64, want tasks.Status) tasks.Task {
	s.t.Helper()
	task := s.get(id)
	if task.Status != want {
		s.t.Fatalf("the task is %s (%s), want %s", task.Status, task.Reason, want)
	}
	if live := task.VisibleAt != nil; live == task.Status.Ended() {
		s.t.Fatalf("a task that is %s: visible_at set %t; it belongs to live tasks, and to them alone", task.Status, live)
	}
	if ended := task.FinishedAt != nil; ended != task.Status.Ended() {
		s.t.Fatalf("a task that is %s: finished_at set %t; it belongs to ended tasks, and to them alone", task.Status, ended)
	}
	return task
}

// events are the names of a task's events.
func (s *suite) events(id int64) []string {
	s.t.Helper()
	events, err := s.Queue.Events(s.ctx, id)
	s.must("events", err)
	var names []string
	for _, e := range events {
		names = append(names, e.Event)
	}
	return names
}

// has checks the names of a task's events.
func (s *suite) has(id int64, want ...string) {
	s.t.Helper()
	if got := s.events(id); !slices.Equal(got, want) {
		s.t.Fatalf("the audit trail has %q, want %q", got, want)
	}
}

func (s *suite) must(doing string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", doing, err)
	}
}

// lostTo checks that a lease was lost, and that the error says why.
func (s *suite) lostTo(doing string, err error, why string) {
	s.t.Helper()
	if s.wantErr(doing, err, tasks.ErrLeaseLost); !strings.Contains(err.Error(), why) {
		s.t.Errorf("%s: %v, want it to say that %s", doing, err, why)
	}
}

func (s *suite) wantErr(doing string, err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("%s: error %v, want %v", doing, err, want)
	}
}
