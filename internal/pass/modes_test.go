package pass

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// modes are what arrived, in order, as "redirect", "rewrite", "attach" or "notice".
func (r *rig) modes() string {
	r.t.Helper()
	var out []string
	for _, m := range r.sink.Messages() {
		mode := "redirect"
		switch h := strings.ReplaceAll(string(m.Header), "\r\n ", " "); {
		case strings.Contains(h, "Subject: Too large"):
			mode = "notice"
		case strings.Contains(h, "multipart/mixed; boundary=postrider-"):
			mode = "attach"
		case strings.Contains(h, "X-Original-From:"):
			mode = "rewrite"
		}
		out = append(out, mode)
	}
	return strings.Join(out, " ")
}

func TestModeByRoute(t *testing.T) {
	to := []string{"team@firm.example"}
	r := newRig(t, nil,
		route.Rule{Name: "attach", Match: route.Match{Subject: []string{"message 0"}}, To: to, Mode: route.Attach},
		route.Rule{Name: "general", Match: route.Match{Subject: []string{"message 1"}}, To: to},
		route.Rule{Name: "redirect", To: to, Mode: route.Redirect},
	)
	r.Config.Style.Mode, r.Config.Senders = route.Rewrite, 1
	r.add(inbox.StartAll)
	r.put("INBOX", mails(3)...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	if got := r.modes(); got != "attach rewrite redirect" {
		t.Errorf("what arrived is %q, want attach by the route, rewrite in general, redirect by the route", got)
	}
	for _, task := range r.tasks() {
		want := map[string]string{"attach": "attach", "general": "rewrite", "redirect": "redirect"}[task.Route]
		if task.Form.Mode != want {
			t.Errorf("task %d is registered as sent in mode %q, want %q", task.ID, task.Form.Mode, want)
		}
	}
}

// TestModeChangesBetweenAttempts: who has the message, or may have it, never gets another one.
func TestModeChangesBetweenAttempts(t *testing.T) {
	drop := smtpsink.Action{AcceptAndDrop: true}
	tests := []struct {
		name        string
		first       smtpsink.Action // the answer to the first final dot, or to RCPT
		at          string
		begin, then route.Mode
		want        string // what arrived
	}{
		{"the outcome is unknown", drop, "dot", route.Redirect, route.Attach, "redirect redirect"},
		{"the outcome is unknown, the other way", drop, "dot", route.Attach, route.Redirect, "attach attach"},
		{"refused for now: nobody has it", smtpsink.Action{Code: 451}, "dot", route.Redirect, route.Attach, "attach"},
		{"not even asked", smtpsink.Action{Code: 450}, "rcpt", route.Rewrite, route.Attach, "attach"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, on(tt.at, 1, tt.first))
			r.Config.Style.Mode = tt.begin
			r.add(inbox.StartAll)
			r.put("INBOX", mails(1)...)
			r.run()
			r.Config.Style.Mode = tt.then
			r.clock.advance(time.Hour)
			r.want(r.run(), Counters{Forwarded: 1})
			if got := r.modes(); got != tt.want {
				t.Errorf("what arrived is %q, want %q", got, tt.want)
			}
			ids := map[string]bool{}
			for _, m := range r.sink.Messages() {
				ids[messageID(t, m.Header)] = true
			}
			if len(ids) != 1 {
				t.Errorf("the copies have the Message-IDs %v, want one", ids)
			}
		})
	}
}

