package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"golang.org/x/net/dns/dnsmessage"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// authors are the domains of authors with their DNS records. All have the same key.
type authors struct {
	key     *rsa.PrivateKey
	records map[string]string
	dns     *testserver.DNS
}

// newAuthors makes none.example, quarantine.example and reject.example, which have that policy,
// silent.example, which has none, and failing.example, for whose policy the name server fails.
func newAuthors(t *testing.T) authors {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	a := authors{key: key, records: map[string]string{}}
	for _, policy := range []string{"none", "quarantine", "reject", "silent", "failing"} {
		a.records["s._domainkey."+policy+".example"] = "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public)
		if policy != "silent" {
			a.records["_dmarc."+policy+".example"] = "v=DMARC1; p=" + policy
		}
	}
	a.dns = testserver.NameServer(t, a.records)
	a.dns.Fail("_dmarc.failing.example")
	return a
}

// mail is a message of an author at the domain. Its signature is good, broken or none.
func (a authors) mail(t *testing.T, domain, signature string) []byte {
	t.Helper()
	raw := testserver.Mail("Alice <alice@"+domain+">", "desk@firm.example", domain+" "+signature, "The body.")
	if signature == "none" {
		return raw
	}
	signed := a.sign(t, raw, domain)
	if signature == "broken" {
		return bytes.Replace(signed, []byte("The body."), []byte("Another body."), 1)
	}
	return signed
}

