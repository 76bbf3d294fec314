package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	_ "modernc.org/sqlite" // for the claim's benchmark

	"postrider/internal/testserver"
)

// TestBench measures the numbers of docs/numbers.md, beside a peer in the same run, and fails if
// one does not hold. scripts/bench runs it. It is not part of the tests, because a busy machine
// says nothing about speed.
func TestBench(t *testing.T) {
	if os.Getenv("POSTRIDER_BENCH") == "" {
		t.Skip("run scripts/bench")
	}
	b := &bench{T: t, table: table.NewWriter(), messages: 2000, bareBinary: filepath.Join(t.TempDir(), "bare")}
	if out, err := exec.Command("go", "build", "-o", b.bareBinary, "./bare").CombinedOutput(); err != nil {
		t.Fatalf("build bare: %v\n%s", err, out)
	}
	if n, err := strconv.Atoi(os.Getenv("POSTRIDER_BENCH_MESSAGES")); err == nil {
		b.messages = n
	}
	b.table.AppendHeader(table.Row{"case", "result", "bound", ""})
	b.throughput()
	if os.Getenv("POSTRIDER_BENCH") != "quick" {
		b.quiet()
		b.memory()
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

// peakOf reads VmHWM; 0 where there is no /proc.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
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
			b.Skip("smtp-sink is not installed: apt-get install postfix")
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
	body := strings.Repeat("The quick brown fox jumps over the lazy dog, and on it goes with it.\n", octets/69)
	msgs := make([][]byte, 0, 100)
	for i := range n {
		msgs = append(msgs, testserver.Mail("alice@client.example", "desk@firm.example", fmt.Sprint("message ", i), body))
		if len(msgs)*octets > 64<<20 || i == n-1 {
			w.imap.Append(b.T, "desk@firm.example", "INBOX", msgs...)
			msgs = msgs[:0]
		}
	}
	return w
}

// throughput compares postrider with what only fetches and sends, and with fetchmail: Dovecot to
// smtp-sink, messages of 4 KiB. They run by turns, and the best run of each counts.
func (b *bench) throughput() {
	port := b.smtpSink()
	peer := filled(b, "sqlite", b.messages, 4<<10)
	limit := b.best(func() finished { return b.bare(peer, port) })
	b.speed("bare: fetch and send, messages of 4 KiB", limit, limit, 0)
	for _, c := range []struct {
		kind  string
		bound float64
	}{{"sqlite", 2}, {"mariadb", 3}, {"mysql", 3}} {
		b.Run(c.kind, func(t *testing.T) {
			one := *b
			one.T = t
			limit, ours := finished{}, finished{}
			for range runs {
				w := filled(&one, c.kind, b.messages, 4<<10)
				w.smtpPort = port
				w.configure()
				limit, ours = faster(limit, one.bare(w, port)), faster(ours, one.pass(w))
			}
			one.speed("postrider on "+c.kind, ours, limit, c.bound)
		})
	}
	if theirs, ok := b.fetchmail(peer, port); ok {
		b.speed("fetchmail", theirs, limit, 0)
	}
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

// speed adds how fast the messages went through. bound is how many times as long as limit it may
// take at most, 0 when it is a peer.
func (b *bench) speed(name string, f, limit finished, bound float64) {
	n, ratio := float64(b.messages), f.took.Seconds()/limit.took.Seconds()
	result := fmt.Sprintf("%.2f s = %.1f x bare, %.0f/s, %.2f CPU s per 1,000, peak %d MiB",
		f.took.Seconds(), ratio, n/f.took.Seconds(), f.cpu.Seconds()*1000/n, f.peak>>20)
	if bound == 0 {
		b.table.AppendRow(table.Row{name, result, "", "peer"})
		return
	}
	b.row(name, result, fmt.Sprintf("<= %.1f x", bound), ratio <= bound)
}

// bare runs the program of that name.
func (b *bench) bare(w *world, smtpPort int) finished {
	b.Helper()
	return b.timed(exec.Command(b.bareBinary, "-imap", fmt.Sprintf("127.0.0.1:%d", w.imap.Port), "-user", "desk@firm.example",
		"-password", password, "-relay", fmt.Sprintf("127.0.0.1:%d", smtpPort)))
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

// memory forwards large messages, and many small ones.
func (b *bench) memory() {
	port := b.smtpSink()
	peak := func(n, octets int) int64 {
		w := filled(b, "sqlite", n, octets)
		w.smtpPort = port
		w.configure()
		return b.pass(w).peak
	}
	large := peak(50, 25<<20)
	b.row("peak memory, 50 messages of 25 MiB", fmt.Sprintf("%d MiB", large>>20), "<= 64 MiB", large <= 64<<20 && large > 0)
	few, many := peak(b.messages/10, 4<<10), peak(b.messages*2, 4<<10)
	b.row(fmt.Sprintf("peak memory, %d and %d messages", b.messages/10, b.messages*2), fmt.Sprintf("%d and %d MiB", few>>20, many>>20),
		"flat (within 16 MiB)", many-few < 16<<20)
}

// quiet compares passes with nothing new over a small and a large mailbox, by what they send and
// receive.
func (b *bench) quiet() {
	measure := func(n int) (int64, int64) {
		w := filled(b, "sqlite", n, 200)
		wire := countWire(b.T, w.imap.Port)
		w.must(0, "inbox", "set", "desk@firm.example", "--port", strconv.Itoa(wire.port))
		w.pass(0)
		wire.conns.Store(0)
		wire.octets.Store(0)
		w.pass(0)
		return wire.conns.Load(), wire.octets.Load()
	}
	_, small := measure(300)
	conns, large := measure(b.messages * 5)
	b.row(fmt.Sprintf("a quiet pass over 300 and %d messages", b.messages*5),
		fmt.Sprintf("%d connection, %d and %d octets from the server", conns, small, large), "one, and no more octets", conns == 1 && large < small+1000) // longer numbers of 200 messages
}

// wire is a proxy that counts the octets it passes on.
type wire struct {
	port          int
	conns, octets atomic.Int64
}

func countWire(t *testing.T, backend int) *wire {
	t.Helper()
	w := &wire{}
	w.port = testserver.Listen(t, func(client net.Conn) {
		w.conns.Add(1)
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", backend))
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		_, _ = io.Copy(client, io.TeeReader(server, w))
	})
	return w
}

// Write counts octets.
func (w *wire) Write(p []byte) (int, error) {
	w.octets.Add(int64(len(p)))
	return len(p), nil
}

// claims measures passes that claim one task each, without and with a million finished tasks in the
// registry.
func (b *bench) claims() {
	for _, kind := range []string{"sqlite", "mariadb"} {
		b.Run(kind, func(t *testing.T) {
			one := *b
			one.T = t
			w := filled(&one, kind, 200, 200)
			before := one.pass(w).took
			one.bury(w, kind, 1_000_000)
			w.imap.Append(t, "desk@firm.example", "INBOX", mails(200, "more")...)
			after := one.pass(w).took
			one.row("200 messages, without and with a million finished tasks, "+kind, fmt.Sprintf("%.2f s and %.2f s", before.Seconds(), after.Seconds()),
				"<= 2 x", after <= 2*before+200*time.Millisecond)
		})
	}
}

// bury copies a finished task until there are n of them.
func (b *bench) bury(w *world, kind string, n int) {
	b.Helper()
	driver, dsn := "sqlite", filepath.Join(w.dir, "postrider.db")
	if kind != "sqlite" {
		driver, dsn = "mysql", strings.Trim(strings.TrimSpace(strings.SplitAfter(w.database, "dsn:")[1]), `"`)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const columns = `inbox_id, folder_id, uid_validity, message_id, fingerprint, subject, sender, email_date, size, route, priority,
		status, attempt_count, lost_leases, visible_at, receipt, worker, error_message, created_at, queued_at, updated_at, finished_at`
	for have := 200; have < n; have *= 2 {
		_, err := db.ExecContext(context.Background(), `INSERT INTO monitored_emails_tasks (uid, `+columns+`)
			SELECT uid + (SELECT MAX(uid) FROM monitored_emails_tasks) + 1000000, `+columns+` FROM monitored_emails_tasks`)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// audit measures the audit of a mailbox of 100,000 forwarded messages.
func (b *bench) audit() {
	port, n := b.smtpSink(), b.messages*50
	mailbox := filled(b, "sqlite", 0, 0)
	mailbox.imap.Fill(b.T, "desk@firm.example", n, func(i int) []byte {
		return testserver.Mail("alice@client.example", "desk@firm.example", fmt.Sprint("message ", i), "The quick brown fox.\n")
	})
	for _, kind := range []string{"sqlite", "mariadb"} {
		b.Run("audit/"+kind, func(t *testing.T) {
			one := *b
			one.T = t
			w := mailbox
			if kind != "sqlite" {
				w = newWorld(t, kind)
				w.imap, w.imapPort = mailbox.imap, mailbox.imapPort
				w.addInbox("desk@firm.example", "--start", "all")
			}
			w.smtpPort = port
			w.configure()
			one.pass(w)
			got := one.timed(exec.Command(binary, "-c", w.path("postrider.yaml"), "audit"))
			if want := fmt.Sprintf("Every message is accounted for: %d on the servers.", n); !strings.Contains(got.out, want) {
				t.Errorf("the audit printed %s, want %q", got.out, want)
			}
			one.row(fmt.Sprintf("audit of %d messages, %s", n, kind), fmt.Sprintf("%.1f s, peak %d MiB", got.took.Seconds(), got.peak>>20),
				"<= 60 s, 64 MiB", got.took <= time.Minute && got.peak <= 64<<20 && got.peak > 0)
		})
	}
}
