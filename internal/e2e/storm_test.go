//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// storm is an installation with one kind of fault. In each round messages arrive, a pass begins,
// and the fault is injected. In the end passes run without faults until all messages are forwarded.
type storm struct {
	*world
	fault    fault
	box      string // the folder of all inboxes
	mail     map[string][][]byte
	injected atomic.Int64
	calm     atomic.Bool     // no more faults: the relay accepts
	sending  map[string]bool // Message-IDs in flight when a pass ended or stopped
}

// fault is one kind of fault.
type fault struct {
	name   string
	kinds  []string // of databases
	rounds int
	relay  func(s *storm, e smtpsink.Event) smtpsink.Action // nil: accepts everything
	before func(s *storm)                                   // before the first inbox is added
	strike func(s *storm, p *process)                       // while the pass p runs; may be nil
	after  func(s *storm)                                   // after each round; may be nil
}

var onServers = []string{"mariadb", "mysql"}

var faults = []fault{
	{name: "kill -9 of a pass", kinds: all, rounds: 25, strike: kill},
	{name: "a pass stopped for longer than its lease, another takes over, the first wakes up", kinds: all, rounds: 3, strike: stop},
	{name: "three passes at once, one killed", kinds: all, rounds: 5, strike: overlap},
	{name: "IMAP connection cut", kinds: []string{"sqlite"}, rounds: 10, before: cutIMAP},
	{name: "database connection cut", kinds: onServers, rounds: 6, before: cutDatabase},
	{name: "database restarted", kinds: onServers, rounds: 2, strike: restart},
	{name: "database node killed, three hosts on three nodes", kinds: []string{"galera"}, rounds: 1, strike: harmNode((*testserver.GaleraNode).Kill)},
	{name: "database node stopped, three hosts on three nodes", kinds: []string{"galera"}, rounds: 1, strike: harmNode((*testserver.GaleraNode).Stop)},
	{name: "database node cut off from the others", kinds: []string{"galera", "balancer"}, rounds: 1, strike: harmNode((*testserver.GaleraNode).Isolate)},
	{name: "relay hangs up, at any command", kinds: []string{"sqlite"}, rounds: 10, relay: hangUp},
	{name: "relay takes the message and hangs up", kinds: []string{"sqlite", "mariadb"}, rounds: 5, relay: takeAndHangUp},
	{name: "relay answers 4xx, at any command", kinds: []string{"sqlite"}, rounds: 5, relay: refuse},
	{name: "folder deleted and made again (UIDVALIDITY) while messages wait", kinds: []string{"sqlite", "mariadb"}, rounds: 4, relay: refuseHalf, after: recreateFolder},
}

// TestFaults injects each fault. No message may be lost, and one may arrive twice only if it was
// `sending` when a pass ended or stopped. POSTRIDER_FAULTS multiplies the rounds; `scripts/faults`
// makes a table of the results.
func TestFaults(t *testing.T) {
	for i, f := range faults {
		t.Run(fmt.Sprint(i), func(t *testing.T) { // the name of a test is a part of paths
			t.Log(f.name)
			for _, kind := range f.kinds {
				t.Run(kind, func(t *testing.T) { newStorm(t, kind, f).rage(f.rounds * times()) })
			}
		})
	}
}

func newStorm(t *testing.T, kind string, f fault) *storm {
	s := &storm{
		world: newWorld(t, kind), fault: f, box: "Cases",
		mail: map[string][][]byte{"desk@firm.example": nil, "court@firm.example": nil}, sending: map[string]bool{},
	}
	s.extra = "retry: {base: 1s, max: 1s, max_lost_leases: 10}\nconcurrency: {host: HOST, lease: 1s, page: 20}\n"
	s.startSink(func(e smtpsink.Event) smtpsink.Action {
		var a smtpsink.Action
		if f.relay != nil && !s.calm.Load() {
			a = f.relay(s, e)
			if f.after == nil && (a.Drop || a.AcceptAndDrop || a.Code != 0) {
				s.injected.Add(1)
			}
		}
		a.Block = slowly(e, 20*time.Millisecond).Block
		return a
	})
	if f.before != nil {
		f.before(s)
	}
	s.configure()
	for address := range s.mail {
		s.addInbox(address, "--start", "all", "--folder", s.box)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("status in the end:\n%s", s.ended(s.start(nil, "status")).stdout)
		}
	})
	return s
}

