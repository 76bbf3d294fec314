//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
)

// TestNoticesKilled kills a pass when the operator has the notice, and the next one when the hook
// has it.
func TestNoticesKilled(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		at, answer := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		w.noticing(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "dot" && e.Message.To[0] == "ops@firm.example" && once.CompareAndSwap(false, true) {
				close(at)
				return smtpsink.Action{Block: answer, AcceptAndDrop: true}
			}
			return smtpsink.Action{}
		})
		w.hook("#!/bin/sh\ncat >> told\nkill -9 $PPID\n")
		w.addInbox("desk@firm.example", "--start", "all")
		w.put("desk@firm.example", "one")
		if res := w.start(nil, "run").wait(); res.code != -1 {
			t.Fatalf("exit %d\n%s\nwant it killed by its hook", res.code, res.stderr)
		}
		w.wantNotices("killed while the hook had the digest", 1)
		w.hook(hookScript)
		w.later()
		p := w.start(nil, "run")
		select {
		case <-at:
		case <-time.After(time.Minute):
			t.Fatal("the relay did not get the notice")
		}
		_ = p.cmd.Process.Kill()
		<-p.ended()
		close(answer)
		w.eventually(func() bool { return len(w.arrivedFor("ops@firm.example")) == 1 })
		w.wantNotices("the hook got it again", 2, "1 message is dead")
		w.later()
		w.must(0, "run")
		mails := w.wantNotices("the operator got it again", 2, "1 message is dead", "1 message is dead")
		if a, z := idOf(t, mails[0].Header), idOf(t, mails[1].Header); a != z {
			t.Errorf("the Message-IDs are %s and %s, want the same", a, z)
		}
		w.later()
		w.must(0, "run")
		w.wantNotices("everything was reported", 2, "1 message is dead", "1 message is dead")
	})
}

// TestNoticesSoonAfterAKill: a digest that a killed pass had begun to send waits only for its
// lease, here a second.
func TestNoticesSoonAfterAKill(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.noticing(nil)
		w.extra += "concurrency: {lease: 1s}\n"
		w.configure()
		w.hook("#!/bin/sh\nkill -9 $PPID\n")
		w.addInbox("desk@firm.example", "--start", "all")
		w.put("desk@firm.example", "one")
		if res := w.start(nil, "run").wait(); res.code != -1 {
			t.Fatalf("exit %d\n%s\nwant it killed by its hook", res.code, res.stderr)
		}
		w.hook(hookScript)
		w.eventually(func() bool {
			w.must(0, "run")
			return len(w.digests()) > 0
		})
		w.wantNotices("passes after the killed one", 1, "1 message is dead")
		w.must(0, "run")
		w.wantNotices("everything was reported", 1, "1 message is dead")
	})
}

// TestNoticesTwoHosts: two hosts end their passes at the same time, again and again, and report
// each dead message once.
func TestNoticesTwoHosts(t *testing.T) {
	onEach(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		w.noticing(nil)
		w.extra = notices + "concurrency: {host: HOST}\n"
		w.configure()
		h := &hosts{world: w}
		w.addInbox("desk@firm.example", "--start", "all")
		var subjects []string
		for i := range 4 {
			w.put("desk@firm.example", fmt.Sprint("one ", i))
			w.must(75, "run") // so that both find the dead message
			if i == 0 {
				subjects = append(subjects, "1 message is dead")
			}
			w.wantNotices("before the hour is over", len(subjects), subjects...)
			if i == 0 {
				continue
			}
			w.later()
			a, b := h.on("mail-a"), h.on("mail-b")
			a.wait()
			b.wait()
			subjects = append(subjects, "1 message is dead")
			w.wantNotices("two hosts at once", len(subjects), subjects...)
		}
	})
}

// TestNoticesStopped: SIGTERM ends a hook that hangs, and the next pass reports again.
func TestNoticesStopped(t *testing.T) {
	w := newWorld(t, "sqlite").noticing(nil)
	w.hook("#!/bin/sh\ncat > started\nsleep 300 & wait\n")
	w.addInbox("desk@firm.example", "--start", "all")
	w.put("desk@firm.example", "one")
	p := w.start(nil, "run")
	w.eventually(func() bool {
		_, err := os.Stat(w.path("started"))
		return err == nil
	})
	start := time.Now()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	res := p.wait()
	if took := time.Since(start); res.code != 75 || took > 20*time.Second {
		t.Errorf("exit %d after %s, want 75 at once\n%s", res.code, took, res.stderr)
	}
	w.hook(hookScript)
	w.must(0, "run")
	w.wantNotices("the next pass", 1, "1 message is dead")
}

// TestNoticesAfterTimeout: --timeout ends a pass, but not the notices after it. Otherwise passes
// that never get through would report nothing.
func TestNoticesAfterTimeout(t *testing.T) {
	at, answer := make(chan struct{}), make(chan struct{})
	w := newWorld(t, "sqlite").noticing(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" && bytes.Contains(e.Message.Header, []byte("Subject: slow")) {
			close(at)
			return smtpsink.Action{Block: answer}
		}
		return smtpsink.Action{}
	})
	w.extra = "" // no notices yet
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	w.put("desk@firm.example", "one")
	w.must(75, "run")
	w.extra = notices
	w.configure()
	w.put("desk@firm.example", "slow")
	p := w.start(nil, "run", "-v", "--timeout", "5s")
	select {
	case <-at:
	case <-time.After(time.Minute):
		t.Fatal("the relay did not get the slow message before --timeout was over")
	}
	time.AfterFunc(6*time.Second, func() { close(answer) })
	if res := p.wait(); res.code != 75 || !strings.Contains(res.stderr, "failure notice sent") {
		t.Errorf("exit %d, want 75 and the log line of the failure notice\n%s", res.code, res.stderr)
	}
	w.wantNotices("after the timeout", 1, "2 messages are dead")
}

// TestNoticesBeforeMail: a backlog that never ends leaves nothing of smtp.limits at the end of a
// pass, so notices go first.
func TestNoticesBeforeMail(t *testing.T) {
	w := newWorld(t, "sqlite").noticing(nil)
	w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, security: none, limits: {per_day: 2}", w.smtpPort)
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	w.put("desk@firm.example", "one", "two", "three")
	w.must(75, "run")
	w.wantNotices("the limit is used up by what died", 1)
	w.sql("DELETE FROM relay_usage")
	w.later()
	w.must(0, "run")
	w.wantNotices("there is a limit again, and mail for all of it", 1, "1 message is dead")
}

// TestNoticesThroughPostfix: a submission server that checks senders accepts the null reverse-path
// of a notice.
func TestNoticesThroughPostfix(t *testing.T) {
	w := newRelayWorld(t, relayCase{
		to: "nobody@firm.example", mails: mails(1, "letter"), settings: []string{
			ownSenderOnly, "smtpd_sender_restrictions = reject_sender_login_mismatch",
			"relay_recipient_maps = inline:{ ops@firm.example=x }",
		},
	})
	w.extra += "notify: {to: ops@firm.example}\n"
	w.configure()
	w.must(75, "run")
	w.eventually(func() bool { return len(w.sink.Messages()) == 1 })
	mail := w.wantNotices("one is dead", 0, "1 message is dead")[0]
	if mail.From != "" {
		t.Errorf("its reverse-path is %q, want a null one", mail.From)
	}
}
