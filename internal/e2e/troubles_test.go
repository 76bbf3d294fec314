package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestTroubles checks what is reported of an inbox that fails, and that the other inbox goes on.
func TestTroubles(t *testing.T) {
	tests := []struct {
		name   string
		break_ func(w *world)
		want   []string // on standard error, in one line
	}{
		{"wrong password", func(w *world) {
			w.imap.SetPassword(w.t, "bad@firm.example", "another")
		}, []string{"bad@firm.example", "password", "inbox set"}},
		{"unknown host", func(w *world) {
			w.must(0, "inbox", "set", "bad@firm.example", "--host", "imap.invalid", "--security", "tls")
		}, []string{"bad@firm.example", "imap.invalid"}},
		{"nothing listens", func(w *world) {
			w.must(0, "inbox", "set", "bad@firm.example", "--port", "1")
		}, []string{"bad@firm.example", "127.0.0.1:1", "refused"}},
		{"certificate", func(w *world) {
			w.must(0, "inbox", "set", "bad@firm.example", "--port", fmt.Sprint(w.imap.TLSPort), "--security", "tls")
		}, []string{"bad@firm.example", "certificate", "ca_file"}},
		{"missing folder", func(w *world) {
			w.must(0, "inbox", "set", "bad@firm.example", "--folder", "Nowhere")
		}, []string{"bad@firm.example", "Nowhere", "inbox"}},
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
				t.Errorf("the errors of the inboxes are %q and %q, want one only for bad@",
					r.Inboxes[0].Error, r.Inboxes[1].Error)
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

// TestRelayTroubles checks what is reported of a relay that refuses the login or the sender, and
// that no attempt is counted.
func TestRelayTroubles(t *testing.T) {
	tests := []struct {
		name, section, stage string
		action               smtpsink.Action
		want                 []string
	}{
		{
			"login refused", ", username: u, password: \"env:RELAY_PASSWORD\"", "auth",
			smtpsink.Action{Code: 535, Text: "5.7.8 bad credentials"},
			[]string{"535", "smtp."},
		},
		{
			"sender refused", "", "mail",
			smtpsink.Action{Code: 553, Text: "5.7.1 not yours"},
			[]string{"553", "envelope_from"},
		},
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
			text := fmt.Sprintf("database: {%s}\nsmtp: {host: 127.0.0.1, port: %d, security: none%s}\n"+
				"forward: {from: f@firm.example}\nroutes:\n%s",
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

// TestDatabaseTroubles checks what is reported of a database that is down or whose schema is old,
// and of a configuration with errors.
func TestDatabaseTroubles(t *testing.T) {
	w := newWorld(t, "mariadb")
	behind := testserver.MariaDB(t).NewDatabase(t)
	tests := []struct {
		name, database string
		code           int
		want           []string
	}{
		{"down", `driver: mysql, dsn: "root:hunter2@tcp(127.0.0.1:1)/postrider"`, 1, []string{
			"127.0.0.1:1", "refused",
		}},
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

// TestDryRun: a dry run changes nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.addInbox("desk@firm.example", "--start", "all")
	msgs := mails(3, "draft")
	w.imap.Append(t, "desk@firm.example", "INBOX", msgs...)
	for range 2 {
		res := w.must(0, "run", "--dry-run")
		if n := strings.Count(res.stdout, "would be forwarded to intake@firm.example by route all"); n != 3 {
			t.Errorf("the dry run shows %d messages, want 3:\n%s", n, res.stdout)
		}
	}
	if n := len(w.tasks()); n != 0 {
		t.Errorf("the dry run registered %d messages", n)
	}
	w.wantOnce()
	up := w.smtpPort
	w.smtpPort = 1
	w.configure()
	w.pass(75)
	res := w.must(0, "run", "--dry-run")
	if n := strings.Count(res.stdout, "(received) would be processed"); n != 3 {
		t.Errorf("the dry run shows %d tasks, want the 3 that wait:\n%s", n, res.stdout)
	}
	w.smtpPort = up
	w.configure()
	w.pass(0)
	w.wantOnce(msgs)
}

// TestTimeout: --timeout ends a pass.
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
		t.Error("the pass did not end, although it had not begun to send: the relay had not greeted")
	}
}

// TestHangup: a terminal that is closed ends a pass, but not the message on the wire: it does not
// arrive twice. A `| tee` ends at once, and what is written then is not read.
func TestHangup(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else processes that a test under nohup starts ignore it, too
	defer signal.Stop(hangups)
	for _, tt := range []struct {
		command string
		signals []syscall.Signal
		read    bool
		code    int
	}{
		{"run", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, true, 75},
		{"run", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, false, 75},
		{"watch", []syscall.Signal{syscall.SIGINT}, false, 0},
	} {
		t.Run(fmt.Sprintf("%s, read %t", tt.command, tt.read), func(t *testing.T) {
			w := newWorld(t, "sqlite")
			at, answer := w.holdFirst()
			w.configure()
			w.addInbox("desk@firm.example", "--start", "all")
			msgs := mails(1, "m")
			w.imap.Append(t, "desk@firm.example", "INBOX", msgs...)
			reader, output, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if !tt.read {
				w.output = output
			}
			p := w.start(nil, tt.command, "-v")
			w.output = nil
			<-at
			_, _ = reader.Close(), output.Close()
			for _, s := range tt.signals {
				_ = p.cmd.Process.Signal(s)
				time.Sleep(100 * time.Millisecond) // else two are one signal
			}
			close(answer)
			if res := p.wait(); res.code != tt.code {
				t.Errorf("%v, want %d\n%s", p.cmd.ProcessState, tt.code, res.stderr)
			}
			w.endLeases()
			w.pass(0)
			w.wantOnce(msgs)
		})
	}
}
