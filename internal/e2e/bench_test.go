package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"postrider/internal/testserver"
)

// TestBench measures the numbers of docs/numbers.md, beside a peer in the same run, and fails if
// one does not hold. scripts/bench runs it. It is not part of the tests, because a busy machine
// says nothing about speed.
func TestBench(t *testing.T) {
	if os.Getenv("POSTRIDER_BENCH") == "" {
		t.Skip("run scripts/bench")
	}
	t.Cleanup(func() {
		if t.Skipped() { // go test would say that all limits hold
			t.Error("a server is missing")
		}
	})
	for _, kind := range all { // ends the test if one is missing
		databases[kind](t, t.TempDir())
	}
	b := &bench{T: t, table: table.NewWriter(), messages: 2000, bareBinary: filepath.Join(t.TempDir(), "bare")}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", b.bareBinary, "./bare")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build bare: %v\n%s", err, out)
	}
	if n, err := strconv.Atoi(os.Getenv("POSTRIDER_BENCH_MESSAGES")); err == nil {
		b.messages = n
	}
	b.table.AppendHeader(table.Row{"case", "result", "bound", ""})
	b.throughput()
	if os.Getenv("POSTRIDER_BENCH") != "quick" {
		b.events()
		b.far()
		b.many()
		b.quiet()
		b.thousand()
		b.imports()
		b.silent()
		b.memory()
		b.holding()
		b.claims()
		b.audit()
	}
	b.table.SetStyle(table.StyleLight)
	fmt.Println(b.table.Render())
}

type bench struct {
	*testing.T
	table      table.Writer
	messages   int
	bareBinary string
}

// row adds a line to the table, and fails the run if the limit does not hold.
func (b *bench) row(name, result, bound string, holds bool) {
	verdict := "ok"
	if !holds {
		verdict = "FAILED"
		b.Errorf("%s: %s, want %s", name, result, bound)
	}
	b.table.AppendRow(table.Row{name, result, bound, verdict})
}

// finished is a program that has ended: how long it ran, its processor time, and its peak resident
// memory.
type finished struct {
	took, cpu time.Duration
	peak      int64 // octets
	out       string
}

// timed runs a program and watches its memory. It reads the peak from /proc, because the kernel's
// number for a child that has ended includes the memory of the process that forked it.
func (b *bench) timed(cmd *exec.Cmd) finished {
	b.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	f := finished{}
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		f.peak = peakUntil(done, cmd.Process.Pid)
	}()
	err := cmd.Wait()
	f.took = time.Since(start)
	close(done)
	<-watched
	f.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if f.out = out.String(); err != nil {
		b.Fatalf("%s: %v\n%s", cmd, err, f.out)
	}
	return f
}

// peakUntil watches a process until it has ended.
func peakUntil(over <-chan struct{}, pid int) (peak int64) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, peakOf(pid))
		select {
		case <-over:
			return peak
		case <-tick.C:
		}
	}
}

// peakOf is the most memory that a process had.
func peakOf(pid int) int64 { return memoryOf(pid, "VmHWM:") }

// memoryOf reads a number of octets from /proc; 0 where there is none.
func memoryOf(pid int, name string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), name)
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

func (b *bench) pass(w *world) finished {
	return b.timed(exec.Command(binary, "-c", w.path("postrider.yaml"), "run"))
}

// smtpSink starts Postfix's test relay, the same for postrider and its peer.
func (b *bench) smtpSink() int {
	b.Helper()
	path, err := exec.LookPath("smtp-sink")
	if err != nil {
		if path = "/usr/sbin/smtp-sink"; !exists(path) {
			b.Fatal("smtp-sink is not installed: apt-get install postfix")
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	args := []string{fmt.Sprintf("127.0.0.1:%d", port), "200"}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it refuses to stay root
	}
	cmd := exec.Command(path, args...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", args[len(args)-2])
		if err == nil {
			_ = conn.Close()
			return port
		}
	}
	b.Fatalf("%s does not listen", cmd)
	return 0
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func filled(b *bench, kind string, n, octets int) *world {
	w := newWorld(b.T, kind)
	w.addInbox("desk@firm.example", "--start", "all")
	msgs := make([][]byte, 0, 100)
	for i := range n {
		msgs = append(msgs, sized(i, octets))
		if len(msgs)*octets > 64<<20 || i == n-1 {
			w.imap.Append(b.T, "desk@firm.example", "INBOX", msgs...)
			msgs = msgs[:0]
		}
	}
	return w
}

// sized is a message with a body of about so many octets.
func sized(i, octets int) []byte {
	body := strings.Repeat("The quick brown fox jumps over the lazy dog, and on it goes with it.\n", octets/69)
	return testserver.Mail("alice@client.example", "desk@firm.example", fmt.Sprint("message ", i), body)
}

// runs is how often each program runs, by turns.
const runs = 3

func (b *bench) best(run func() finished) (f finished) {
	for range runs {
		f = faster(f, run())
	}
	return f
}

// faster is the faster of two runs; the first may be none.
func faster(a, b finished) finished {
	if a.took == 0 || b.took < a.took {
		return b
	}
	return a
}

// bare runs the program of that name.
func (b *bench) bare(w *world, smtpPort int, flags ...string) finished {
	b.Helper()
	args := append([]string{
		"-imap", fmt.Sprintf("127.0.0.1:%d", w.imap.Port), "-user", "desk@firm.example",
		"-password", password, "-relay", fmt.Sprintf("127.0.0.1:%d", smtpPort),
	}, flags...)
	return b.timed(exec.Command(b.bareBinary, args...))
}

func (b *bench) fetchmail(w *world, smtpPort int) (finished, bool) {
	b.Helper()
	path, err := exec.LookPath("fetchmail")
	if err != nil {
		b.table.AppendRow(table.Row{"fetchmail", "not installed: apt-get install fetchmail", "", "peer"})
		return finished{}, false
	}
	rc := w.path("fetchmailrc")
	text := fmt.Sprintf(`poll 127.0.0.1 protocol IMAP port %d auth password timeout 60
user "desk@firm.example" password "%s" is "desk@firm.example" here sslproto "" fetchall keep smtphost "127.0.0.1/%d"
`, w.imap.Port, password, smtpPort)
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, "-f", rc, "--nodetach", "--nosyslog", "--silent", "--pidfile", w.path("fetchmail.pid"))
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "FETCHMAILHOME="+w.dir)
	return b.timed(cmd), true
}
