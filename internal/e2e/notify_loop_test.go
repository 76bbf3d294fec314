package e2e

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// postOffice has a relay that delivers into mailboxes of the same server, which several
// installations watch.
type postOffice struct {
	*world                                  // the first one
	others  []*world                        // they share its servers
	boxes   []string                        // the mailboxes that the relay delivers to
	answers func(smtpsink.Message) [][]byte // of programs elsewhere, to forwarder
	seen    int                             // how many messages of the relay were delivered
}

// newPostOffice has a relay that refuses only nobody@.
func newPostOffice(t *testing.T) *postOffice {
	w := newWorld(t, "sqlite")
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && e.Arg == "nobody@firm.example" {
			return smtpsink.Action{Code: 550, Text: "5.1.1 there is nobody"}
		}
		return smtpsink.Action{}
	})
	w.configure()
	return &postOffice{world: w, answers: func(smtpsink.Message) [][]byte { return nil }}
}

// another adds an installation with its own database and configuration.
func (p *postOffice) another() *world {
	w := newWorld(p.t, "sqlite")
	w.imap, w.imapPort, w.sink, w.smtpPort = p.imap, p.imapPort, p.sink, p.smtpPort
	p.others = append(p.others, w)
	return w
}

// deliver puts what the relay accepted into the mailboxes, and reports whether there was anything.
func (p *postOffice) deliver() bool {
	p.t.Helper()
	fresh := p.sink.Messages()[p.seen:]
	p.seen += len(fresh)
	for _, m := range fresh {
		for _, to := range m.To {
			if slices.Contains(p.boxes, to) {
				fields := "Return-Path: <" + m.From + ">\r\nReceived: from relay by imap\r\n"
				p.imap.Append(p.t, to, "INBOX", slices.Concat([]byte(fields), m.Data))
			}
		}
		for _, raw := range p.answers(m) {
			p.imap.Append(p.t, forwarder, "INBOX", raw)
		}
	}
	return len(fresh) > 0
}

// untilQuiet lets all installations run and delivers the results, until a round has none.
func (p *postOffice) untilQuiet() {
	p.t.Helper()
	for range 8 {
		var runs []*process
		for _, w := range append(p.others, p.world) {
			runs = append(runs, w.start(nil, "run"))
		}
		for _, run := range runs {
			if res := run.wait(); res.code != 0 && res.code != 75 {
				p.t.Fatalf("exit %d\n%s", res.code, res.stderr)
			}
		}
		if !p.deliver() {
			return
		}
	}
	p.t.Fatalf("after 8 rounds there is still mail to deliver; the subjects are %q", p.subjects())
}

func (p *postOffice) subjects() []string {
	var out []string
	for _, m := range p.sink.Messages() {
		h, err := mail.ReadMessage(strings.NewReader(string(m.Header)))
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, strings.ReplaceAll(h.Header.Get("Subject"), "Fwd: ", ""))
	}
	slices.Sort(out)
	return out
}

func (p *postOffice) wantSubjects(want ...string) {
	p.t.Helper()
	slices.Sort(want)
	if got := p.subjects(); !slices.Equal(got, want) {
		p.t.Errorf("the relay got %q, want %q", got, want)
	}
}

const (
	forwarder = "forwarder@firm.example" // forward.from
	dead      = "postrider: 1 message is dead"
)

var allModes = []string{"redirect", "rewrite", "attach", "auto"}

// TestNoticesOfEachOther: two installations forward to each other and send each other notices, and
// every message dies.
func TestNoticesOfEachOther(t *testing.T) {
	for _, mode := range allModes {
		t.Run(mode, func(t *testing.T) {
			t.Setenv("POSTRIDER_FORWARD_MODE", mode)
			t.Setenv("POSTRIDER_DNS_SERVER", "127.0.0.1:1")
			a := newPostOffice(t)
			b := a.another()
			a.boxes = []string{"a@firm.example", "b@firm.example"}
			for w, addresses := range map[*world][2]string{
				a.world: {"a@firm.example", "b@firm.example"},
				b:       {"b@firm.example", "a@firm.example"},
			} {
				own, other := addresses[0], addresses[1]
				w.extra = "notify: {to: " + other + ", at_most: 0s}"
				w.routes = "  - {name: all, match: {}, to: [" + other + ", nobody@firm.example]}\n"
				w.configure()
				w.addInbox(own, "--start", "all")
			}
			a.put("a@firm.example", "hello")
			a.untilQuiet()
			a.wantSubjects("hello", "hello", dead, dead)
			for _, w := range []*world{a.world, b} {
				loops := 0
				for _, task := range w.tasks("--status", "skipped") {
					if strings.HasPrefix(task.Reason, "loop: it is a failure notice of postrider") {
						loops++
					}
				}
				if loops != 1 {
					t.Errorf("%d notices were skipped as a loop, want 1:\n%+v", loops, w.tasks())
				}
			}
		})
	}
}

