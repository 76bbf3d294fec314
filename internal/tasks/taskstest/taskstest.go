// Package taskstest is the suite that every implementation of tasks.Queue passes.
//
// It knows a queue by its contract alone. What it needs from behind the queue's back (folders to
// register in, time that passes) a Fixture gives. Nothing sleeps: time passes by Age.
//
// To run it against a queue of your own, give it a fixture; memqueue's test is the shortest one to
// begin from:
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
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Fixture is a queue, and what a test does without it. All fields are required. The functions
// end the test when they fail.
type Fixture struct {
	Queue tasks.Queue
	Other tasks.Queue // the same registry in another process; Queue itself when there is only one

	Inbox    func(t *testing.T, address string) int64
	Folder   func(t *testing.T, inboxID int64, name string, epoch int64) int64
	SetEpoch func(t *testing.T, folderID, epoch int64) // and the cursor goes to 0
	Cursor   func(t *testing.T, folderID int64) (lastSeen, baseline uint32)
	// Age makes everything that is registered older by d, or sets the registry's clock forward.
	Age func(t *testing.T, d time.Duration)
	// TakeOver gives the scan lease of an inbox, whose token was 0, to another run.
	TakeOver func(t *testing.T, inboxID int64) (token int64)
	// Enable takes an inbox into use again that the queue took out of use.
	Enable func(t *testing.T, inboxID int64)
}

// Run runs the suite on one fixture, which open gives with an empty registry.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	run(t, open(t), transitionTests, registerTests, notedTests, epochTests, claimTests, offerTests, receiptTests,
		ownTests, ownEachTests, reserveTests, operatorTests, arrivalTests, disableTests, removeTests, purgeTests,
		dispositionTests, readTests, findTests, raceTests)
}

// RunRaces runs the part of the suite in which two processes own the same recipients and claim the
// same tasks.
func RunRaces(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	run(t, open(t), ownTests, ownEachTests, raceTests)
}

