package pass

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/dmarc"
	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/testserver/smtpsink"
)

// dmarcPolicy is a DNS that has one answer to everything; empty for a server that fails.
type dmarcPolicy struct{ atomic.Value }

func (p *dmarcPolicy) LookupTXT(_ context.Context, name string) ([]string, error) {
	if text := p.Load().(string); text != "" {
		return []string{text}, nil
	}
	return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
}

// auto makes auto the general mode, with that answer of the DNS. A function sets another one, for
// the next pass.
func (r *rig) auto(policy string) (says func(policy string)) {
	r.t.Helper()
	r.Config.Style.Mode = route.Auto
	var dns dmarcPolicy
	says = func(policy string) {
		r.t.Helper()
		dns.Store(policy)
		c, err := forward.NewComposer(forward.ComposeConfig{
			From: "Intake <forwarder@firm.example>", Judge: dmarc.NewJudge(&dns),
		})
		check(r.t, err)
		r.Composer = c
	}
	says(policy)
	return says
}

// wantForm checks how the only task is registered.
func (r *rig) wantForm(mode, reason string) {
	r.t.Helper()
	for _, task := range r.tasks() {
		if task.Form.Mode != mode || !strings.Contains(task.Form.ModeReason, reason) {
			r.t.Errorf("the task is registered as %+v, want mode %s, since %q", task.Form, mode, reason)
		}
	}
}

func TestAuto(t *testing.T) {
	for policy, want := range map[string]struct{ mode, reason string }{
		"v=DMARC1; p=none":   {"redirect", "auto: the DMARC policy of client.example is none"},
		"v=DMARC1; p=reject": {"rewrite", "auto: the DMARC policy of client.example is reject"},
		"":                   {"rewrite", "auto: the DMARC policy of client.example is not known"},
	} {
		r := newRig(t, nil)
		r.auto(policy)
		r.add(inbox.StartAll)
		r.put("INBOX", mails(1)...)
		r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
		if got := r.modes(); got != want.mode {
			t.Errorf("with the policy %q it arrived as %s, want %s", policy, got, want.mode)
		}
		r.wantForm(want.mode, want.reason)
		if !strings.Contains(r.log.String(), want.reason) {
			t.Errorf("the log does not say %q:\n%s", want.reason, r.log.String())
		}
	}
}

// TestAutoKeepsItsMode: once someone may have the message, it goes out again octet for octet, with
// the same reason, whatever the DNS says by then. While no one has it, the DNS decides again.
func TestAutoKeepsItsMode(t *testing.T) {
	const none, reject = "v=DMARC1; p=none", "v=DMARC1; p=reject"
	drop := smtpsink.Action{AcceptAndDrop: true}
	tests := []struct {
		name        string
		first       smtpsink.Action
		begin, then string
		want        string
		reason      string
	}{
		{"the outcome is unknown", drop, none, reject, "redirect redirect", "is none"},
		{"the outcome is unknown, the other way", drop, reject, none, "rewrite rewrite", "is reject"},
		{"the outcome is unknown, and the DNS is down", drop, none, "", "redirect redirect", "is none"},
		{"refused for now: nobody has it", smtpsink.Action{Code: 451}, none, reject, "rewrite", "is reject"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, on("dot", 1, tt.first))
			says := r.auto(tt.begin)
			r.add(inbox.StartAll)
			r.put("INBOX", mails(1)...)
			r.run()
			says(tt.then)
			r.clock.advance(time.Hour)
			r.want(r.run(), Counters{Forwarded: 1})
			if got := r.modes(); got != tt.want {
				t.Fatalf("what arrived is %q, want %q", got, tt.want)
			}
			r.wantForm(strings.Fields(tt.want)[0], tt.reason)
			all := r.sink.Messages()
			if first, last := string(all[0].Data), string(all[len(all)-1].Data); first != last {
				t.Errorf("first it was\n%s\nthen it was\n%s\nwant the same octets", first, last)
			}
		})
	}
}

// TestAutoKilledWhileSending: a worker died before the reply. The mode is recorded, and the next
// worker uses it.
func TestAutoKilledWhileSending(t *testing.T) {
	r := newRig(t, nil)
	r.auto("v=DMARC1; p=reject")
	r.add(inbox.StartAll)
	r.put("INBOX", mails(1)...)
	r.Queue = &dying{Queue: r.queue}
	r.run()
	r.wantForm("rewrite", "is reject")
	r.auto("v=DMARC1; p=none")
	r.Config.Worker += ":the next"
	r.clock.advance(2 * time.Minute)
	r.want(r.run(), Counters{Forwarded: 1})
	if got := r.modes(); got != "rewrite rewrite" {
		t.Errorf("what arrived is %q, want it twice in the mode it began in", got)
	}
	r.wantForm("rewrite", "is reject")
}
