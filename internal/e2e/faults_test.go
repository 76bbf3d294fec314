package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

const patient = "retry: {base: 1s, max: 1s}\nconcurrency: {lease: 1s, page: 20}\n"

// TestKill kills passes at random moments, over and over, until the work is done. Passes live longer the more were killed, so that it
// ends on a busy machine, too. A message may arrive twice only if its delivery
// was marked as being sent when a pass was killed.
func TestKill(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		w.extra = patient
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage != "dot" {
				return smtpsink.Action{}
			}
			slow := make(chan struct{})
			time.AfterFunc(10*time.Millisecond, func() { close(slow) })
			return smtpsink.Action{Block: slow}
		})
		w.configure()
		var backlog [][]byte
		for _, address := range []string{"desk@firm.example", "court@firm.example"} {
			w.addInbox(address, "--start", "all")
			msgs := mails(150, address)
			w.imap.Append(t, address, "INBOX", msgs...)
			backlog = append(backlog, msgs...)
		}
		sending := map[string]bool{} // Message-IDs that were on the wire at a kill
		kills := 0
		for done := false; !done; {
			p := w.start(nil, "run")
			timer := time.AfterFunc(time.Duration(20+rand.IntN(200+20*kills))*time.Millisecond, func() { _ = p.cmd.Process.Kill() })
			killed := p.wait().code == -1
			timer.Stop()
			if killed {
				kills++
			}
			forwarded := 0
			for _, one := range w.tasks() {
				switch {
				case one.Status == "forwarded":
					forwarded++
				case len(one.Deliveries) > 0 && one.Deliveries[0].Status == "sending":
					sending[one.MessageID] = true
				case one.Status == "dead":
					t.Fatalf("task %d is dead: %s", one.ID, one.Reason)
				}
			}
			done = forwarded == len(backlog)
			if kills > 400 {
				t.Fatalf("%d of %d forwarded after %d kills", forwarded, len(backlog), kills)
			}
		}
		got := w.arrived()
		repeats := 0
		for _, raw := range backlog {
			id := idOf(t, raw)
			if got[id] == 0 {
				t.Errorf("message %s was lost", id)
			}
			if repeats += got[id] - 1; got[id] > 1 && !sending[id] {
				t.Errorf("message %s arrived %d times, and was not being sent at any kill", id, got[id])
			}
		}
		t.Logf("%d kills, %d messages, 0 lost, %d repeated", kills, len(backlog), repeats)
		if kills == 0 {
			t.Error("no pass was killed")
		}
	})
}

// TestTwoRuns starts two passes together over one backlog.
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

// TestRelayComesBack takes the relay away for one pass, lets it answer 451 to one recipient after the other, and then accept.
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
		if n := strings.Count(res.stderr, "the relay is at fault"); n != 1 || !strings.Contains(res.stderr, "127.0.0.1:1") {
			t.Errorf("the relay's fault was told %d times, want once, with its address:\n%s", n, res.stderr)
		}

		var refuse atomic.Bool
		refuse.Store(true)
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "rcpt" && refuse.Load() {
				return smtpsink.Action{Code: 451, Text: "4.3.0 try again later"}
			}
			return smtpsink.Action{}
		})
		w.configure()
		if r, _ = w.pass(75); r.Totals.Retry != 30 || r.Totals.Dead != 0 {
			t.Errorf("with the relay answering 451 the pass reports %+v, want 30 to be retried", r.Totals)
		}
		if one := w.tasks("--limit", "1")[0]; one.Status != "error" || one.Deliveries[0].Code != 451 {
			t.Errorf("a task is %s with the reply %+v, want error with 451", one.Status, one.Deliveries)
		}
		refuse.Store(false)
		w.eventually(func() bool { r, _ := w.pass(0); return len(w.sink.Messages()) == 30 && r.Totals.Retry == 0 })
		w.wantOnce(backlog)
	})
}

