//go:build unix

package sqlqueue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
)

const (
	ready      = "at work" // what a process says once it is
	shortLease = 400 * time.Millisecond
	workers    = 4
	scanners   = 2
)

// TestProcesses lets processes scan two inboxes and process what they register. Others are killed,
// stopped for longer than their lease, or cut off from their database, and the database restarts.
// Then the rest finish undisturbed. The notebook and the registry must agree on what the queue and
// the ledger promise; see account.
//
// POSTRIDER_FUZZ_FOR=10m runs for that long on each database. POSTRIDER_FUZZ_SEED repeats a
// schedule of faults, as far as processes can.
func TestProcesses(t *testing.T) {
	if os.Getenv(processEnv) != "" {
		t.Skip("this is one of the processes")
	}
	span, seed := 20*time.Second, rand.Uint64()
	if testing.Short() {
		span = 5 * time.Second
	}
	var err error
	if text := os.Getenv("POSTRIDER_FUZZ_FOR"); text != "" {
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatalf("POSTRIDER_FUZZ_FOR: %v", err)
		}
	}
	if text := os.Getenv("POSTRIDER_FUZZ_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("POSTRIDER_FUZZ_SEED: %v", err)
		}
	}
	for _, c := range []struct {
		kind   string
		server func(testing.TB) *testserver.SQL
	}{{"sqlite", nil}, {"mariadb", testserver.MariaDB}, {"mysql", testserver.MySQL}} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel() // each kind has a server of its own, also to be restarted
			t.Logf("POSTRIDER_FUZZ_SEED=%d", seed)
			s := newStorm(t, c.kind, seed)
			if c.server != nil {
				s.server = c.server(t)
			}
			s.blow(t, span)
			s.drain(t)
			s.account(t, c.kind)
		})
	}
}

// storm is a registry with processes at work, and what is done to them.
type storm struct {
	registry
	server   *testserver.SQL // nil for SQLite
	rand     *rand.Rand
	notebook string
	folders  map[int64]int64 // by inbox
	slots    []*slot
	waking   sync.WaitGroup // stopped processes that will go on
	faults   struct{ kills, stops, cuts, restarts int }
}

// slot is a place that a process fills, and after its death the next one.
type slot struct {
	scans   bool
	number  int
	gone    int                  // processes before this one
	proxy   *testserver.CutProxy // to its database server, by way of cutter; nil for SQLite
	cutter  *cutter
	cmd     *exec.Cmd
	stdin   io.Closer
	output  *bytes.Buffer
	said    chan struct{} // closed when its output has ended
	ready   atomic.Bool
	stopped atomic.Bool
}

func newStorm(t *testing.T, kind string, seed uint64) *storm {
	t.Helper()
	s := &storm{registry: newRegistry(t, kind), rand: rand.New(rand.NewPCG(seed, 0)), folders: map[int64]int64{}}
	s.notebook = filepath.Join(t.TempDir(), "notebook")
	for _, address := range []string{"one@example.com", "two@example.com"} {
		id := s.inbox(t, address)
		s.folders[id] = s.folder(t, id, "INBOX", 1)
	}
	for i := range workers + scanners {
		sl := &slot{number: i, scans: i >= workers}
		if kind != "sqlite" {
			sl.cutter = newCutter(t, serverOf(s.cfg.DSN))
			sl.proxy = testserver.NewCutProxy(t, sl.cutter.Addr().String())
		}
		s.slots = append(s.slots, sl)
		s.start(t, sl)
	}
	t.Cleanup(func() {
		for _, sl := range s.slots {
			sl.kill()
		}
	})
	return s
}

func serverOf(dsn string) string {
	_, rest, _ := strings.Cut(dsn, "tcp(")
	addr, _, _ := strings.Cut(rest, ")")
	return addr
}

