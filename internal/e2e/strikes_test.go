//go:build unix

package e2e

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

var (
	onServers = []string{"mariadb", "mysql"}
	onShared  = []string{"mariadb", "mysql", "galera"}
	twice     = []string{"sqlite", "mariadb"}

	atIMAP  = []place{folderNotOpen, notListed, halfRead, notAllRead}
	atRelay = []place{claimed, taken, halfSent, heldByIt}
	atSQL   = []place{registering, claiming, marking, finishing, uncommitted, committed}
	inPass  = slices.Concat([]place{halfRead, notAllRead, unknown}, atRelay)
)

var faults = []fault{
	{name: "kill -9 of a pass", kinds: []string{"sqlite"}, rounds: 35, strike: kill, inboxes: 8, places: inPass},
	{
		name: "kill -9 of a pass", kinds: onShared, rounds: 26, strike: kill, inboxes: 8,
		places: slices.Concat(inPass, atSQL),
	},
	{
		name:  "a pass stopped for longer than its lease, another takes over, the first wakes up",
		kinds: all, rounds: 5, strike: stop, places: []place{halfRead, notAllRead, claimed, halfSent, heldByIt},
	},
	{name: "three passes at once, one killed", kinds: all, rounds: 8, strike: overlap, places: atRelay},
	{name: "IMAP connection cut", kinds: []string{"sqlite"}, rounds: 8, strike: cutIn(4), places: atIMAP},
	{name: "database connection cut", kinds: onShared, rounds: 6, strike: cutIn(6), places: atSQL},
	{
		name:  "database restarted",
		kinds: onServers, rounds: 2, strike: restart, places: []place{heldByIt, registering},
	},
	{
		name:  "database node killed, three hosts on three nodes",
		kinds: []string{"galera"}, rounds: 1,
		strike: harmNode((*testserver.GaleraNode).Kill), places: []place{heldByIt},
	},
	{
		name:  "database node stopped, three hosts on three nodes",
		kinds: []string{"galera"}, rounds: 1,
		strike: harmNode((*testserver.GaleraNode).Stop), places: []place{heldByIt},
	},
	{
		name:  "database node cut off from the others",
		kinds: []string{"galera", "balancer"}, rounds: 1,
		strike: harmNode((*testserver.GaleraNode).Isolate), places: []place{heldByIt},
	},
	{name: "relay hangs up, at any command", kinds: []string{"sqlite"}, rounds: 12, strike: pass, relay: hangUp},
	{
		name:  "relay hangs up in the middle of a message",
		kinds: twice, rounds: 6, strike: cutIn(4), places: []place{taken, halfSent, heldByIt},
	},
	{name: "relay takes the message and hangs up", kinds: twice, rounds: 4, strike: pass, relay: takeAndHangUp},
	{name: "relay answers 4xx, at any command", kinds: []string{"sqlite"}, rounds: 12, strike: pass, relay: refuse},
	{
		name:  "folder deleted and made again (UIDVALIDITY) while messages wait",
		kinds: twice, rounds: 4, strike: recreateFolders, relay: refuseHalf, waiting: true,
	},
}

// visit has messages arrive in one inbox after the other and starts a pass of it, as the scan lease
// of a pass that was killed there runs on.
func (s *storm) visit() func() *process {
	turn := int(s.round.Load())
	return func() *process {
		address := s.names[turn%len(s.names)]
		turn++
		s.arrive(2, address)
		return s.victim("--inbox", address)
	}
}

// kill kills a pass. A pass without faults follows whenever each inbox has lost one.
func kill(s *storm) {
	p, m := s.reach(s.next(0), s.visit())
	s.killed(p, m)
	if int(s.round.Load())%len(s.names) == 0 {
		s.one()
	}
}

func (s *storm) killed(p *process, m *moment) {
	s.t.Helper()
	_ = p.cmd.Process.Kill()
	if res := s.ended(p); res.code != -1 {
		s.t.Errorf("a pass that is held ended with exit %d before it was killed", res.code)
	}
	s.hit(m.place.name)
	s.note()
	s.release(m, testserver.RST)
}

// stop stops a pass until another has forwarded all that its inbox has.
func stop(s *storm) {
	address := s.names[int(s.round.Load())%len(s.names)]
	p, m := s.reach(s.next(0), func() *process {
		s.arrive(2, address)
		return s.victim("--inbox", address)
	})
	s.freeze(p)
	s.hit(m.place.name)
	s.release(m, testserver.NoEnd)
	s.note()
	s.eventually(func() bool {
		s.one("--inbox", address)
		return s.forwardedOf(address) == len(s.mail[address])
	})
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	s.ended(p)
}