// eventually repeats cond, which takes its time by itself, until it holds.
func (w *world) eventually(cond func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(deadline) {
			w.t.Fatal("what was waited for did not come")
		}
	}
}

// TestDatabaseRestarts stops the database in the middle of a pass and starts it again.
func TestDatabaseRestarts(t *testing.T) {
	servers := map[string]func(testing.TB) *testserver.SQL{"mariadb": testserver.MariaDB, "mysql": testserver.MySQL}
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

// TestSignal ends a pass with SIGTERM while the relay holds a message back.
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
	w.eventually(func() bool { // the other senders finish what they have
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
			t.Errorf("task %d is %s after %d attempts, want forwarded, or received after none", one.ID, one.Status, one.Attempts)
		}
	}
	w.pass(0)
	w.wantOnce(backlog)
}

// TestTroubles checks what a person is told, and that the other inbox goes on.
func TestTroubles(t *testing.T) {
	tests := []struct {
		name   string
		break_ func(w *world)
		want   []string // on standard error, in one line
	}{
		{"wrong password", func(w *world) { w.imap.SetPassword(w.t, "bad@firm.example", "another") }, []string{"bad@firm.example", "password", "inbox set"}},
		{"unknown host", func(w *world) {
			w.must(0, "inbox", "set", "bad@firm.example", "--host", "imap.invalid", "--security", "tls")
		}, []string{"bad@firm.example", "imap.invalid"}},
		{"nothing listens", func(w *world) { w.must(0, "inbox", "set", "bad@firm.example", "--port", "1") }, []string{"bad@firm.example", "127.0.0.1:1", "refused"}},
		{"certificate", func(w *world) {
			w.must(0, "inbox", "set", "bad@firm.example", "--port", fmt.Sprint(w.imap.TLSPort), "--security", "tls")
		}, []string{"bad@firm.example", "certificate", "ca_file"}},
		{"missing folder", func(w *world) { w.must(0, "inbox", "set", "bad@firm.example", "--folder", "Nowhere") }, []string{"bad@firm.example", "Nowhere", "inbox"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.addInbox("bad@firm.example", "--start", "all")
			w.addInbox("good@firm.example", "--start", "all")
			tt.break_(w)
			msgs := mails(3, "good")
			w.imap.Append(t, "good@firm.example", "INBOX", msgs...)
			r, res := w.pass(75)
			w.wantOnce(msgs)
			if r.Inboxes[0].Error == "" || r.Inboxes[1].Error != "" {
				t.Errorf("the errors of the inboxes are %q and %q, want one for bad@ alone", r.Inboxes[0].Error, r.Inboxes[1].Error)
			}
			if !oneLineWith(res.stderr, tt.want) {
				t.Errorf("no line of standard error has all of %q:\n%s", tt.want, res.stderr)
			}
			t.Log(strings.TrimSpace(res.stderr))
		})
	}
}

