package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// writes is how many commits a message costs, and how many fsyncs of the process that has the
// database, which strace counts. It takes a pass of its own, because strace makes it slow.
func (b *bench) writes(kind string, w *world) string {
	b.Helper()
	run := []string{binary, "-c", w.path("postrider.yaml"), "run", "-vv"}
	counts := filepath.Join(b.TempDir(), "strace")
	trace := []string{"strace", "-f", "-qq", "-c", "-e", "trace=fsync,fdatasync", "-o", counts}
	if exec.Command("strace", "-qq", "-o", counts, "true").Run() != nil { // not there, or not allowed
		return b.commits(run) + " a message"
	}
	servers := map[string]func(testing.TB) *testserver.SQL{"mariadb": testserver.MariaDB, "mysql": testserver.MySQL}
	server := servers[kind]
	if server == nil {
		return b.commits(append(trace, run...)) + b.fsyncs(counts)
	}
	pid := server(b).PID()
	tracer := exec.Command(trace[0], append(trace[1:], "-p", strconv.Itoa(pid))...)
	if err := tracer.Start(); err != nil {
		b.Fatal(err)
	}
	for attached := false; !attached; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.Fatal(err)
		}
		attached = !strings.Contains(string(status), "TracerPid:\t0\n")
	}
	commits := b.commits(run)
	_ = tracer.Process.Signal(os.Interrupt)
	_ = tracer.Wait() // by the signal
	return commits + b.fsyncs(counts)
}

// commits runs a pass, and says how many commits a message cost.
func (b *bench) commits(run []string) string {
	b.Helper()
	out := b.timed(exec.Command(run[0], run[1:]...)).out
	m := commitsLogged.FindStringSubmatch(out)
	if m == nil {
		b.Fatalf("the number of commits is not in the log:\n%s", out)
	}
	n, _ := strconv.Atoi(m[1])
	return fmt.Sprintf(", %.2f commits", float64(n)/float64(b.messages))
}

// fsyncs says what strace counted. A line of its table is: % time, seconds, usecs/call, calls,
// [errors,] syscall.
func (b *bench) fsyncs(counts string) string {
	b.Helper()
	text, err := os.ReadFile(counts)
	if err != nil {
		b.Fatal(err)
	}
	total := 0
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 5 && strings.HasSuffix(f[len(f)-1], "sync") {
			n, _ := strconv.Atoi(f[3])
			total += n
		}
	}
	return fmt.Sprintf(" and %.2f fsyncs a message", float64(total)/float64(b.messages))
}
