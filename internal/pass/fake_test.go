package pass

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/tasks/memqueue"
)

// site is a pass over fakes: IMAP accounts, a relay, limits, leases and a registry in memory. It
// runs in a bubble of synctest: time passes only while all wait, so a test that waits for ever
// fails at once.
type site struct {
	t       *testing.T
	pass    *Pass
	queue   *fakeQueue
	boxes   *fakeInboxes
	relay   *fakeRelay
	limits  *fakeLimits
	servers map[string]*fakeServer
	log     *syncBuffer
}

const (
	boxA = "a@firm.example"
	boxB = "b@firm.example"
	team = "team@firm.example"
)

// onSite runs a test on a site with two inboxes, boxA and boxB, each with an empty INBOX.
func onSite(t *testing.T, test func(t *testing.T, s *site), rules ...route.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSite(t, rules)) })
}

func newSite(t *testing.T, rules []route.Rule) *site {
	t.Helper()
	if rules == nil {
		rules = []route.Rule{{Name: "all", To: []string{team}}}
	}
	table, err := route.Compile(rules)
	check(t, err)
	composer, err := forward.NewComposer(forward.ComposeConfig{From: "forwarder@firm.example"})
	check(t, err)
	s := &site{t: t, servers: map[string]*fakeServer{}, log: &syncBuffer{}, limits: &fakeLimits{left: -1}}
	s.queue = &fakeQueue{Queue: memqueue.New(time.Now)}
	s.boxes = &fakeInboxes{queue: s.queue.Queue}
	s.relay = &fakeRelay{t: t, queue: s.queue.Queue, limits: s.limits}
	s.pass = &Pass{
		Config: Config{
			Worker: "here:1", Lease: time.Minute, Page: 2, Turns: Turns{4, 4, anyNumber}, Senders: 2,
			MaxSize: 1 << 20, MaxReceived: 50, Dedupe: tasks.DedupeInbox,
			Style: route.Style{Mode: route.Redirect, Fallback: route.FallbackNone},
			Policy: tasks.Policy{
				MaxAttempts: 5, GiveUpAfter: 96 * time.Hour, Base: time.Minute, Max: time.Hour,
				MaxLostLeases: 3, Jitter: func() float64 { return 0.5 },
			},
		},
		Inboxes: s.boxes, Queue: s.queue, Routes: table, Composer: composer, Relay: s.relay, Limits: s.limits,
		Now: time.Now, Observer: nobody{},
		Log:  slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Dial: func(ctx context.Context, in inbox.Inbox) (Source, error) { return s.servers[in.Address].dial(ctx) },
	}
	for _, addr := range []string{boxA, boxB} {
		s.boxes.add(addr)
		s.servers[addr] = newFakeServer(t)
	}
	t.Cleanup(s.checkNothingLeft)
	return s
}

// checkNothingLeft fails the test when a body, a connection or a transaction was left open.
func (s *site) checkNothingLeft() {
	for addr, srv := range s.servers {
		srv.checkNothingLeft(addr)
	}
	if n := s.relay.open(); n > 0 {
		s.t.Errorf("%d transactions with the relay were neither sent nor reset", n)
	}
	if s.t.Failed() {
		s.t.Logf("the log:\n%s", s.log.String())
	}
}

// put stores messages with these subjects in boxA's INBOX.
func (s *site) put(subjects ...string) []uint32 { return s.servers[boxA].put("INBOX", subjects...) }

// start begins a pass over inboxes, boxA when none is named.
func (s *site) start(ctx context.Context, addrs ...string) <-chan Report {
	if len(addrs) == 0 {
		addrs = []string{boxA}
	}
	return s.startOver(ctx, s.inboxes(addrs)...)
}

func (s *site) startOver(ctx context.Context, boxes ...inbox.Inbox) <-chan Report {
	done := make(chan Report, 1)
	go func() { done <- s.pass.Run(ctx, boxes) }()
	return done
}

func (s *site) inboxes(addrs []string) (boxes []inbox.Inbox) {
	s.t.Helper()
	for _, addr := range addrs {
		in, err := s.boxes.Get(s.t.Context(), addr)
		check(s.t, err)
		boxes = append(boxes, in)
	}
	return boxes
}

func (s *site) end(done <-chan Report) Report {
	s.t.Helper()
	return soon(s.t, "the pass ends", done)
}

func (s *site) run(addrs ...string) Report {
	s.t.Helper()
	return s.end(s.start(s.t.Context(), addrs...))
}

// soon waits for something to come out of a channel. An hour passes at once when all others wait.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Hour):
		t.Fatalf("waited in vain until %s", what)
		panic("unreachable")
	}
}

// registered stores messages and registers them, and forwards nothing.
func (s *site) registered(addr string, subjects ...string) {
	s.t.Helper()
	s.servers[addr].put("INBOX", subjects...)
	s.scan(addr)
}

