//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// watching is a world in which `watch` runs, on an inbox that was empty.
type watching struct {
	*world
	p     *process
	proxy *testserver.CutProxy // in front of Dovecot
}

// watch starts `watch` with an inbox, and waits until it is idle.
func watch(t *testing.T, kind string, flags ...string) *watching {
	t.Helper()
	w := &watching{world: newWorld(t, kind)}
	w.proxy = testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", w.imap.Port))
	w.imapPort = w.proxy.Port
	w.addInbox(desk, append([]string{"--start", "now"}, flags...)...)
	w.imap.CreateFolder(t, desk, "Junk")
	w.restart()
	return w
}

// restart starts `watch` again, and waits until it has visited the inbox.
func (w *watching) restart() {
	w.t.Helper()
	w.p = w.start(nil, "watch", "-vv")
	w.says("folder opened")
}

// says waits until the log has a text.
func (w *watching) says(text string) {
	w.t.Helper()
	w.await("the log says "+text, func() bool { return strings.Contains(w.p.stderr.String(), text) })
}

// came waits until so many messages have come to the relay.
func (w *world) came(n int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d messages come", n), func() bool { return len(w.sink.Messages()) >= n })
}

// arrive puts messages into the inbox.
func (w *watching) arrive(n int, subject string) [][]byte {
	w.t.Helper()
	msgs := mails(n, subject)
	w.imap.Append(w.t, desk, "INBOX", msgs...)
	return msgs
}

// TestWatch: what arrives goes out at once, in a second inbox that is added meanwhile, too, and
// SIGTERM ends it.
func TestWatch(t *testing.T) {
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) {
			w := watch(t, kind)
			one := w.arrive(3, "hello")
			w.came(3)
			w.addInbox("new@firm.example", "--start", "all")
			two := mails(2, "new")
			w.imap.Append(t, "new@firm.example", "INBOX", two...)
			_ = w.p.cmd.Process.Signal(syscall.SIGHUP)
			w.came(5)
			three := mails(1, "newer")
			w.imap.Append(t, "new@firm.example", "INBOX", three...)
			w.came(6) // in the second visit, so the first one has ended
			w.end(w.p, 0)
			w.wantOnce(one, two, three)
			metrics := w.must(0, "metrics").stdout
			for _, line := range []string{
				`postrider_inbox_deliveries_total{inbox="desk@firm.example",reply="2xx",result="delivered"} 3.0`,
				"postrider_relay_up 1.0",
			} {
				if !strings.Contains(metrics, line) {
					t.Errorf("the metrics after it do not have %s:\n%s", line, metrics)
				}
			}
		})
	}
}

// TestWatchKilled: killed while it sends, it loses nothing. The next one goes on, and only what was
// being sent may come twice.
func TestWatchKilled(t *testing.T) {
	w := watch(t, "sqlite")
	const n, connections = 40, 8
	var dots atomic.Int64
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" && dots.Add(1) == n/2 {
			_ = w.p.cmd.Process.Kill()
		}
		return smtpsink.Action{}
	})
	w.configure()
	_ = w.p.cmd.Process.Signal(syscall.SIGHUP)
	w.says("the configuration was read again")
	msgs := w.arrive(n, "killed")
	<-w.p.ended()
	w.endLeases()
	w.restart()
	w.await("all are delivered", func() bool { return len(w.tasks("--status", "forwarded")) == n })
	w.end(w.p, 0)
	twice := 0
	for _, raw := range msgs {
		times := w.arrived()[idOf(t, raw)]
		if times == 0 {
			t.Error("a message was lost")
		}
		twice += max(times-1, 0)
	}
	if twice > 2*connections {
		t.Errorf("%d messages came twice, want at most %d", twice, 2*connections)
	}
}

// TestWatchBesideRun: cron goes on beside it. Nothing comes twice, and nobody waits for the other.
func TestWatchBesideRun(t *testing.T) {
	w := watch(t, "mariadb")
	other := w.start(nil, "watch") // on another host, as far as the database knows
	var sent [][]byte
	for i := range 5 {
		sent = append(sent, w.arrive(4, fmt.Sprint("round ", i))...)
		w.pass(0)
	}
	w.came(len(sent))
	w.end(w.p, 0)
	last := w.arrive(3, "the other one takes over")
	w.came(len(sent) + 3)
	w.end(other, 0)
	w.wantOnce(sent, last)
}

