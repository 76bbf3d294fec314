package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// numbered joins n numbered texts.
func numbered(n int, format, sep string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, sep)
}

// hostile are messages that were written to get lost, to stop others, or to reach wrong recipients.
func hostile() map[string]string {
	const from, body = "From: a@client.example\r\n", "\r\nbody\r\n"
	return map[string]string{
		"a header of 10 MiB": from +
			strings.Repeat("X-Fill: "+strings.Repeat("y", 900)+"\r\n", 11_000) + body,
		"a line of 10 MiB":           from + "X: " + strings.Repeat("y", 10<<20) + "\r\n" + body,
		"a field of a million lines": from + "X: " + strings.Repeat("y\r\n ", 1<<20) + "\r\n" + body,
		"fields without end":         from + strings.Repeat("X: ä\r\n", 100_000) + body,
		"10,000 recipients": from +
			"To: " + numbered(10_000, "p%d@client.example", ",\r\n ") + "\r\n" + body,
		"50 authors": "From: " +
			numbered(50, "Pérson %d <p%[1]d@client.example>", ",\r\n ") + "\r\n" + body,
		"no author": "Subject: x\r\n" + body,
		"a group for an author": "From: All: a@client.example, b@client.example;\r\n" +
			"To: undisclosed-recipients:;\r\n" + body,
		"an author with line ends": "From: =?utf-8?q?a=0D=0ABcc:_b@client.example=0D=0A?= <a@client.example>\r\n" +
			"Subject: =?utf-8?q?x=0D=0A=0D=0A.=0D=0AMAIL?=\r\n" + body,
		"a Reply-To that is none": from + "Reply-To: \x00<<<>>> (((\r\n" + body,
		"100 levels of parts": from +
			numbered(100, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%[1]d", "\r\n") + body,
		"400,000 parts": from + "Content-Type: multipart/mixed; boundary=b\r\n\r\n" +
			strings.Repeat("--b\r\n\r\n", 400_000),
		"a Content-Type of nothing":    from + "Content-Type: text/html; charset=é; x=\"\r\n\r\n<p>é\r\n",
		"the end in the middle":        from + "\r\na\r\n.\r\nMAIL FROM:<b@client.example>\r\nb\n.\nMAIL\r.\rRCPT\r\n",
		"a reverse-path with more":     "Return-Path: <a@client.example> SIZE=1\r\n BODY=8BITMIME>\r\n" + from + body,
		"a trace of somebody else":     "X-Postrider-Trace: 0123456789abcdef0123; task=1\r\n" + from + body,
		"one Message-ID":               from + "Message-ID: <1@client.example>\r\n" + body,
		"the same Message-ID":          from + "Message-ID: <1@client.example>\r\n" + body + body,
		"a reference":                  from + "Subject: our ref M-4711\r\n" + body,
		"a reference to somebody else": from + "Subject: our ref M-1@client.example\r\n" + body,
		"a reference with more":        from + "Subject: our ref M-1,b@client.example\r\n" + body,
		"a name":                       from + "Subject: for Ann Miller\r\n" + body,
		"all of the alphabet": from +
			"Subject: " + strings.Repeat("=?utf-8?b?546L?= ", 60_000) + "\r\n" + body,
	}
}

// TestHostileMail: each arrives once, only at the recipients of its route, and none stops another.
func TestHostileMail(t *testing.T) {
	mails := hostile()
	want := map[string]int{"intake@firm.example": len(mails), "file+M-4711@firm.example": 1, "ann@firm.example": 1}
	for kind, mode := range map[string]string{"sqlite": "redirect", "mariadb": "rewrite", "mysql": "attach"} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv("POSTRIDER_FORWARD_MODE", mode)
			t.Setenv("POSTRIDER_FORWARD_RESENT", "true")
			w := newWorld(t, kind)
			w.extra = "dkim: {domain: firm.example, selector: s1, key_file: dkim.pem}"
			w.routes = `  - {name: reference, match: {subject: '/our ref (?P<ref>\S+)/'}, ` +
				`to: ["file+${ref}@firm.example"], continue: true}
  - {name: people, match: {not: {body: 4711}}, to_contacts: {in: [subject, body, attachment]}, continue: true}
  - {name: all, match: {}, to: [intake@firm.example]}
`
			w.configure()
			if err := os.WriteFile(w.path("dkim.pem"), dkimKey(t), 0o600); err != nil {
				t.Fatal(err)
			}
			w.must(0, "contact", "add", "Ann Miller", "--email", "ann@firm.example")
			w.addInbox(desk, "--start", "all")
			var list [][]byte
			for _, name := range slices.Sorted(maps.Keys(mails)) {
				list = append(list, []byte(mails[name]))
			}
			w.imap.Append(t, desk, "INBOX", list...)
			if r, res := w.pass(0); r.Totals.Forwarded != len(mails) {
				t.Errorf("the pass reports %+v, want all %d forwarded\n%s\n%+v",
					r.Totals, len(mails), res.stderr, w.tasks())
			}
			got := map[string]int{}
			for _, m := range w.sink.Messages() {
				for _, to := range m.To {
					got[to]++
				}
				if head := string(m.Header); strings.Contains(head, "\nBcc:") || strings.Contains(head, "\nMAIL") {
					t.Errorf("a line of a decoded word became one of the header:\n%.1000s", head)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("arrived at %v, want %v", got, want)
			}
		})
	}
}

// dkimKey is a private key in PEM.
func dkimKey(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