func oneLineWith(text string, want []string) bool {
lines:
	for line := range strings.Lines(text) {
		for _, w := range want {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		return true
	}
	return false
}

// TestRelayTroubles checks what is said of a relay that will not have us, and that nothing is counted against the messages.
func TestRelayTroubles(t *testing.T) {
	tests := []struct {
		name, section, stage string
		action               smtpsink.Action
		want                 []string
	}{
		{"login refused", ", username: u, password: \"env:RELAY_PASSWORD\"", "auth", smtpsink.Action{Code: 535, Text: "5.7.8 bad credentials"}, []string{"535", "smtp."}},
		{"sender refused", "", "mail", smtpsink.Action{Code: 553, Text: "5.7.1 not yours"}, []string{"553", "envelope_from"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("RELAY_PASSWORD", password)
			w := newWorld(t, "sqlite")
			sink, err := smtpsink.Start(smtpsink.Options{
				Auth: []string{"PLAIN"}, Users: map[string]string{"u": password}, KeepData: true,
				Reply: func(e smtpsink.Event) smtpsink.Action {
					if e.Stage == tt.stage {
						return tt.action
					}
					return smtpsink.Action{}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sink.Close)
			if tt.stage == "mail" {
				tt.section = ", username: u, password: \"env:RELAY_PASSWORD\""
			}
			text := fmt.Sprintf("database: {%s}\nsmtp: {host: 127.0.0.1, port: %d, security: none%s}\nforward: {from: f@firm.example}\nroutes:\n%s",
				w.database, sink.Port(), tt.section, w.routes)
			if err := os.WriteFile(w.path("postrider.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			w.addInbox("desk@firm.example", "--start", "all")
			w.imap.Append(t, "desk@firm.example", "INBOX", mails(5, "backlog")...)
			r, res := w.pass(75)
			if r.Totals.Registered != 5 || r.Totals.Dead+r.Totals.Forwarded != 0 {
				t.Errorf("the pass reports %+v, want 5 registered and waiting", r.Totals)
			}
			if !oneLineWith(res.stderr, tt.want) {
				t.Errorf("no line of standard error has all of %q:\n%s", tt.want, res.stderr)
			}
			t.Log(strings.TrimSpace(res.stderr))
		})
	}
}

// TestDatabaseTroubles checks what is said of a database that is down or behind, and of a configuration with faults.
func TestDatabaseTroubles(t *testing.T) {
	w := newWorld(t, "mariadb")
	behind := testserver.MariaDB(t).NewDatabase(t)
	tests := []struct {
		name, database string
		code           int
		want           []string
	}{
		{"down", `driver: mysql, dsn: "root:hunter2@tcp(127.0.0.1:1)/postrider"`, 1, []string{"127.0.0.1:1", "refused"}},
		{"behind", `driver: mysql, dsn: "` + behind + `"`, 1, []string{"postrider migrate"}},
		{"unknown key", `driver: mysql, dns: "x"`, 2, []string{"postrider.yaml:1", "dns", "did you mean", "dsn"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.database = tt.database
			w.configure()
			for _, args := range [][]string{{"run"}, {"status"}, {"task", "list"}} {
				res := w.must(tt.code, args...)
				if !oneLineWith(res.stderr, tt.want) {
					t.Errorf("%s: no line has all of %q:\n%s", args, tt.want, res.stderr)
				}
				if strings.Contains(res.stderr, "hunter2") {
					t.Errorf("%s printed the database's password", args)
				}
			}
		})
	}
}

// TestDryRun touches nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.addInbox("desk@firm.example", "--start", "all")
	msgs := mails(3, "draft")
	w.imap.Append(t, "desk@firm.example", "INBOX", msgs...)
	for range 2 {
		res := w.must(0, "run", "--dry-run")
		if n := strings.Count(res.stdout, "would be forwarded to desk@firm.example by route all"); n != 3 {
			t.Errorf("the dry run tells of %d messages, want 3:\n%s", n, res.stdout)
		}
	}
	if n := len(w.tasks()); n != 0 {
		t.Errorf("the dry run registered %d messages", n)
	}
	w.wantOnce()
	w.pass(0)
	w.wantOnce(msgs)
}

// TestTimeout ends a pass after its time.
func TestTimeout(t *testing.T) {
	w := newWorld(t, "sqlite")
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	stuck := make(chan struct{})
	var once atomic.Bool
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "connect" {
			if once.CompareAndSwap(false, true) {
				close(stuck)
			}
			return smtpsink.Action{Block: release}
		}
		return smtpsink.Action{}
	})
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	w.imap.Append(t, "desk@firm.example", "INBOX", mails(3, "m")...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := w.start(nil, "run", "--timeout", "1s")
	code := make(chan int, 1)
	go func() { code <- p.wait().code }()
	select {
	case got := <-code:
		if got != 75 {
			t.Errorf("exit %d, want 75", got)
		}
	case <-ctx.Done():
		t.Error("the pass did not end although a relay that says nothing is not on the wire yet")
	}
}