// TestWatchRestarts: connections that break, a server that is away, and a folder with another
// UIDVALIDITY. It is said once, and nothing is lost or repeated.
func TestWatchRestarts(t *testing.T) {
	w := watch(t, "sqlite", "--folder", "INBOX", "--folder", "Junk")
	w.says("folder=Junk")
	w.arrive(2, "before")
	junk := mails(3, "junk")
	w.imap.Append(t, desk, "Junk", junk...)
	w.came(2)
	w.proxy.Cut(testserver.RST)
	w.arrive(2, "reset")
	w.came(7) // with those in Junk: a new connection looks into all folders
	w.proxy.Refuse(t, true)
	w.proxy.Cut(testserver.FIN)
	w.imap.DeleteFolder(t, desk, "Junk")
	w.imap.Append(t, desk, "Junk", append(junk, mails(1, "after")...)...)
	w.arrive(2, "away")
	w.says("the server cannot be reached")
	w.proxy.Refuse(t, false)
	w.came(10)
	w.says("works again")
	w.end(w.p, 0)
	if n := strings.Count(w.p.stderr.String(), "the server cannot be reached"); n != 1 {
		t.Errorf("it is said %d times that the server cannot be reached, want once", n)
	}
	if got := w.arrived(); len(got) != 10 || len(w.sink.Messages()) != 10 {
		t.Errorf("%d messages came, %d different ones; want 10, each once", len(w.sink.Messages()), len(got))
	}
}

// TestWatchDrains: SIGTERM lets the message finish that is on the wire, and releases the rest.
func TestWatchDrains(t *testing.T) {
	w := watch(t, "sqlite")
	at, answer := make(chan struct{}, 1), make(chan struct{})
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage != "dot" {
			return smtpsink.Action{}
		}
		at <- struct{}{}
		return smtpsink.Action{Block: answer}
	})
	w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, security: none, connections: 1", w.smtpPort)
	w.configure()
	_ = w.p.cmd.Process.Signal(syscall.SIGHUP)
	w.says("the configuration was read again")
	msgs := w.arrive(3, "drained")
	<-at
	_ = w.p.cmd.Process.Signal(syscall.SIGTERM)
	w.says("stopping: messages in flight are finished")
	close(answer)
	if res := w.p.wait(); res.code != 75 {
		t.Errorf("watch ended with %d, want 75: two messages are left\n%s", res.code, res.stderr)
	}
	if got := w.tasks("--status", "in_progress"); len(got) > 0 || len(w.sink.Messages()) != 1 {
		t.Errorf("%d messages came and %d tasks are claimed, want one message and none",
			len(w.sink.Messages()), len(got))
	}
	w.restart()
	go func() {
		for range at {
			continue
		}
	}()
	w.came(3)
	w.end(w.p, 0)
	close(at)
	w.wantOnce(msgs)
}

// TestWatchEndsAtOnce: a second SIGTERM does not wait for the relay, and loses nothing.
func TestWatchEndsAtOnce(t *testing.T) {
	w := watch(t, "sqlite")
	at, answer := w.holdFirst()
	w.configure()
	_ = w.p.cmd.Process.Signal(syscall.SIGHUP)
	w.says("the configuration was read again")
	msgs := w.arrive(2, "stopped")
	<-at
	_ = w.p.cmd.Process.Signal(syscall.SIGTERM)
	w.says("stopping: messages in flight are finished")
	w.await("it ends", func() bool {
		_ = w.p.cmd.Process.Signal(syscall.SIGTERM) // one right behind the first may still be caught
		select {
		case <-w.p.ended():
			return true
		default:
			return false
		}
	})
	close(answer)
	w.endLeases()
	w.restart()
	w.await("all are delivered", func() bool { return len(w.tasks("--status", "forwarded")) == len(msgs) })
	w.end(w.p, 0)
	for _, raw := range msgs {
		if w.arrived()[idOf(t, raw)] == 0 {
			t.Error("a message was lost")
		}
	}
}

