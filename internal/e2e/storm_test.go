//go:build unix

package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// storm is an installation with one kind of fault. In each round messages arrive, a pass begins,
// and the fault strikes it at a named place. In the end passes run without faults until all
// messages are forwarded.
type storm struct {
	*world
	kind  string // of database
	fault fault
	box   string // the folder of all inboxes
	names []string
	mail  map[string][][]byte // by inbox
	db    *sql.DB
	smtp  *testserver.CutProxy // between struck passes and the relay
	calm  atomic.Bool          // no more faults: the relay accepts

	round      atomic.Int64
	spoils     atomic.Int64           // what the relay may still do in this round
	generation atomic.Int64           // of struck passes
	armed      atomic.Pointer[moment] // what the next pass is to be held at; see places_test.go

	mu      sync.Mutex
	struck  map[string]int  // how often, by place
	sending map[string]bool // Message-IDs in flight when a pass ended or stopped
}

// fault is one kind of fault.
type fault struct {
	name    string
	kinds   []string // of databases
	rounds  int
	inboxes int                                              // 2 unless set
	places  []place                                          // where it strikes, in turn
	relay   func(s *storm, e smtpsink.Event) smtpsink.Action // nil: accepts everything
	waiting bool                                             // the relay only makes messages wait
	strike  func(s *storm)                                   // a round
}

// TestFaults injects each fault. No message may be lost, and one may arrive twice only if it was
// `sending` when a pass ended or stopped. POSTRIDER_FAULTS multiplies the rounds; `scripts/faults`
// makes a table of the results. Databases that do not share a server are tested in parallel.
func TestFaults(t *testing.T) {
	for _, kinds := range [][]string{{"sqlite"}, {"mariadb"}, {"mysql"}, {"galera", "balancer"}} {
		t.Run(kinds[0], func(t *testing.T) {
			t.Parallel()
			for i, f := range faults {
				for _, kind := range kinds {
					if slices.Contains(f.kinds, kind) {
						// The name of a test is a part of paths.
						t.Run(fmt.Sprintf("%s%d", kind, i), func(t *testing.T) {
							t.Log(f.name)
							newStorm(t, kind, f).rage(f.rounds * times())
						})
					}
				}
			}
		})
	}
}

func newStorm(t *testing.T, kind string, f fault) *storm {
	s := &storm{
		world: newWorld(t, kind), kind: kind, fault: f, box: "Cases",
		mail: map[string][][]byte{}, struck: map[string]int{}, sending: map[string]bool{},
	}
	s.db = s.openDatabase()
	s.extra = "retry: {base: 100ms, max: 100ms, max_attempts: 100000, max_lost_leases: 1000}\n" +
		"concurrency: {host: HOST, lease: 1s, page: 20}\n"
	s.startSink(func(e smtpsink.Event) smtpsink.Action {
		if f.relay == nil || s.calm.Load() {
			return smtpsink.Action{}
		}
		a := f.relay(s, e)
		if !f.waiting && (a.Drop || a.AcceptAndDrop || a.Code != 0) {
			s.hit(e.Stage)
		}
		return a
	})
	s.configureStorm()
	for i := range max(f.inboxes, 2) {
		address := fmt.Sprintf("box%d@firm.example", i)
		s.names = append(s.names, address)
		s.addInbox(address, "--start", "all", "--folder", s.box)
		s.imap.CreateFolder(t, address, s.box)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("status in the end:\n%s", s.ended(s.start(nil, "status")).stdout)
		}
	})
	return s
}

// configureStorm puts a proxy in front of each server that has a place in it. The database and the
// relay are reached by them only with the configuration struck.yaml.
func (s *storm) configureStorm() {
	imap := testserver.NewCutProxy(s.t, fmt.Sprintf("127.0.0.1:%d", s.imap.Port))
	imap.Watch(s.watch(func(p place) finder { return p.imap }))
	s.smtp = testserver.NewCutProxy(s.t, fmt.Sprintf("127.0.0.1:%d", s.smtpPort))
	s.smtp.Watch(s.watch(func(p place) finder { return p.smtp }))
	s.imapPort = imap.Port
	s.configure()
	text, err := os.ReadFile(s.path("postrider.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	direct, proxied := fmt.Sprintf("port: %d,", s.smtpPort), fmt.Sprintf("port: %d,", s.smtp.Port)
	struck := strings.Replace(string(text), direct, proxied, 1)
	if slices.ContainsFunc(s.fault.places, func(p place) bool { return p.sql != nil }) {
		start, end := strings.Index(struck, "@tcp(")+len("@tcp("), strings.Index(struck, ")/")
		proxy := testserver.NewCutProxy(s.t, struck[start:end])
		proxy.Watch(s.watch(func(p place) finder { return p.sql }))
		struck = struck[:start] + proxy.Addr() + struck[end:]
	}
	if err := os.WriteFile(s.path("struck.yaml"), []byte(struck), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// rage runs the rounds, and then passes without faults.
func (s *storm) rage(rounds int) {
	for i := range rounds {
		s.round.Store(int64(i))
		s.fault.strike(s)
	}
	s.calm.Store(true)
	s.drain()
	s.must(0, "audit")
	s.tally()
}

// drain does passes until all messages are forwarded. A minute in which nothing arrives is an
// error.
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

// arrive lays n messages into an inbox.
func (s *storm) arrive(n int, address string) {
	s.t.Helper()
	msgs := mails(n, address)
	s.imap.Append(s.t, address, s.box, msgs...)
	s.mail[address] = append(s.mail[address], msgs...)
}

func (s *storm) arriveInAll(n int) {
	s.t.Helper()
	for _, address := range s.names {
		s.arrive(n, address)
	}
}

// one does one pass, at which no fault strikes but those of the relay.
func (s *storm) one(args ...string) result {
	return s.ended(s.start(nil, append([]string{"run"}, args...)...))
}

// victim starts a pass that a fault is to strike.
func (s *storm) victim(args ...string) *process {
	return s.start(nil, append([]string{"-c", s.path("struck.yaml"), "run"}, args...)...)
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

// note records what is being sent.
func (s *storm) note() {
	s.t.Helper()
	rows, err := s.db.QueryContext(s.t.Context(), `SELECT t.message_id FROM monitored_emails_tasks t
		JOIN monitored_emails_deliveries d ON d.task_id = t.id WHERE d.status = 'sending'`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			s.t.Fatal(err)
		}
		s.sending[id] = true
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// look records what is being sent, and reports whether all messages are forwarded.
func (s *storm) look() bool {
	s.t.Helper()
	s.note()
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
	}
	return done
}

// hit counts a fault.
func (s *storm) hit(where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.struck[where]++
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.fault.places {
		if s.struck[p.name] == 0 {
			s.t.Errorf("no fault struck at: %s", p.name)
		}
	}
	injected, where := 0, []string(nil)
	for name, n := range s.struck {
		injected += n
		where = append(where, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(where)
	if injected == 0 {
		s.t.Error("no fault was injected")
	}
	s.t.Logf("| %s | %s | %d | %d | %s | %d | %d |",
		s.fault.name, s.kind, total, injected, strings.Join(where, ", "), lost, repeated)
}
