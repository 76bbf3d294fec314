package pass

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/srs"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// robotMail is a message with fields on top.
func robotMail(fields, subject string) []byte {
	return append([]byte(fields), testserver.Mail("alice@client.example", address, subject, "hello "+subject)...)
}

// reasons are why messages are not forwarded, by subject.
func (r *rig) reasons() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	skipped := tasks.Filter{Statuses: []tasks.Status{tasks.Skipped}}
	check(r.t, r.queue.List(r.t.Context(), skipped, func(task tasks.Task) error {
		out[task.Identity.Subject] = task.Reason
		return nil
	}))
	return out
}

// TestRobotsAndLoops: a message that is not forwarded has its reason, in a dry run and in the
// registry. The rest arrives.
func TestRobotsAndLoops(t *testing.T) {
	r := newRig(t, nil,
		route.Rule{Name: "quiet", To: []string{"team@firm.example"}, Automated: route.SkipAutomated})
	r.add(inbox.StartAll, "INBOX")
	hops := func(n int) string { return strings.Repeat("Received: from a by b\r\n", n) }
	person := [][]byte{robotMail("Return-Path: <alice@client.example>\r\n"+hops(50), "person")}
	r.put("INBOX", person...)
	r.put("INBOX",
		robotMail("Return-Path: <>\r\n", "bounce"),
		robotMail("Auto-Submitted: auto-generated\r\n", "notice"),
		robotMail(hops(51), "hops"))
	want := map[string]string{
		"bounce": "automated: its reverse-path is null, as that of a bounce, " +
			`and automated: skip applies to route "quiet"`,
		"notice": `automated: it says Auto-Submitted: auto-generated, and automated: skip applies to route "quiet"`,
		"hops":   "loop: it has 51 Received fields, more than 50",
	}
	previewed := previews{why: map[string]string{}}
	r.Config.DryRun, r.Observer = true, &previewed
	r.run()
	if !reflect.DeepEqual(previewed.why, want) {
		t.Errorf("a dry run previews %q, want %q", previewed.why, want)
	}
	r.Config.DryRun, r.Observer = false, nobody{}
	r.want(r.run(), Counters{Registered: 4, Forwarded: 1, Skipped: 3})
	r.wantArrived(person)
	if got := r.reasons(); !reflect.DeepEqual(got, want) {
		t.Errorf("the reasons are %q, want %q", got, want)
	}
}

// previews are why a dry run would not forward messages, by subject.
type previews struct {
	nobody
	mu  sync.Mutex
	why map[string]string
}

func (p *previews) Would(_ *Would, t tasks.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.Status != tasks.Received {
		p.why[t.Identity.Subject] = t.Reason
	}
}

// TestRewrittenReversePath: what the relay is given as the sender.
func TestRewrittenReversePath(t *testing.T) {
	r := newRig(t, nil)
	rewriter, err := srs.New(srs.Config{
		Domain: "srs.firm.example", Secrets: []string{"tops3cr3t"}, MaxAge: 21 * 24 * time.Hour, Now: r.clock.Now,
	})
	check(t, err)
	relay, err := forward.NewRelay(forward.Config{
		Host: "127.0.0.1", Port: r.sink.Port(), Security: "none",
		From: "forwarder@firm.example", EnvelopeFrom: forward.SRS, SRS: rewriter,
	})
	check(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	r.Relay = SMTP{relay}
	r.add(inbox.StartAll, "INBOX")
	r.put("INBOX",
		robotMail("Return-Path: <alice@client.example>\r\n", "person"),
		robotMail("Return-Path: <>\r\n", "bounce"),
		robotMail("", "unknown"))
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	want := map[string]string{"person": "alice@client.example", "bounce": "", "unknown": "forwarder@firm.example"}
	for _, m := range r.sink.Messages() {
		from := m.From
		if d, err := rewriter.Decode(from); err == nil && d.Secret == 1 {
			from = d.Address
		} else if strings.HasPrefix(from, "alice") {
			t.Errorf("the relay got %s as it is, want it rewritten", from)
		}
		for subject, sender := range want {
			if strings.Contains(string(m.Header), "Subject: "+subject) && from != sender {
				t.Errorf("%s: the reverse-path leads to %q, want %q", subject, from, sender)
			}
		}
	}
}