// TestWatchBroken: a broken edit is said once, and the previous configuration stays in force until
// it is fixed. A changed route counts at once.
func TestWatchBroken(t *testing.T) {
	w := watch(t, "sqlite")
	good, err := os.ReadFile(w.path("postrider.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("postrider.yaml", string(good)+"nonsense: true\n")
	w.says("the previous one stays in force")
	w.arrive(1, "meanwhile")
	w.came(1)
	w.write("postrider.yaml", strings.ReplaceAll(string(good), "intake@firm.example", "other@firm.example"))
	w.says("the configuration is valid again and in force")
	w.arrive(1, "after")
	w.await("the new route", func() bool { return len(w.arrivedFor("other@firm.example")) == 1 })
	w.end(w.p, 0)
	if n := strings.Count(w.p.stderr.String(), "the previous one stays in force"); n != 1 {
		t.Errorf("the broken edit is said %d times, want once", n)
	}
	if n := w.proxy.Connections(); n != 1 {
		t.Errorf("%d connections, want one: routes have nothing to do with logins", n)
	}
}

// TestWatchRaisedMaxSize: after forward.max_size is raised and read again, larger mail goes out:
// the connections of before would refuse it.
func TestWatchRaisedMaxSize(t *testing.T) {
	w := &watching{world: newWorld(t, "sqlite")}
	limit := func(from, to string) {
		w.rewrite(func(text string) string { return strings.Replace(text, from, to, 1) })
	}
	limit("forward: {", "forward: {max_size: 2KiB, ")
	w.addInbox(desk, "--start", "now")
	w.restart()
	limit("2KiB", "20KiB")
	_ = w.p.cmd.Process.Signal(syscall.SIGHUP)
	w.await("a new connection", func() bool { return strings.Count(w.p.stderr.String(), "folder opened") == 2 })
	large := testserver.Mail("alice@client.example", desk, "large", strings.Repeat("The quick brown fox.\n", 500))
	w.imap.Append(t, desk, "INBOX", large)
	w.came(1)
	w.end(w.p, 0)
	w.wantOnce([][]byte{large})
}

// TestWatchBrokenPage: while a broken edit is not in force, the page says so.
func TestWatchBrokenPage(t *testing.T) {
	w := &watching{world: newWorld(t, "sqlite")}
	good, err := os.ReadFile(w.path("postrider.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.p = w.start(nil, "watch", "-v", "--listen", "127.0.0.1:0")
	url := w.page(w.p)
	shows := func() string {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the page answers %s, %v", resp.Status, err)
		}
		return string(body)
	}
	const title = "The configuration cannot be used"
	if strings.Contains(shows(), title) {
		t.Errorf("a good configuration: the page says %q", title)
	}
	w.write("postrider.yaml", string(good)+"nonsense: true\n")
	w.await("the page says so", func() bool { return strings.Contains(shows(), title) })
	w.write("postrider.yaml", string(good))
	w.await("the page says so no more", func() bool { return !strings.Contains(shows(), title) })
	w.end(w.p, 0)
}

// TestWatchWarns: nobody reads a report of watch, so the log warns of a message that nobody gets.
func TestWatchWarns(t *testing.T) {
	w := watch(t, "sqlite")
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" {
			return smtpsink.Action{Code: 550, Text: "5.1.1 no such user"}
		}
		return smtpsink.Action{}
	})
	w.configure()
	_ = w.p.cmd.Process.Signal(syscall.SIGHUP)
	w.says("the configuration was read again")
	w.arrive(1, "refused")
	w.says(`level=WARN msg="message dead" inbox=` + desk + ` task=1 `)
	w.end(w.p, 0)
}

// TestWatchSystemd: the manager hears that it is ready, how it is, and that it stops.
func TestWatchSystemd(t *testing.T) {
	dir, err := os.MkdirTemp(testserver.TempDir(), "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	told := make(chan string, 100)
	go func() {
		defer close(told)
		for buffer := make([]byte, 1000); ; {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			told <- string(buffer[:n])
		}
	}()
	w := watch(t, "sqlite")
	hears := func() string {
		t.Helper()
		select {
		case got := <-told:
			return got
		case <-time.After(time.Minute):
			t.Fatal("the manager is told nothing")
			return ""
		}
	}
	got := hears()
	if got == "READY=1\nSTATUS=0 of 1 inbox" { // the first visit may be over by then
		got = "READY=1\n" + hears()
	}
	if got != "READY=1\nSTATUS=1 of 1 inbox" {
		t.Errorf("the manager is told %q, want READY=1 and STATUS=1 of 1 inbox", got)
	}
	w.end(w.p, 0)
	if got := hears(); got != "STOPPING=1" {
		t.Errorf("the manager is told %q at the end, want STOPPING=1", got)
	}
}
