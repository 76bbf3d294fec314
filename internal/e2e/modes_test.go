package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-msgauth/dkim"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// makeKey writes a DKIM key for the configuration.
func (w *world) makeKey() {
	w.t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	block := &pem.Block{Type: "PRIVATE KEY", Bytes: der}
	if err := os.WriteFile(w.path("dkim.pem"), pem.EncodeToMemory(block), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.extra = "dkim: {domain: firm.example, selector: s1, key_file: dkim.pem}"
	w.configure()
}

var txtRecord = regexp.MustCompile(`s1\._domainkey\.firm\.example \(not looked up\), which has to be: (v=DKIM1; .*)`)

// TestModes: each route sends in its mode. What postrider composes or rewrites verifies with the
// record that check prints, also with a verifier that shares no code with postrider.
func TestModes(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.routes = `  - {name: attach, match: {subject: attach}, to: [intake@firm.example], mode: attach}
  - {name: rewrite, match: {subject: rewrite}, to: [intake@firm.example], mode: rewrite}
  - {name: redirect, match: {}, to: [intake@firm.example], resent: true}
`
		w.makeKey()
		record := txtRecord.FindStringSubmatch(w.must(0, "check").stdout)
		if record == nil {
			t.Fatal("check does not say which record has to be published")
		}
		w.addInbox("desk@firm.example", "--start", "all")
		for _, subject := range []string{"attach", "rewrite", "redirect"} {
			w.imap.Append(t, "desk@firm.example", "INBOX", mails(1, subject)...)
		}
		if r, _ := w.pass(0); r.Totals.Forwarded != 3 {
			t.Fatalf("the pass reports %+v, want three forwarded", r.Totals)
		}
		signed := 0
		records := map[string]string{"s1._domainkey.firm.example": record[1]}
		for _, m := range w.sink.Messages() {
			for _, elsewhere := range testserver.VerifyDKIM(t, records, string(m.Data))[0] {
				if elsewhere != "" {
					t.Errorf("dkimpy says of the signature: %s\n%s", elsewhere, m.Header)
				}
			}
			found, err := dkim.VerifyWithOptions(strings.NewReader(string(m.Data)), &dkim.VerifyOptions{
				LookupTXT: func(string) ([]string, error) { return record[1:], nil },
			})
			for _, v := range found {
				signed++
				if err != nil || v.Err != nil {
					t.Errorf("the signature does not verify: %v, %v\n%s", err, v.Err, m.Header)
				}
			}
		}
		if signed != 2 {
			t.Errorf("%d signatures, "+
				"want one on what is attached, one on what is rewritten, and none on the redirect", signed)
		}
		for _, one := range w.tasks() {
			shown := w.must(0, "task", "show", "--json", fmt.Sprint(one.ID)).stdout
			if mode := one.Route; !strings.Contains(shown, `"mode":"`+mode+`"`) {
				t.Errorf("task show %d does not say that it went out in mode %s", one.ID, mode)
			}
		}
	})
}

// TestMemoryOfModes: a message of 25 MiB that is encoded and signed goes out without being held in
// memory.
func TestMemoryOfModes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak is read from /proc")
	}
	for _, mode := range []string{"rewrite", "attach"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.routes = "  - {name: all, match: {}, to: [intake@firm.example], mode: " + mode + "}\n"
			w.makeKey()
			w.addInbox("desk@firm.example", "--start", "all")
			lines := strings.Repeat(strings.Repeat("x", 76)+"\r\n", 25<<20/78) + strings.Repeat("y", 2000)
			large := testserver.Mail("alice@client.example", "desk@firm.example", "large", lines)
			again := func(n string) []byte { return append([]byte("X-Copy: "+n+"\r\n"), large...) }
			w.imap.Append(t, "desk@firm.example", "INBOX", large, again("2"), again("3"))
			f := (&bench{T: t}).pass(w)
			if n := len(w.sink.Messages()); n != 3 {
				t.Fatalf("%d messages arrived, want 3\n%s", n, f.out)
			}
			if f.peak == 0 || f.peak > 64<<20 {
				t.Errorf("the pass took %d octets at its peak, want at most 64 MiB", f.peak)
			}
		})
	}
}

// TestOneForm: what was attached for the first recipients is attached for the rest, also when a
// later connection would take the message as it is.
func TestOneForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	var sent atomic.Bool
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		first := !sent.Load()
		switch {
		case e.Stage == "dot":
			sent.Store(true)
		case e.Stage == "ehlo" && first:
			return smtpsink.Action{Code: 250, Text: "relay.example\nSIZE 104857600"} // no 8BITMIME
		case e.Stage == "rcpt" && first && len(e.Message.To) == 1:
			return smtpsink.Action{Code: 452, Text: "4.5.3 too many recipients"}
		case e.Stage == "mail" && e.N == 2:
			return smtpsink.Action{Code: 421, Text: "4.4.2 closing"}
		}
		return smtpsink.Action{}
	})
	w.routes = "  - {name: two, match: {}, to: [ann@firm.example, bob@firm.example], fallback: attach}\n"
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	w.imap.Append(t, "desk@firm.example", "INBOX", testserver.Mail("alice@client.example", desk, "umlauts", "Grüße"))
	w.pass(0)
	var got []string
	for _, m := range w.sink.Messages() {
		kind, _, _ := strings.Cut(string(m.Header[bytes.Index(m.Header, []byte("\r\nContent-Type: "))+2:]), ";")
		got = append(got, fmt.Sprint(m.Conn, m.To, kind))
	}
	want := []string{
		"1 [ann@firm.example]Content-Type: multipart/mixed", "2 [bob@firm.example]Content-Type: multipart/mixed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the relay has %q, want %q", got, want)
	}
}
