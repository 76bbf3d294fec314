package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

const patient = "retry: {base: 1s, max: 1s}\nconcurrency: {page: 20}\n"

// TestTwoRuns starts two passes with one backlog at the same time.
func TestTwoRuns(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		var backlog [][]byte
		for i := range 4 {
			address := fmt.Sprintf("box%d@firm.example", i)
			w.addInbox(address, "--start", "all")
			msgs := mails(100, address)
			w.imap.Append(t, address, "INBOX", msgs...)
			backlog = append(backlog, msgs...)
		}
		a, b := w.start(nil, "run"), w.start(nil, "run")
		for _, res := range []result{a.wait(), b.wait()} {
			if res.code != 0 {
				t.Errorf("exit %d, want 0\n%s", res.code, res.stderr)
			}
		}
		w.pass(0)
		w.wantOnce(backlog)
	})
}

// TestRelayComesBack: the relay is down for one pass, then answers 451 to each recipient, and then
// accepts.
func TestRelayComesBack(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.extra = patient
		w.addInbox("desk@firm.example", "--start", "all")
		backlog := mails(30, "backlog")
		w.imap.Append(t, "desk@firm.example", "INBOX", backlog...)

		w.smtpPort = 1
		w.configure()
		r, res := w.pass(75)
		if r.Totals.Registered != 30 || r.Totals.Forwarded != 0 {
			t.Errorf("with the relay down the pass reports %+v, want 30 registered and none forwarded", r.Totals)
		}
		if n := strings.Count(res.stderr, "the relay failed"); n != 1 || !strings.Contains(res.stderr, "127.0.0.1:1") {
			t.Errorf("the relay's fault was logged %d times, want once, with its address:\n%s", n, res.stderr)
		}

		var refuse atomic.Bool
		refuse.Store(true)
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "rcpt" && refuse.Load() {
				return smtpsink.Action{Code: 451, Text: "4.3.0 try again later"}
			}
			return smtpsink.Action{}
		})
		w.extra = "retry: {base: 1h}\n" // however slow the pass is, it tries each once
		w.configure()
		if r, _ = w.pass(75); r.Totals.Retry != 30 || r.Totals.Dead != 0 {
			t.Errorf("with the relay answering 451 the pass reports %+v, want 30 to be retried", r.Totals)
		}
		if one := w.tasks("--limit", "1")[0]; one.Status != "error" || one.Deliveries[0].Code != 451 {
			t.Errorf("a task is %s with the reply %+v, want error with 451", one.Status, one.Deliveries)
		}
		refuse.Store(false)
		w.change(30, "retry", "--status", "error")
		if r, _ = w.pass(0); r.Totals.Forwarded != 30 || r.Totals.Retry != 0 {
			t.Errorf("with the relay back the pass reports %+v, want 30 forwarded", r.Totals)
		}
		w.wantOnce(backlog)
	})
}

// eventually repeats cond until it holds. cond takes time by itself, so there is no pause.
func (w *world) eventually(cond func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(deadline) {
			w.t.Fatal("the condition did not hold within a minute")
		}
	}
}

var servers = map[string]func(testing.TB) *testserver.SQL{"mariadb": testserver.MariaDB, "mysql": testserver.MySQL}

// TestDatabaseRestarts stops the database in the middle of a pass and starts it again.
func TestDatabaseRestarts(t *testing.T) {
	onEach(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		at := make(chan struct{})
		var once atomic.Bool
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "dot" && e.N > 20 && once.CompareAndSwap(false, true) {
				close(at)
			}
			return smtpsink.Action{}
		})
		w.configure()
		w.addInbox("desk@firm.example", "--start", "all")
		backlog := mails(300, "backlog")
		w.imap.Append(t, "desk@firm.example", "INBOX", backlog...)
		p := w.start(nil, "run", "--json")
		select {
		case <-at:
		case <-time.After(time.Minute):
			t.Fatal("nothing arrived")
		}
		servers[kindOf(t)](t).Restart(t)
		if res := p.wait(); res.code != 0 {
			t.Errorf("exit %d, want 0: the pass waits for the database\n%s%s", res.code, res.stdout, res.stderr)
		}
		w.wantOnce(backlog)
	})
}

func kindOf(t *testing.T) string { return t.Name()[strings.LastIndex(t.Name(), "/")+1:] }

// TestConnectionCut cuts the IMAP connection in the middle of messages.
func TestConnectionCut(t *testing.T) {
	for name, end := range map[string]testserver.End{"FIN": testserver.FIN, "RST": testserver.RST} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			proxy := testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", w.imap.Port))
			w.imapPort = proxy.Port
			w.addInbox("desk@firm.example", "--start", "all")
			backlog := mails(100, "backlog")
			w.imap.Append(t, "desk@firm.example", "INBOX", backlog...)
			for range 4 {
				proxy.CutAfter(int64(10_000+rand.IntN(20_000)), end)
				w.must(0, "run")
			}
			w.wantOnce(backlog)
		})
	}
}

// TestSignal sends SIGTERM to a pass while the relay delays its reply to one message.
func TestSignal(t *testing.T) {
	w := newWorld(t, "sqlite")
	held, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" && e.N == 5 && once.CompareAndSwap(false, true) {
			close(held)
			return smtpsink.Action{Block: release}
		}
		return smtpsink.Action{}
	})
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	backlog := mails(200, "backlog")
	w.imap.Append(t, "desk@firm.example", "INBOX", backlog...)
	p := w.start(nil, "run")
	<-held
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() bool { // the other senders have finished
		n := 0
		for _, one := range w.tasks("--status", "in_progress") {
			if len(one.Deliveries) == 1 && one.Deliveries[0].Status == "sending" {
				n++
			}
		}
		return n == 1
	})
	close(release)
	if res := p.wait(); res.code != 75 {
		t.Errorf("exit %d after SIGTERM, want 75\n%s", res.code, res.stderr)
	}
	for _, one := range w.tasks() {
		if one.Status != "forwarded" && (one.Status != "received" || one.Attempts != 0) {
			t.Errorf("task %d is %s after %d attempts, want forwarded, or received after none",
				one.ID, one.Status, one.Attempts)
		}
	}
	w.pass(0)
	w.wantOnce(backlog)
}