// start fills the slot with a process.
func (s *storm) start(t *testing.T, sl *slot) {
	t.Helper()
	o := orders{
		Name: fmt.Sprintf("p%d.%d", sl.number, sl.gone), Scans: sl.scans, DB: s.cfg, Notebook: s.notebook,
		Lease: shortLease, Seed: s.rand.Uint64(), Folders: s.folders,
	}
	if sl.proxy != nil {
		o.DB.DSN = strings.Replace(s.cfg.DSN, serverOf(s.cfg.DSN), sl.proxy.Addr(), 1)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	sl.ready.Store(false)
	sl.output, sl.said = &bytes.Buffer{}, make(chan struct{})
	sl.cmd = exec.Command(os.Args[0], "-test.run=^TestProcess$", "-test.timeout=0")
	sl.cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	in, err := sl.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := sl.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	sl.cmd.Stderr = sl.cmd.Stdout
	if err := sl.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sl.stdin = in
	go sl.listen(out, sl.output, sl.said)
}

func (sl *slot) listen(out io.Reader, keep *bytes.Buffer, said chan struct{}) {
	defer close(said)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == ready {
			sl.ready.Store(true)
		}
		keep.WriteString(lines.Text() + "\n")
	}
}

// kill ends the process at once, wherever it is.
func (sl *slot) kill() {
	_ = sl.cmd.Process.Kill()
	<-sl.said
	_ = sl.cmd.Wait()
}

// end asks the process to end and waits until it has.
func (sl *slot) end(t *testing.T) {
	t.Helper()
	_ = sl.stdin.Close()
	<-sl.said
	if err := sl.cmd.Wait(); err != nil {
		t.Errorf("process %d.%d ended with %v, want it to end well; it said:\n%s", sl.number, sl.gone, err, sl.output)
	}
}

// blow injects faults for as long as span, and until there have been some.
func (s *storm) blow(t *testing.T, span time.Duration) {
	t.Helper()
	const betweenRestarts = 8 * time.Second
	start := time.Now()
	restart := start.Add(min(span/3, betweenRestarts))
	for time.Since(start) < span || s.faults.kills < 3 || s.faults.stops < 3 {
		time.Sleep(time.Duration(50+s.rand.IntN(250)) * time.Millisecond) // nothing waits for it
		sl, dice := s.slots[s.rand.IntN(len(s.slots))], s.rand.IntN(100)
		switch {
		case s.server != nil && time.Now().After(restart):
			s.server.Restart(t)
			s.faults.restarts++
			restart = time.Now().Add(betweenRestarts)
		case !sl.ready.Load() || sl.stopped.Load():
		case dice < 50:
			sl.kill()
			sl.gone++
			s.faults.kills++
			s.start(t, sl)
		case dice < 80 || s.server == nil:
			s.stop(sl)
		}
		if s.server != nil { // cheap, and seldom in the moment that matters: at every turn
			s.cut(s.slots[s.rand.IntN(len(s.slots))])
		}
	}
	s.waking.Wait()
}

// cut ends all connections of the process, or one as soon as the server has executed a command. The
// answer, perhaps to a COMMIT, is then lost.
func (s *storm) cut(sl *slot) {
	switch {
	case !sl.ready.Load() || sl.cutter.left.Load() > 0: // the last one is still to come
		return
	case s.rand.IntN(3) == 0:
		sl.proxy.Cut([]testserver.End{testserver.FIN, testserver.RST}[s.rand.IntN(2)])
	default:
		sl.cutter.left.Store(1 + s.rand.Int64N(8))
	}
	s.faults.cuts++
}

// stop stops the process past its lease, and lets it go on then as if nothing had happened.
func (s *storm) stop(sl *slot) {
	if sl.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return
	}
	s.faults.stops++
	sl.stopped.Store(true)
	nap := shortLease + shortLease/4 + time.Duration(s.rand.Int64N(2*int64(shortLease)))
	s.waking.Add(1)
	time.AfterFunc(nap, func() {
		defer s.waking.Done()
		_ = sl.cmd.Process.Signal(syscall.SIGCONT)
		sl.stopped.Store(false)
	})
}

// drain lets the workers finish, undisturbed, what has been registered.
func (s *storm) drain(t *testing.T) {
	t.Helper()
	for _, sl := range s.slots[workers:] {
		sl.end(t)
	}
	deadline := time.Now().Add(5 * time.Minute)
	for live := -1; live != 0; {
		s.query(t, &live, "SELECT COUNT(*) FROM monitored_emails_tasks WHERE visible_at IS NOT NULL")
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks still live after five minutes of peace, want all to end", live)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	for _, sl := range s.slots[:workers] {
		sl.end(t)
	}
}