// rage runs the rounds, and then passes without faults.
func (s *storm) rage(rounds int) {
	for range rounds {
		s.arrive(30)
		p := s.start(nil, "run")
		if s.fault.strike != nil {
			s.fault.strike(s, p)
		}
		s.ended(p)
		s.look()
		if s.fault.after != nil {
			s.fault.after(s)
		}
	}
	s.calm.Store(true)
	s.drain()
	s.must(0, "audit")
	s.tally()
}

// drain does passes until all messages are forwarded. A minute in which nothing arrives is an error.
func (s *storm) drain() {
	s.t.Helper()
	arrived, since := -1, time.Now()
	for {
		s.one()
		if s.look() {
			return
		}
		if n := len(s.sink.Messages()); n > arrived {
			arrived, since = n, time.Now()
		} else if time.Since(since) > time.Minute {
			s.t.Fatal("for a minute nothing arrived, and not all messages are forwarded")
		}
	}
}

// arrive lays n messages into each inbox.
func (s *storm) arrive(n int) {
	s.t.Helper()
	for address := range s.mail {
		msgs := mails(n, address)
		s.imap.Append(s.t, address, s.box, msgs...)
		s.mail[address] = append(s.mail[address], msgs...)
	}
}

// one does one pass.
func (s *storm) one(args ...string) result {
	return s.ended(s.start(nil, append([]string{"run"}, args...)...))
}

// ended waits for a pass to end. It must not end with 1 or 2.
func (s *storm) ended(p *process) result {
	s.t.Helper()
	res := p.wait()
	if res.code != 0 && res.code != 75 && res.code != -1 {
		s.t.Errorf("a pass ended with exit %d\n%s", res.code, res.stderr)
	}
	return res
}

// look records what is being sent, and reports whether all messages are forwarded.
func (s *storm) look() bool {
	s.t.Helper()
	tasks, total := s.tasks(), 0
	for _, msgs := range s.mail {
		total += len(msgs)
	}
	done := len(tasks) == total
	for _, one := range tasks {
		if one.Status == "dead" {
			s.t.Fatalf("task %d is dead: %s", one.ID, one.Reason)
		}
		done = done && one.Status == "forwarded"
		for _, d := range one.Deliveries {
			if d.Status == "sending" {
				s.sending[one.MessageID] = true
			}
		}
	}
	return done
}

// tally checks what arrived, and prints a line for the table.
func (s *storm) tally() {
	s.t.Helper()
	got := s.arrived()
	total, lost, repeated := 0, 0, 0
	for _, msgs := range s.mail {
		for _, raw := range msgs {
			id := idOf(s.t, raw)
			total++
			if got[id] == 0 {
				lost++
			}
			if got[id] > 1 {
				repeated += got[id] - 1
				if !s.sending[id] && !s.mayHaveArrived(id) {
					s.t.Errorf("message %s arrived %d times, and was not being sent when a pass ended", id, got[id])
				}
			}
		}
	}
	if lost > 0 {
		s.t.Errorf("%d of %d messages were lost", lost, total)
	}
	if s.injected.Load() == 0 {
		s.t.Error("no fault was injected")
	}
	s.t.Logf("| %s | %s | %d | %d | %d | %d |", s.fault.name, kindOf(s.t), total, s.injected.Load(), lost, repeated)
}

// mayHaveArrived reports whether, by the audit trail, a message was being sent when another pass
// took it over, or the reply to its content did not come. look may miss that moment: a slow pass
// may itself try the message again.
func (s *storm) mayHaveArrived(messageID string) bool {
	s.t.Helper()
	for _, one := range s.tasks() {
		if one.MessageID == messageID {
			trail := s.must(0, "task", "show", fmt.Sprint(one.ID), "--json").stdout
			return strings.Contains(trail, "; it was sending to ") || strings.Contains(trail, "no usable reply to the final dot")
		}
	}
	return false
}

// moment is a random time within a pass.
func moment(longest time.Duration) time.Duration {
	return 20*time.Millisecond + rand.N(longest)
}