// freeze stops a pass that is held, but not inside a transaction: what that has locked would keep
// the others out of the database.
func (s *storm) freeze(p *process) {
	s.eventually(func() bool {
		p.suspend()
		if s.quiet() {
			return true
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		s.eventually(s.quiet)
		return false
	})
}

func (s *storm) forwardedOf(address string) (n int) {
	s.t.Helper()
	err := s.db.QueryRowContext(s.t.Context(), `SELECT COUNT(*) FROM monitored_emails_tasks t
		JOIN monitored_emails e ON e.id = t.inbox_id WHERE t.status = 'forwarded' AND e.email_address = ?`,
		address).Scan(&n)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// overlap kills a pass when one of two others has begun to forward beside it, or both found nothing
// to do.
func overlap(s *storm) {
	p, m := s.reach(s.next(0), func() *process {
		s.arriveInAll(10)
		return s.victim()
	})
	direct := func() int { return s.sink.Connections() - s.smtp.Connections() }
	before := direct()
	others := []*process{s.start(nil, "run"), s.start(nil, "run")}
	s.eventually(func() bool {
		select {
		case <-others[0].over:
			<-others[1].over
			return true
		default:
			return direct() > before
		}
	})
	s.killed(p, m)
	for _, other := range others {
		s.ended(other)
	}
	s.note()
}

// cutIn cuts the connections of a pass, up to n times.
func cutIn(n int) func(*storm) {
	return func(s *storm) {
		p, m := s.reach(s.next(0), func() *process {
			s.arriveInAll(4)
			return s.victim()
		})
		for i := 1; ; i++ {
			s.hit(m.place.name)
			next := s.arm(s.next(i))
			s.release(m, testserver.End(rand.IntN(2)))
			if i < n {
				select {
				case <-next.came:
					m = next
					continue
				case <-p.over:
				}
			}
			s.release(next, testserver.NoEnd)
			break
		}
		s.ended(p)
		s.note()
	}
}

// restart restarts the database server.
func restart(s *storm) {
	p, m := s.reach(s.next(0), func() *process {
		s.arriveInAll(4)
		return s.victim()
	})
	servers[s.kind](s.t).Restart(s.t)
	s.hit(m.place.name)
	s.release(m, testserver.NoEnd)
	s.ended(p)
	s.note()
}

// harmNode has hosts on three nodes work at the same time, and harms a node while the relay holds a
// message of its host. When the others are done, the node comes back.
func harmNode(harm func(*testserver.GaleraNode, testing.TB)) func(*storm) {
	return func(s *storm) {
		g := testserver.GaleraCluster(s.t)
		i := 1 + rand.IntN(2)
		var others []*process
		p, m := s.reach(s.next(0), func() *process {
			s.arriveInAll(30)
			for j := range g.Nodes {
				if j != i {
					others = append(others, s.node(g, j, "postrider.yaml"))
				}
			}
			return s.node(g, i, "struck.yaml")
		})
		harm(g.Nodes[i], s.t)
		s.hit(m.place.name)
		s.release(m, testserver.NoEnd)
		for _, other := range others {
			s.ended(other)
		}
		s.note()
		g.Nodes[i].Rejoin(s.t)
		s.ended(p)
		s.note()
	}
}

// pass does a pass whose relay is the fault, up to ten times.
func pass(s *storm) {
	s.spoils.Store(10)
	s.arriveInAll(10)
	s.one()
	s.note()
}

// stages are the relay's, which it spoils in turn.
var stages = []string{"connect", "ehlo", "mail", "rcpt", "data", "dot"}

// spoil is true for half of the commands at a stage.
func (s *storm) spoil(e smtpsink.Event, stage string) bool {
	return e.Stage == stage && rand.IntN(2) == 0 && s.spoils.Add(-1) >= 0
}

func (s *storm) stage() string { return stages[int(s.round.Load())%len(stages)] }

func hangUp(s *storm, e smtpsink.Event) smtpsink.Action {
	return smtpsink.Action{Drop: s.spoil(e, s.stage())}
}

func takeAndHangUp(s *storm, e smtpsink.Event) smtpsink.Action {
	return smtpsink.Action{AcceptAndDrop: s.spoil(e, "dot")}
}

func refuse(s *storm, e smtpsink.Event) smtpsink.Action {
	if !s.spoil(e, s.stage()) {
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

// recreateFolders does a pass after which messages wait, deletes the folders, and appends all
// messages to new ones of the same name.
func recreateFolders(s *storm) {
	s.arriveInAll(5)
	s.one()
	for address, msgs := range s.mail {
		s.imap.DeleteFolder(s.t, address, s.box)
		s.imap.Append(s.t, address, s.box, msgs...)
		s.hit("between two passes")
	}
	s.note()
}