func run(t *testing.T, f Fixture, groups ...map[string]func(*suite)) {
	t.Helper()
	for _, group := range groups {
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
	lease    = 5 * time.Minute
	epoch    = 7
	revision = "r1" // of the rules in force

	ann, bob, eve = "ann@example.com", "bob@example.com", "eve@example.com"
)

// place makes an inbox with one folder.
func (s *suite) place() place {
	s.t.Helper()
	s.n++
	inbox := s.Inbox(s.t, fmt.Sprintf("%x-%d@example.com", sha256.Sum256([]byte(s.t.Name())), s.n))
	folder := s.Folder(s.t, inbox, "INBOX", epoch)
	return place{suite: s, inbox: inbox, folder: folder, epoch: epoch, dedupe: tasks.DedupeInbox}
}

// places makes n inboxes that share the scope of deduplication.
func (s *suite) places(n int) []place {
	s.t.Helper()
	var out []place
	for range n {
		out = append(out, s.place().under(tasks.DedupeAll))
	}
	return out
}

// beside makes another folder in the same inbox.
func (p place) beside(name string) place {
	p.t.Helper()
	p.folder = p.Folder(p.t, p.inbox, name, p.epoch)
	return p
}

// renewed begins a new epoch in the folder.
func (p place) renewed() place {
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

// msg is a message that goes to these recipients, to ann when there are none. Messages of one
// content, in one test, are equal.
func (s *suite) msg(uid uint32, content string, to ...string) tasks.Entry {
	return tasks.Entry{
		UID: uid, Stated: s.said(content), Identity: s.identity(content), Decision: decision(to...),
	}
}

// undecided is a message whose recipients are decided at its first claim.
func (s *suite) undecided(uid uint32, content string) tasks.Entry {
	e := s.msg(uid, content)
	e.Decision = nil
	return e
}

// unread is a message whose content is not known.
func (s *suite) unread(uid uint32, content string) tasks.Entry {
	said := s.said(content)
	return tasks.Entry{UID: uid, Stated: said, Identity: tasks.Identity{Fingerprint: said.Outline(), Size: 4096}}
}

// said is what servers say of messages of one content.
func (s *suite) said(content string) tasks.Stated { return saidOf(s.hash("outline", content)) }

// saidOf is the same for the same hash, and something else for another one.
func saidOf(hash message.Fingerprint) tasks.Stated {
	return tasks.Stated{Size: 1 + int64(binary.BigEndian.Uint32(hash[:]))}
}

// tooLarge is an unread message that is skipped for its size.
func (s *suite) tooLarge(uid uint32, content string) tasks.Entry {
	e := s.unread(uid, content)
	e.Decision = &tasks.Decision{Revision: revision, Skip: tasks.SkipTooLarge, Reason: "too_large: 60 MiB"}
	return e
}

func (s *suite) identity(content string) tasks.Identity {
	return tasks.Identity{
		Fingerprint: s.hash("content", content), MessageID: "<" + content + "@example.com>",
		Subject: content, Sender: "sender@example.com", Size: 4096,
	}
}

func decision(to ...string) *tasks.Decision {
	if len(to) == 0 {
		to = []string{ann}
	}
	return &tasks.Decision{Revision: revision, Route: "desk", Recipients: to}
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

// added registers one message and returns the id of its task.
func (p place) added(e tasks.Entry) int64 {
	p.t.Helper()
	return p.register(e)[0].TaskID
}

// became registers a page and checks what became of each entry: known, moved, new (and due), waits,
// or why nobody gets it.
func (p place) became(entries []tasks.Entry, want ...string) []tasks.Registration {
	p.t.Helper()
	regs := p.register(entries...)
	var got []string
	for _, r := range regs {
		got = append(got, p.fate(r))
	}
	if !slices.Equal(got, want) {
		p.t.Fatalf("the entries became %q, want %q", got, want)
	}
	return regs
}

func (s *suite) fate(r tasks.Registration) string {
	s.t.Helper()
	switch {
	case r.Fate == tasks.Known:
		return "known"
	case r.Fate == tasks.Moved:
		return "moved"
	case r.Skip != "":
		return string(r.Skip)
	case r.Status != tasks.Received:
		return string(r.Status)
	case r.TaskID != 0 && tasks.OnlyWaits(s.get(r.TaskID).Deliveries):
		return "waits"
	}
	return "new"
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
		s.t.Fatalf("a task that is %s: visible_at set %t; it belongs to live tasks, and to them alone",
			task.Status, live)
	}
	if ended := task.FinishedAt != nil; ended != task.Status.Ended() {
		s.t.Fatalf("a task that is %s: finished_at set %t; it belongs to ended tasks, and to them alone",
			task.Status, ended)
	}
	if skipped := task.Skip != ""; skipped != (task.Status == tasks.Skipped) {
		s.t.Fatalf("a task that is %s has the skip reason %q; it belongs to skipped tasks, and to them alone",
			task.Status, task.Skip)
	}
	return task
}

// standing says how far each recipient got: "ann delivered, bob waits for 7, eve duplicate of 8".
func standing(ds []tasks.Delivery) string {
	var out []string
	for _, d := range ds {
		is := string(d.Status)
		switch {
		case d.Waits():
			is = fmt.Sprintf("waits for %d", d.DuplicateOf)
		case d.DuplicateOf != 0:
			is += fmt.Sprintf(" of %d", d.DuplicateOf)
		}
		out = append(out, strings.TrimSuffix(d.Recipient, "@example.com")+" "+is)
	}
	return strings.Join(out, ", ")
}

// recipients checks how far the recipients of a task got, as standing says it.
func (s *suite) recipients(id int64, want string, args ...any) {
	s.t.Helper()
	want = fmt.Sprintf(want, args...)
	if got := standing(s.get(id).Deliveries); got != want {
		s.t.Fatalf("the recipients of task %d: %s; want: %s", id, got, want)
	}
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