// TestNoticesAnswered: a program answers the digest. Its From is a watched inbox. The answer is a
// message like any other, with a null reverse-path if it is marked as automatic, so that nothing
// answers it.
func TestNoticesAnswered(t *testing.T) {
	for _, tt := range []struct {
		name, path, field string // of the answer
		automated         string
		forwarded         bool
		sender            string
	}{
		{"as RFC 3834 wants it", "", "Auto-Submitted: auto-replied", "forward", true, ""},
		{"as RFC 3834 wants it, skipped", "", "Auto-Submitted: auto-replied", "skip", false, ""},
		{"with a reverse-path", "ops@firm.example", "Auto-Submitted: auto-replied", "forward", true, ""},
		{"without saying so", "", "Precedence: bulk", "forward", true, ""},
		{"without saying so, skipped", "", "Precedence: bulk", "skip", false, ""},
		{"as a person would", "ops@firm.example", "X-Mailer: rude", "skip", true, forwarder},
	} {
		for _, mode := range allModes {
			t.Run(tt.name+"/"+mode, func(t *testing.T) {
				t.Setenv("POSTRIDER_FORWARD_MODE", mode)
				t.Setenv("POSTRIDER_DNS_SERVER", "127.0.0.1:1")
				t.Setenv("POSTRIDER_FORWARD_AUTOMATED", tt.automated)
				p := newPostOffice(t)
				p.boxes = []string{forwarder}
				p.answers = func(m smtpsink.Message) [][]byte {
					// away@ follows RFC 5321 4.5.5, and ops@ does not.
					if !slices.Contains(m.To, "ops@firm.example") && m.From == "" {
						return nil
					}
					path := "Return-Path: <" + tt.path + ">"
					return [][]byte{testserver.Mail(m.To[0], forwarder, "I am away", "Until Monday.", path, tt.field)}
				}
				p.extra = "notify: {to: ops@firm.example, at_most: 0s}"
				p.routes = "  - {name: own, match: {inbox: " + forwarder + "}, to: [away@firm.example]}\n" +
					"  - {name: all, match: {}, to: [nobody@firm.example]}\n"
				p.configure()
				p.addInbox(desk, "--start", "all")
				p.addInbox(forwarder, "--start", "all")
				p.put(desk, "hello")
				if tt.sender != "" { // away@ gets it from an address, and answers, too
					p.answers = once(p.answers)
				}
				p.untilQuiet()
				want := []string{dead}
				if tt.forwarded {
					want = append(want, "I am away")
				}
				p.wantSubjects(want...)
				for _, m := range p.arrivedFor("away@firm.example") {
					if m.From != tt.sender {
						t.Errorf("the answer went out with the reverse-path %q, want %q", m.From, tt.sender)
					}
				}
			})
		}
	}
}

// once lets a program answer only the first message (RFC 3834 2).
func once(answers func(smtpsink.Message) [][]byte) func(smtpsink.Message) [][]byte {
	done := false
	return func(m smtpsink.Message) [][]byte {
		if done {
			return nil
		}
		done = true
		return answers(m)
	}
}

// TestNoticesAnsweredAndDead: the answer to a digest dies, and so does the next. There are no more
// digests than notify.at_most allows.
func TestNoticesAnsweredAndDead(t *testing.T) {
	p := newPostOffice(t)
	p.answers = func(m smtpsink.Message) [][]byte {
		subject := fmt.Sprint("I am away ", p.seen)
		return [][]byte{testserver.Mail("ops@firm.example", forwarder, subject, "Until Monday.", "Return-Path: <>")}
	}
	p.extra = "notify: {to: ops@firm.example}"
	p.routes = "  - {name: all, match: {}, to: [nobody@firm.example]}\n"
	p.configure()
	p.addInbox(forwarder, "--start", "all")
	p.put(forwarder, "hello")
	p.untilQuiet()
	p.wantSubjects(dead)
	if n := len(p.tasks("--status", "dead")); n != 2 {
		t.Errorf("%d messages are dead, want 2: the message, and the answer to its digest", n)
	}
}