func (a authors) sign(t *testing.T, raw []byte, domain string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := dkim.Sign(&b, bytes.NewReader(raw), &dkim.SignOptions{
		Domain: domain, Selector: "s", Signer: a.key,
		HeaderKeys: []string{"From", "From", "Subject", "Subject", "Date", "Message-ID"},
	}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shown is what `task show --json` and `route test --json` print about the mode.
type shown struct {
	Mode   string `json:"mode"`
	Reason string `json:"mode_reason"`
}

func (w *world) shown(args ...string) shown {
	w.t.Helper()
	var s shown
	if err := json.Unmarshal([]byte(w.must(0, args...).stdout), &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// TestAuto: each kind of author with each kind of signature goes out in the mode that arrives.
// `task show` and `route test` give the reason. The signature of a redirect verifies at the
// receiver.
func TestAuto(t *testing.T) {
	a := newAuthors(t)
	onEach(t, all, func(t *testing.T, w *world) {
		w.extra = "dns: {server: " + a.dns.Address + "}"
		w.routes = "  - {name: all, match: {}, to: [intake@firm.example], mode: auto}\n"
		w.configure()
		w.addInbox("desk@firm.example", "--start", "all")
		const (
			unsigned   = "nothing lets a redirect pass: it has no DKIM signature of its domain"
			passesBy   = "a redirect passes by the DKIM signature of "
			unverified = "does not verify (body hash did not verify)"
		)
		tests := []struct{ domain, signature, mode, reason string }{
			{"none.example", "none", "redirect", "auto: the DMARC policy of none.example is none"},
			{"none.example", "good", "redirect", "is none"},
			{"none.example", "broken", "redirect", "is none"},
			{"silent.example", "none", "redirect", "auto: silent.example has no DMARC policy"},
			{"silent.example", "good", "redirect", "has no DMARC policy"},
			{"silent.example", "broken", "redirect", "has no DMARC policy"},
			{"quarantine.example", "none", "rewrite", "is quarantine, and " + unsigned},
			{"quarantine.example", "good", "redirect", "is quarantine, and " + passesBy + "quarantine.example"},
			{"quarantine.example", "broken", "rewrite", "the DKIM signature of quarantine.example " + unverified},
			{"reject.example", "none", "rewrite", "is reject, and " + unsigned},
			{"reject.example", "good", "redirect", "is reject, and " + passesBy + "reject.example"},
			{"reject.example", "broken", "rewrite", unverified + "; without its signature fields (1)"},
			{"failing.example", "none", "rewrite", "the DMARC policy of failing.example is not known"},
			{"failing.example", "good", "redirect", "is not known"},
			{"failing.example", "broken", "rewrite", "is not known"},
		}
		for _, tt := range tests {
			w.imap.Append(t, "desk@firm.example", "INBOX", a.mail(t, tt.domain, tt.signature))
		}
		if r, _ := w.pass(0); r.Totals.Forwarded != len(tests) {
			t.Fatalf("the pass reports %+v, want all forwarded", r.Totals)
		}
		var redirected []string
		for i, tt := range tests {
			id := fmt.Sprint(i + 1)
			what := tt.domain + " " + tt.signature
			shown := w.shown("task", "show", "--json", id)
			if shown.Mode != tt.mode || !strings.Contains(shown.Reason, tt.reason) {
				t.Errorf("%s: task show says %+v, want %s, because %q", what, shown, tt.mode, tt.reason)
			}
			tested := w.shown("route", "test", "--task", id, "--json")
			if tested.Mode != tt.mode || !strings.Contains(tested.Reason, tt.reason) {
				t.Errorf("%s: route test says %+v, want %s, because %q", what, tested, tt.mode, tt.reason)
			}
			copies := w.copies(what)
			if len(copies) != 1 {
				t.Fatalf("%s: %d copies arrived, want one", what, len(copies))
			}
			if got := w.must(0, "route", "test", "--task", id, "--show-message").stdout; got != string(copies[0].Data) {
				t.Errorf("%s: route test shows\n%s\nand what arrived is\n%s\nwant no difference",
					what, got, copies[0].Data)
			}
			if tt.mode == "redirect" && tt.signature == "good" {
				redirected = append(redirected, string(copies[0].Data))
			}
		}
		why := regexp.MustCompile(`(?m)^mode +rewrite\nbecause +auto: the DMARC policy of reject.example is reject`)
		if got := w.must(0, "task", "show", "10").stdout; !why.MatchString(got) {
			t.Errorf("task show prints\n%s\nwant the mode, and why", got)
		}
		for i, got := range testserver.VerifyDKIM(t, a.records, redirected...) {
			if len(got) != 1 || got[0] != "" {
				t.Errorf("the signatures of a redirect are %q, want one that verifies\n%s", got, redirected[i])
			}
		}
	})
}

// TestAutoWithoutDNS: without an answer from the DNS nothing waits or fails, and all messages are
// rewritten.
func TestAutoWithoutDNS(t *testing.T) {
	a := newAuthors(t)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // it never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	gone, err := net.Dial("udp", "127.0.0.1:1") // who is not at port 1 is refused, and nobody gets the port
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gone.Close() }()
	servers := map[string]net.Addr{"nothing listens": gone.LocalAddr(), "no answer": silent.LocalAddr()}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.extra = "dns: {server: " + server.String() + "}"
			w.routes = "  - {name: all, match: {}, to: [intake@firm.example], mode: auto}\n"
			w.configure()
			w.addInbox("desk@firm.example", "--start", "all")
			const n = 40
			for i := range n {
				w.imap.Append(t, "desk@firm.example", "INBOX", a.mail(t, fmt.Sprintf("d%d.example", i), "good"))
			}
			if r, _ := w.pass(0); r.Totals.Forwarded != n {
				t.Fatalf("the pass reports %+v, want all forwarded", r.Totals)
			}
			if server == silent.LocalAddr() {
				if asked := domainsAsked(t, silent); asked == 0 || asked > n/2 {
					t.Errorf("it asked for %d of %d domains, want no more after the first few without an answer",
						asked, n)
				}
			}
			got := w.shown("task", "show", "--json", "1")
			if got.Mode != "rewrite" || !strings.Contains(got.Reason, "is not known") {
				t.Errorf("task show says %+v, want rewrite, because there is no answer", got)
			}
		})
	}
}

// domainsAsked counts the domains in the questions that have come.
func domainsAsked(t *testing.T, conn net.PacketConn) int {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil { // all have come
		t.Fatal(err)
	}
	domains := map[string]bool{}
	for buf := make([]byte, 512); ; {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return len(domains)
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
			t.Fatalf("the question %q: %v", buf[:n], err)
		}
		name := strings.TrimSuffix(m.Questions[0].Name.String(), ".example.")
		domains[name[strings.LastIndexByte(name, '.')+1:]] = true // d7 of _dmarc.d7.example.
	}
}