// TestFallback: the relay takes no 8-bit message.
func TestFallback(t *testing.T) {
	for _, fallback := range []route.Fallback{route.FallbackNone, route.FallbackAttach} {
		r := newRig(t, nil)
		plain, err := smtpsink.Start(smtpsink.Options{KeepData: true})
		check(t, err)
		t.Cleanup(plain.Close)
		r.sink = plain
		r.Relay = r.relay()
		r.Config.Style.Fallback = fallback
		r.add(inbox.StartAll)
		r.put("INBOX", []byte("From: alice@client.example\r\nSubject: x\r\n"+
			"Message-ID: <8@client.example>\r\n\r\nZażółć\r\n"))
		if fallback == route.FallbackNone {
			r.want(r.run(), Counters{Registered: 1, Dead: 1})
			r.wantTask(tasks.Dead, "8BITMIME (set fallback: attach")
			continue
		}
		r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
		if got := r.wantTask(tasks.Forwarded, ""); r.modes() != "attach" || got.Form.Mode != "attach" {
			t.Errorf("arrived as %q, registered as %q, want attach", r.modes(), got.Form.Mode)
		}
		if !strings.Contains(r.log.String(), "attached instead: the relay takes no 8-bit message") {
			t.Errorf("the log does not say why it was attached:\n%s", r.log.String())
		}
	}
}

// large is a message above the rig's limit.
func large(n int) []byte {
	lines := strings.Repeat(strings.Repeat("x", 76)+"\r\n", 15_000)
	return testserver.Mail("alice@client.example", address, fmt.Sprintf("message %d", n), lines)
}

// counting counts the bodies that are asked for.
type counting struct {
	Source
	bodies *atomic.Int64
}

func (c counting) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	c.bodies.Add(int64(len(uids)))
	return c.Source.Bodies(ctx, uids, each)
}

// TestTooLargeNotice: a notice is a delivery like any other: routed by the header, retried, and the
// same each time.
func TestTooLargeNotice(t *testing.T) {
	to := []string{"team@firm.example"}
	r := newRig(t, on("dot", 1, smtpsink.Action{Code: 451}),
		route.Rule{Name: "zero", Match: route.Match{Subject: []string{"message 0"}, Larger: 1 << 20}, To: to},
		route.Rule{Name: "skips", Match: route.Match{Subject: []string{"message 1"}}, Skip: true},
	)
	r.Config.Notices = true
	r.add(inbox.StartAll)
	r.put("INBOX", large(0), large(1), large(2))
	var bodies atomic.Int64
	r.behind(func(src Source) Source { return counting{src, &bodies} })
	r.want(r.run(), Counters{Registered: 3, Retry: 1, Skipped: 1, SkippedNoMatch: 1})
	r.clock.advance(time.Hour)
	r.Config.Notices = false // what was registered for a notice stays one: nothing large is fetched
	r.want(r.run(), Counters{Forwarded: 1})
	if got := r.modes(); got != "notice" {
		t.Fatalf("what arrived is %q, want a notice", got)
	}
	if n := bodies.Load(); n > 0 {
		t.Errorf("%d bodies were fetched, want the headers alone", n)
	}
	m := r.sink.Messages()[0]
	for _, want := range []string{"message 0", "alice@client.example", "1.1 MiB", "Folder", "INBOX", "UID: 1\r\n"} {
		if !bytes.Contains(m.Data, []byte(want)) {
			t.Errorf("the notice lacks %q:\n%s", want, m.Data)
		}
	}
	for _, task := range r.tasks() {
		if task.Status == tasks.Forwarded && (task.Form.Mode != "notice" || task.Identity.Size < 1<<20 ||
			!strings.Contains(task.Identity.Subject, "message 0")) {
			t.Errorf("the task is %+v, want mode notice, the size at the server and the subject", task)
		}
	}
}

// TestNoticesOfEqualOutlines: two large messages that came at once and have one size are two.
func TestNoticesOfEqualOutlines(t *testing.T) {
	r := newRig(t, nil)
	r.Config.Notices = true
	r.add(inbox.StartAll)
	r.put("INBOX", large(0), large(1))
	r.want(r.run(), Counters{Registered: 2, Forwarded: 2})
	msgs := r.sink.Messages()
	if r.modes() != "notice notice" || messageID(t, msgs[0].Header) == messageID(t, msgs[1].Header) {
		t.Errorf("arrived: %s with the Message-IDs %s and %s, want two notices",
			r.modes(), messageID(t, msgs[0].Header), messageID(t, msgs[1].Header))
	}
}
