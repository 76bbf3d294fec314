package e2e

import (
	"regexp"
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// letter is a message from a client, with more fields at the top.
func letter(subject string, fields ...string) []byte {
	return testserver.Mail("Alice Example <alice@client.example>", desk, subject, "The body of "+subject+".", fields...)
}

// hops are the trace fields of a message that was on so many hosts.
func hops(n int) string {
	return strings.Repeat("Received: from a by b\r\n", n-1) + "Received: from a by b"
}

// senders are the reverse-paths at the relay, by subject.
func (w *world) senders() map[string]string {
	out := map[string]string{}
	for _, m := range w.sink.Messages() {
		_, rest, _ := strings.Cut(string(m.Header), "\nSubject: ")
		subject, _, _ := strings.Cut(rest, "\r")
		out[strings.TrimPrefix(subject, "Fwd: ")] = m.From
	}
	return out
}

// TestReversePath: the reverse-path is an address, SRS, or the sender's own. A null one stays null,
// in every mode.
func TestReversePath(t *testing.T) {
	const foreign = "SRS0=AbCd=2W=author.example=bob@list.example"
	letters := [][]byte{
		letter("person", "Return-Path: <alice@client.example>"),
		letter("forwarded before", "Return-Path: <"+foreign+">"),
		letter("bounce", "Return-Path: <>"), letter("no path"),
		letter("absence", "Return-Path: <alice@client.example>", "Auto-Submitted: auto-replied"),
	}
	const own = "forwarder@firm.example"
	ours := map[string]string{"person": own, "forwarded before": own, "bounce": "", "no path": own, "absence": ""}
	decodable := map[string]string{
		"person": "decodes to alice@client.example", "forwarded before": "decodes to " + foreign,
		"bounce": "", "no path": own, "absence": "",
	}
	kept := map[string]string{
		"person": "alice@client.example", "forwarded before": foreign, "bounce": "", "no path": own, "absence": "",
	}
	tests := []struct {
		name, from, mode string
		want             map[string]string // "decodes to ..." by srs decode
	}{
		{"address", own, "redirect", ours},
		{"srs", "srs", "redirect", decodable},
		{"keep", "keep", "redirect", kept},
		{"srs, attached", "srs", "attach", decodable},
		{"keep, rewritten", "keep", "rewrite", ours},
	}
	decoded := regexp.MustCompile(`^bounces to +(\S+)\n`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.extra = "srs: {domain: srs.firm.example, secret: 'tops3cr3t tops3cr3t'}"
			w.configure()
			t.Setenv("POSTRIDER_FORWARD_ENVELOPE_FROM", tt.from)
			t.Setenv("POSTRIDER_FORWARD_MODE", tt.mode)
			w.addInbox(desk, "--start", "all")
			w.imap.Append(t, desk, "INBOX", letters...)
			w.pass(0)
			got := w.senders()
			for subject, want := range tt.want {
				from, ok := got[subject]
				if strings.HasPrefix(want, "decodes to ") && ok {
					if m := decoded.FindStringSubmatch(w.must(0, "srs", "decode", from).stdout); m != nil {
						from = "decodes to " + m[1]
					}
				}
				if from != want || !ok {
					t.Errorf("%s: the relay got the sender %q (arrived: %v), want %q", subject, from, ok, want)
				}
			}
		})
	}
}

const bounceReport = "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n" +
	"From: postmaster@client.example\r\nSubject: report\r\nMessage-ID: <report@client.example>\r\n\r\n" +
	"--b\r\n\r\nIt failed.\r\n--b--\r\n"

// TestAutomatedMailAndLoops: automatic messages go out or not, as the route says. A message that
// comes back is a loop.
func TestAutomatedMailAndLoops(t *testing.T) {
	robots := [][]byte{
		letter("bounce", "Return-Path: <>"), []byte(bounceReport), letter("notice", "Auto-Submitted: auto-generated"),
		letter("absence", "Auto-Submitted: auto-replied"),
	}
	people := [][]byte{
		letter("person", "Auto-Submitted: no", "Precedence: bulk"), letter("100 hops", hops(100)),
	}
	w := newWorld(t, "sqlite")
	w.addInbox(desk, "--start", "all")
	w.imap.Append(t, desk, "INBOX", append(robots, people...)...)
	w.routes = "  - {name: quiet, match: {}, to: [intake@firm.example], automated: skip}\n"
	w.configure()
	w.pass(0)
	w.wantOnce(people)
	for _, one := range w.tasks("--status", "skipped") {
		if !strings.HasPrefix(one.Reason, "automated: ") ||
			!strings.Contains(one.Reason, `automated: skip applies to route "quiet"`) {
			t.Errorf("%s is skipped with the reason %q, want that the route skips automated mail",
				one.Subject, one.Reason)
		}
	}
	w.routes = "  - {name: all, match: {}, to: [intake@firm.example]}\n"
	w.configure()
	w.must(0, "task", "retry", "--status", "skipped", "--yes")
	w.pass(0)
	w.wantOnce(people, robots)
	for _, m := range w.sink.Messages() { // each of them comes back
		w.imap.Append(t, desk, "INBOX", m.Data)
	}
	w.imap.Append(t, desk, "INBOX", letter("101 hops", hops(101)))
	w.pass(0)
	w.wantOnce(people, robots)
	loops := 0
	for _, one := range w.tasks("--status", "skipped") {
		if !strings.HasPrefix(one.Reason, "loop: ") {
			t.Errorf("%s is skipped with the reason %q, want a loop", one.Subject, one.Reason)
		}
		loops++
	}
	if want := len(people) + len(robots) + 1; loops != want {
		t.Errorf("%d messages are skipped as loops, want %d", loops, want)
	}
}