// pause waits for a random time, or for the pass to end.
func pause(p *process, longest time.Duration) {
	timer := time.NewTimer(moment(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended():
	}
}

// kill kills a pass. A pass that ended before the kill does not count: the next one is killed
// instead.
func kill(s *storm, p *process) {
	for range 100 {
		pause(p, 250*time.Millisecond)
		_ = p.cmd.Process.Kill()
		if s.ended(p).code == -1 {
			s.injected.Add(1)
			return
		}
		p = s.start(nil, "run")
	}
	p.wait()
}

// stop stops a pass until another has taken over the scans of its inboxes. A pass that was stopped
// inside a transaction keeps the others out of the database: it goes on without a takeover.
func stop(s *storm, p *process) {
	pause(p, 300*time.Millisecond)
	if p.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return // it has ended
	}
	wake := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
	s.look()
	s.eventually(s.takenOver)
	if wake.Stop() {
		s.injected.Add(1)
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// takenOver does a pass, and reports whether it scanned all inboxes.
func (s *storm) takenOver() bool {
	var r struct {
		Inboxes []struct{ Busy string }
	}
	out := s.one("--json")
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		s.t.Fatalf("run --json printed %q, and %q: %v", out.stdout, out.stderr, err)
	}
	s.look()
	for _, in := range r.Inboxes {
		if in.Busy != "" {
			return false
		}
	}
	return true
}

func overlap(s *storm, p *process) {
	passes := []*process{p, s.start(nil, "run"), s.start(nil, "run")}
	kill(s, passes[rand.IntN(len(passes))])
	for _, p := range passes {
		s.ended(p)
	}
}

// cutIMAP cuts IMAP connections.
func cutIMAP(s *storm) {
	proxy := testserver.NewCutProxy(s.t, fmt.Sprintf("127.0.0.1:%d", s.imap.Port))
	s.imapPort = proxy.Port
	s.cutAgainAndAgain(proxy)
}

func cutDatabase(s *storm) {
	server := servers[kindOf(s.t)](s.t)
	proxy := testserver.NewCutProxy(s.t, fmt.Sprintf("127.0.0.1:%d", server.Port))
	s.database = strings.Replace(s.database, fmt.Sprintf(":%d)", server.Port), fmt.Sprintf(":%d)", proxy.Port), 1)
	s.cutAgainAndAgain(proxy)
}

// cutAgainAndAgain cuts all connections at random moments until the faults end.
func (s *storm) cutAgainAndAgain(proxy *testserver.CutProxy) {
	over := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for n := proxy.Connections(); ; {
			select {
			case <-over:
				return
			case <-time.After(moment(300 * time.Millisecond)):
			}
			if now := proxy.Connections(); now > n && !s.calm.Load() && len(s.sink.Messages()) > 0 {
				proxy.Cut(testserver.End(rand.IntN(2)))
				s.injected.Add(1)
				n = now
			}
		}
	})
	s.t.Cleanup(func() { close(over); cutting.Wait() })
}

func restart(s *storm, p *process) {
	pause(p, 200*time.Millisecond)
	servers[kindOf(s.t)](s.t).Restart(s.t)
	s.injected.Add(1)
}

// nowAndThen is true for one of thirty commands.
func nowAndThen() bool { return rand.IntN(30) == 0 }

func hangUp(_ *storm, _ smtpsink.Event) smtpsink.Action {
	return smtpsink.Action{Drop: nowAndThen()}
}

func takeAndHangUp(_ *storm, e smtpsink.Event) smtpsink.Action {
	return smtpsink.Action{AcceptAndDrop: e.Stage == "dot" && nowAndThen()}
}

func refuse(_ *storm, e smtpsink.Event) smtpsink.Action {
	if e.Stage == "quit" || !nowAndThen() {
		return smtpsink.Action{}
	}
	return smtpsink.Action{Code: []int{421, 450, 451, 452}[rand.IntN(4)], Text: "4.3.2 not now"}
}

func refuseHalf(_ *storm, e smtpsink.Event) smtpsink.Action {
	if e.Stage == "rcpt" && rand.IntN(2) == 0 {
		return smtpsink.Action{Code: 450, Text: "4.2.1 not now"}
	}
	return smtpsink.Action{}
}

// recreateFolder deletes the folders, and appends all messages to new ones of the same name.
func recreateFolder(s *storm) {
	for address, msgs := range s.mail {
		s.imap.DeleteFolder(s.t, address, s.box)
		s.imap.Append(s.t, address, s.box, msgs...)
	}
	s.injected.Add(1)
}
