package e2e

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
)

var arcRecord = regexp.MustCompile(`arc\._domainkey\.firm\.example .* it has to be: (v=DKIM1; .*)`)

// TestARC: redirected messages arrive with a set that dkimpy finds valid, which says what the
// inbox's server and our own verification found. `check` says which record is missing, `task show`
// what was sealed, and `route test` shows the same octets.
func TestARC(t *testing.T) {
	a := newAuthors(t)
	onEach(t, all, func(t *testing.T, w *world) {
		dns := testserver.NameServer(t, a.records)
		key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(a.key)})
		if err := os.WriteFile(w.path("arc.pem"), key, 0o600); err != nil {
			t.Fatal(err)
		}
		w.extra = "arc: {domain: firm.example, selector: arc, key_file: arc.pem, trust: [mx.firm.example]}\n" +
			"dns: {server: " + dns.Address + "}"
		w.routes = "  - {name: rewrite, match: {from: '*@none.example'}, to: [intake@firm.example], mode: rewrite}\n" +
			"  - {name: all, match: {}, to: [intake@firm.example]}\n"
		w.configure()
		w.addInbox("desk@firm.example", "--start", "all")
		record := arcRecord.FindStringSubmatch(w.must(75, "check").stdout)
		if record == nil {
			t.Fatal("check does not say which record has to be published")
		}
		dns.Set("arc._domainkey.firm.example", record[1])
		w.must(0, "check").
			has(t, "arc: seals by the TXT record arc._domainkey.firm.example, which is in the DNS: v=DKIM1")

		records := map[string]string{
			"arc._domainkey.firm.example": record[1], "s1._domainkey.sealer.example": record[1],
		}
		dns.Set("s1._domainkey.sealer.example", record[1])
		results := []byte("Authentication-Results: mx.firm.example; spf=pass smtp.mailfrom=silent.example\r\n")
		silent := func(signature string) []byte { return a.mail(t, "silent.example", signature) }
		chained := testserver.SealARC(t, records, string(key), time.Now(), string(silent("good")))[0]
		const (
			passes = "dkim=pass header.d=silent.example header.s=s"
			fails  = "dkim=fail header.d=silent.example header.s=s"
		)
		tests := []struct {
			name, says string
			mail       []byte
			found      []string
		}{
			{
				"signed", "ARC-sealed, i=1, cv=none", append(bytes.Clone(results), silent("good")...),
				[]string{"arc=none", "spf=pass smtp.mailfrom=silent.example", passes},
			},
			{"changed on the way", "ARC-sealed, i=1, cv=none", silent("broken"), []string{"arc=none", fails}},
			{
				"sealed", `ARC-sealed, i=2, cv=pass; the results of "mx.sealer.example" are not used, ` +
					`because arc.trust does not name it`,
				[]byte(chained),
				[]string{"arc=pass", passes},
			},
			{
				"broken", "ARC-sealed, i=2, cv=fail: the newest message signature is not valid: the body was changed",
				[]byte(chained + "A footer.\r\n"),
				[]string{"arc=fail", fails},
			},
		}
		for _, tt := range tests {
			w.imap.Append(t, "desk@firm.example", "INBOX", tt.mail)
		}
		w.imap.Append(t, "desk@firm.example", "INBOX", a.mail(t, "none.example", "good"))
		if r, _ := w.pass(0); r.Totals.Forwarded != len(tests)+1 {
			t.Fatalf("the pass reports %+v, want all forwarded", r.Totals)
		}
		var arrived []string
		for i, tt := range tests {
			id := fmt.Sprint(i + 1)
			sent := w.must(0, "route", "test", "--task", id, "--show-message").stdout
			found := "firm.example;\r\n " + strings.Join(tt.found, ";\r\n ") + "\r\n"
			got := w.shown("task", "show", "--json", id)
			if got.Mode != "redirect" || !strings.HasPrefix(got.Reason, tt.says) ||
				!strings.Contains(sent, found) || !strings.HasSuffix(sent, string(tt.mail)) {
				t.Errorf("%s: task show says %+v, want %q and the results\n%s\nin\n%s",
					tt.name, got, tt.says, found, sent)
			}
			same := false
			for _, m := range w.sink.Messages() {
				same = same || string(m.Data) == sent
			}
			if !same {
				t.Errorf("%s: no message arrived that has the octets which route test shows", tt.name)
			}
			arrived = append(arrived, sent)
		}
		for i, verdict := range testserver.VerifyARC(t, records, arrived...) {
			want := map[bool]string{true: "pass", false: "ended"}[tests[i].name != "broken"]
			if verdict.CV != want && (want == "pass" || verdict.CV == "pass" || !verdict.Seal) {
				t.Errorf("%s: dkimpy says %+v, want %s\n%s", tests[i].name, verdict, want, arrived[i])
			}
		}
		if got := w.shown("task", "show", "--json", "5"); got.Mode != "rewrite" || strings.Contains(got.Reason, "ARC") {
			t.Errorf("task show of a rewritten message says %+v, want it not sealed", got)
		}
	})
}