// scan is a pass whose deliverer does nothing.
func (s *site) scan(addr string) {
	s.t.Helper()
	in, err := s.boxes.Get(s.t.Context(), addr)
	check(s.t, err)
	w := s.process().Hold(in)
	defer w.Close()
	w.cache.close()
	lease, busy, err := acquireScan(s.t.Context(), s.pass, in)
	check(s.t, err)
	if busy != nil {
		s.t.Fatalf("the scan is held: %+v", busy)
	}
	check(s.t, lease.hold(s.t.Context(), w.log, w.scanner(lease, func() {}).run))
}

// process is what a pass shares among its inboxes.
func (s *site) process() *Process {
	pr := s.pass.process()
	pr.hosts = newHosts()
	return pr
}

// crashed lets a worker claim what is due of an inbox and die.
func (s *site) crashed(addr string) {
	s.t.Helper()
	in, err := s.boxes.Get(s.t.Context(), addr)
	check(s.t, err)
	_, err = s.queue.Queue.Receive(s.t.Context(), tasks.Want{
		InboxID: in.ID, Max: 100, Lease: time.Second, Worker: "dead:1", MaxLostLeases: 3,
	})
	check(s.t, err)
	time.Sleep(2 * time.Second)
}

// holdUp is a hook by which a method of an inbox waits until messages have come to the relay.
func (s *site) holdUp(addr, method string, subjects ...string) func(string, int64) error {
	in, err := s.boxes.Get(s.t.Context(), addr)
	check(s.t, err)
	return func(called string, id int64) error {
		if called == method && id == in.ID {
			s.relay.await(subjects...)
		}
		return nil
	}
}

// steal claims a task for another worker, whoever has it.
func (s *site) steal(id int64) {
	_, _ = s.queue.Extend(s.t.Context(), -time.Minute, s.queue.receipts(id))
	one, err := s.queue.Get(s.t.Context(), id)
	check(s.t, err)
	claims, err := s.queue.Queue.Receive(s.t.Context(), tasks.Want{
		InboxID: one.InboxID, Max: 1, Lease: time.Hour, Worker: "thief:1", MaxLostLeases: 3,
	})
	check(s.t, err)
	if len(claims) != 1 || claims[0].Task.ID != id {
		s.t.Errorf("the other worker claimed %v, want task %d", claims, id)
	}
}

func (s *site) tasks() []tasks.Task {
	var all []tasks.Task
	check(s.t, s.queue.List(s.t.Context(), tasks.Filter{}, func(one tasks.Task) error {
		all = append(all, one)
		return nil
	}))
	slices.SortFunc(all, func(a, b tasks.Task) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// task is the task of the message with this subject.
func (s *site) task(subject string) tasks.Task {
	s.t.Helper()
	for _, one := range s.tasks() {
		if one.Identity.Subject == subject {
			return one
		}
	}
	s.t.Fatalf("no task has the subject %q", subject)
	return tasks.Task{}
}

// want checks the tasks, in their order: "SUBJECT STATUS ATTEMPTS".
func (s *site) want(want ...string) {
	s.t.Helper()
	var got []string
	for _, one := range s.tasks() {
		got = append(got, fmt.Sprintf("%s %s %d", one.Identity.Subject, one.Status, one.Attempts))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the tasks are\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// wantSent checks the messages that the relay has got, in any order: "SUBJECT" or "SUBJECT
// RECIPIENT".
func (s *site) wantSent(want ...string) {
	s.t.Helper()
	got := s.relay.subjects()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("the relay has got %q, want %q", got, want)
	}
}

// wantNoError checks that the pass worked its inboxes through.
func (s *site) wantNoError(rep Report) {
	s.t.Helper()
	for _, in := range rep.Inboxes {
		if in.Error != "" {
			s.t.Errorf("%s reports the error %q, want none", in.Email, in.Error)
		}
	}
}

// wantError checks that an inbox reports an error.
func (s *site) wantError(in InboxReport, part string) {
	s.t.Helper()
	if !strings.Contains(in.Error, part) {
		s.t.Errorf("%s reports the error %q, want one with %q", in.Email, in.Error, part)
	}
}

// wantDials checks how often boxA's server was connected to.
func (s *site) wantDials(want int) {
	s.t.Helper()
	if dials, _ := s.servers[boxA].counts(); dials != want {
		s.t.Errorf("%d connections, want %d", dials, want)
	}
}

// wantLog checks that one line of the log has all the parts.
func (s *site) wantLog(parts ...string) {
	s.t.Helper()
	for line := range strings.Lines(s.log.String()) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			return
		}
	}
	s.t.Errorf("no line of the log has all of %q", parts)
}

// fakeMail is a message as a server has it.
func fakeMail(subject string) []byte {
	return []byte("From: ann@client.example\r\nTo: " + boxA + "\r\nSubject: " + subject +
		"\r\nMessage-ID: <" + subject + "@client.example>\r\n\r\nhello\r\n")
}

// spooled parses a message.
func spooled(t *testing.T, spool *message.Spooler, raw []byte) *message.Message {
	t.Helper()
	body := spool.New()
	_, err := body.Write(raw)
	check(t, err)
	m, err := message.Parse(body)
	check(t, err)
	return m
}