// TestAutoKilled kills a pass while the relay has the message. The next one sends the same octets
// again, although the policy in the DNS is another one by then.
func TestAutoKilled(t *testing.T) {
	for policy, mode := range map[string]string{"none": "redirect", "reject": "rewrite"} {
		t.Run(mode, func(t *testing.T) {
			a := newAuthors(t)
			w := newWorld(t, "sqlite")
			at, answer := make(chan struct{}, 1), make(chan struct{})
			w.startSink(func(e smtpsink.Event) smtpsink.Action {
				if e.Stage != "dot" || e.N > 1 {
					return smtpsink.Action{}
				}
				at <- struct{}{}
				return smtpsink.Action{Block: answer, AcceptAndDrop: true}
			})
			w.extra = "dns: {server: " + a.dns.Address + "}"
			w.routes = "  - {name: all, match: {}, to: [intake@firm.example], mode: auto}\n"
			w.configure()
			w.addInbox("desk@firm.example", "--start", "all")
			w.imap.Append(t, "desk@firm.example", "INBOX", a.mail(t, policy+".example", "none"))
			p := w.start(nil, "run")
			select {
			case <-at:
			case <-time.After(time.Minute):
				t.Fatal("the relay did not get the message")
			}
			_ = p.cmd.Process.Kill()
			<-p.ended()
			close(answer)
			w.endLeases()
			began := w.shown("task", "show", "--json", "1")
			if began.Mode != mode || !strings.Contains(began.Reason, "is "+policy) {
				t.Errorf("killed, the task says %+v, want %s, because the policy is %s", began, mode, policy)
			}
			other := map[string]string{"none": "reject", "reject": "none"}[policy]
			a.dns.Set("_dmarc."+policy+".example", "v=DMARC1; p="+other)
			w.pass(0)
			wantSame(t, w.copies(policy+".example none"))
			if got := w.shown("task", "show", "--json", "1"); got != began {
				t.Errorf("the task says %+v, want %+v, as at the first attempt", got, began)
			}
		})
	}
}

// TestMemoryOfAuto: a message of 25 MiB is verified and sent without being held in memory.
func TestMemoryOfAuto(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak is read from /proc")
	}
	a := newAuthors(t)
	w := newWorld(t, "sqlite")
	w.extra = "dns: {server: " + a.dns.Address + "}"
	w.routes = "  - {name: all, match: {}, to: [intake@firm.example], mode: auto}\n"
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	body := strings.Repeat(strings.Repeat("x", 76)+"\r\n", 25<<20/78)
	for i := range 3 {
		letter := testserver.Mail("alice@reject.example", "desk@firm.example", fmt.Sprint(i), body)
		w.imap.Append(t, "desk@firm.example", "INBOX", a.sign(t, letter, "reject.example"))
	}
	f := (&bench{T: t}).pass(w)
	if n := len(w.sink.Messages()); n != 3 {
		t.Fatalf("%d messages arrived, want 3\n%s", n, f.out)
	}
	if f.peak == 0 || f.peak > 64<<20 {
		t.Errorf("the pass took %d octets at its peak, want at most 64 MiB", f.peak)
	}
	if got := w.shown("task", "show", "--json", "1"); got.Mode != "redirect" {
		t.Errorf("task show says %+v, want redirect: its signature verifies", got)
	}
}

// TestAutoFile: `route test` with a file works without an IMAP server and without a database.
func TestAutoFile(t *testing.T) {
	a := newAuthors(t)
	w := newWorld(t, "sqlite")
	w.extra = "dns: {server: " + a.dns.Address + "}"
	w.routes = "  - {name: all, match: {}, to: [intake@firm.example], mode: auto}\n"
	w.configure()
	w.must(0, "check").has(t, "ok      dns: answers: firm.example has no DMARC policy\n")
	if err := os.WriteFile(w.path("good.eml"), a.mail(t, "reject.example", "good"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.shown("route", "test", w.path("good.eml"), "--json"); got.Mode != "redirect" {
		t.Errorf("route test says %+v, want redirect", got)
	}
	got := w.shown("route", "test", w.path("good.eml"), "--json", "--no-dns")
	if got.Mode != "rewrite" || !strings.Contains(got.Reason, "--no-dns") {
		t.Errorf("route test --no-dns says %+v, want rewrite, because there was no query", got)
	}
}
