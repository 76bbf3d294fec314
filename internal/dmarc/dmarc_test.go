package dmarc

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"postrider/internal/testserver/effort"

	"github.com/emersion/go-msgauth/dkim"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone is a DNS; the text "!" stands for a server that fails, "?" for one that is silent, and | is
// between several records.
type zone struct {
	texts map[string]string
	after time.Duration // before it answers

	mu    sync.Mutex
	asked []string
}

// rejecting is a DNS with the policy reject for client.example, and with a key of that domain.
func rejecting(key string) *zone {
	return &zone{texts: map[string]string{
		"_dmarc.client.example":       "v=DMARC1; p=reject",
		"s._domainkey.client.example": key,
	}}
}

func (z *zone) LookupTXT(ctx context.Context, name string) ([]string, error) {
	z.mu.Lock()
	z.asked = append(z.asked, name)
	z.mu.Unlock()
	select {
	case <-time.After(z.after):
	case <-ctx.Done():
		return nil, &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true}
	}
	text, known := z.texts[strings.TrimSuffix(name, ".")]
	if all := z.texts["*"]; !known && all != "" {
		text, known = all, true
	}
	switch {
	case text == "!":
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, Server: "192.0.2.53:53", IsTemporary: true}
	case text == "?":
		<-ctx.Done()
		return nil, &net.DNSError{
			Err: "i/o timeout", Name: name, Server: "192.0.2.53:53", IsTimeout: true, IsTemporary: true,
		}
	case !known:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return strings.Split(text, "|"), nil
}

// author signs messages.
type author struct {
	key    crypto.Signer
	record string
}

func newAuthor(t testing.TB) author {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return author{key, recordOf(&key.PublicKey)}
}

const plain = "From: Alice <alice@mail.client.example>\r\nSubject: x\r\n\r\nhello\r\n"

func (a author) sign(t testing.TB, raw, domain string) string {
	t.Helper()
	var b strings.Builder
	err := dkim.Sign(&b, strings.NewReader(raw), &dkim.SignOptions{
		Domain: domain, Selector: "s", Signer: a.key, HeaderKeys: []string{"From", "Subject"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func judged(t *testing.T, z *zone, domain, raw string) Verdict {
	t.Helper()
	v, err := NewJudge(z).Redirectable(t.Context(), domain, strings.NewReader(raw))
	if err != nil {
		t.Fatalf("Redirectable = %v, want a verdict", err)
	}
	return v
}

func TestRedirectable(t *testing.T) {
	a := newAuthor(t)
	signed := a.sign(t, plain, "client.example")
	sub := a.sign(t, plain, "mail.client.example")
	stranger := a.sign(t, plain, "other.example")
	const reject = "v=DMARC1; p=reject"
	const at = "mail.client.example"
	own := func(record string) map[string]string { return map[string]string{"_dmarc." + at: record} }
	broken := strings.Replace(signed, "hello", "hi", 1)
	tests := []struct {
		name    string
		records map[string]string // besides the keys
		raw     string
		want    bool
		says    string
	}{
		{"no policy anywhere", nil, plain, true, "mail.client.example has no DMARC policy"},
		{"p=none", own("v=DMARC1; p=none"), plain, true, "the DMARC policy of mail.client.example is none"},
		{
			"p=quarantine, not signed",
			own("v=DMARC1; p=quarantine"), plain, false,
			"is quarantine, and nothing lets a redirect pass: it has no DKIM signature of its domain",
		},
		{
			"p=reject, signed by its organisation",
			own(reject), signed, true,
			"is reject, and a redirect passes by the DKIM signature of client.example",
		},
		{
			"p=reject, strict, signed by its organisation",
			own(reject + "; adkim=s"), signed, false, "no DKIM signature of its domain",
		},
		{
			"p=reject, strict, signed by the very domain",
			own(reject + "; adkim=s"), sub, true, "signature of mail.client.example",
		},
		{"p=reject, signed by a stranger", own(reject), stranger, false, "no DKIM signature of its domain"},
		{
			"p=reject, broken",
			own(reject), broken, false,
			"signature of client.example does not verify (body hash did not verify)",
		},
		{
			"p=reject, broken, and another that is not",
			own(reject), a.sign(t, broken, at), true, "signature of mail.client.example",
		},
		{
			"the organisation's policy",
			map[string]string{"_dmarc.client.example": reject},
			plain, false,
			"the DMARC policy of mail.client.example is reject",
		},
		{
			"the organisation's policy for subdomains",
			map[string]string{"_dmarc.client.example": reject + "; sp=none"},
			plain, true, "is none",
		},
		{
			"the domain's own comes first",
			map[string]string{"_dmarc." + at: "v=DMARC1; p=none", "_dmarc.client.example": reject},
			plain, true, "is none",
		},
		{"sp is not for the domain itself", own(reject + "; sp=none"), plain, false, "is reject"},
		{"a policy with spaces", own("V = DMARC1 ;p=reject"), plain, false, "is reject"},
		{
			"another TXT record that looks like one",
			own("v=spf1 -all; and more"), plain, true, "has no DMARC policy",
		},
		{"a policy with a space in front", own(" v=DMARC1; p=reject"), plain, false, "is reject"},
		{
			"a policy whose version is not first",
			own("p=reject; v=DMARC1"), plain, false,
			"is not known (there is a record that does not begin with v=DMARC1;)",
		},
		{
			"a policy without a separator",
			own("v=DMARC1 p=reject"), plain, false, "is not known (there is a record that does not begin",
		},
		{
			"a policy in quotes, beside another",
			own(`"v=DMARC1; p=reject"|v=DMARC1; p=none`), plain, false,
			"is not known (there is a record that does not begin",
		},
		{"a policy of another version", own("v=DMARC2; p=reject"), plain, true, "has no DMARC policy"},
		{
			"two policies",
			own("v=DMARC1; p=none|v=DMARC1; p=reject"), plain, false, "is not known (there are 2 records)",
		},
		{
			"a policy among other records",
			own("v=spf1 -all; and more|v=DMARC1; p=none|x"), plain, true, "is none",
		},
		{"another TXT record", own("v=spf1 -all"), plain, true, "has no DMARC policy"},
		{
			"a policy that cannot be read",
			own("v=DMARC1; p=REJECT!"), plain, false,
			"the DMARC policy of mail.client.example is not known (invalid policy",
		},
		{
			"a policy that cannot be read, signed by its organisation: it may be strict",
			own("v=DMARC1; p=reject; adkim=x"), signed, false, "is not known",
		},
		{
			"a policy that cannot be read, signed by the very domain",
			own("v=DMARC1; p=reject; adkim=x"), sub, true, "is not known",
		},
		{
			"the server fails",
			own("!"), plain, false,
			"is not known (lookup _dmarc.mail.client.example. on 192.0.2.53:53: server misbehaving)",
		},
		{"the server fails, but the key is there", own("!"), sub, true, "signature of mail.client.example"},
		{
			"the key's server fails",
			map[string]string{"_dmarc." + at: reject, "s._domainkey.client.example": "!"},
			signed, false, "does not verify (key unavailable",
		},
		{
			"the key was revoked",
			map[string]string{"_dmarc." + at: reject, "s._domainkey.client.example": "v=DKIM1; p="},
			signed, false, "key revoked",
		},
		{
			"no end of the header",
			own(reject), "From: alice@mail.client.example", false, "its signatures cannot be read",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			z := &zone{texts: map[string]string{
				"s._domainkey.client.example":      a.record,
				"s._domainkey.mail.client.example": a.record,
				"s._domainkey.other.example":       a.record,
			}}
			for name, text := range tt.records {
				z.texts[name] = text
			}
			v := judged(t, z, "Mail.Client.Example", tt.raw)
			if v.Redirect != tt.want || !strings.Contains(v.Why, tt.says) {
				t.Errorf("Redirectable = %+v, want %v, since %q", v, tt.want, tt.says)
			}
		})
	}
}

// TestEd25519: many receivers cannot verify it, so that alone it lets nothing pass.
func TestEd25519(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modern, all := author{key: key}, newAuthor(t)
	z := &zone{texts: map[string]string{
		"_dmarc.client.example":               "v=DMARC1; p=reject",
		"s._domainkey.client.example":         "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public),
		"s._domainkey.letters.client.example": all.record,
	}}
	alone := modern.sign(t, plain, "client.example")
	const says = "the DKIM signature of client.example does not verify " +
		"(no key for signature: it is Ed25519, which many receivers do not know)"
	if v := judged(t, z, "client.example", alone); v.Redirect || !strings.Contains(v.Why, says) {
		t.Errorf("Redirectable = %+v, want no redirect, since %q", v, says)
	}
	if v := judged(t, z, "client.example", all.sign(t, alone, "letters.client.example")); !v.Redirect {
		t.Errorf("beside an RSA signature: Redirectable = %+v, want a redirect", v)
	}
}

// TestUnreadable: what cannot be read is the spool's fault, and leaves nobody behind (see
// TestMain).
func TestUnreadable(t *testing.T) {
	a := newAuthor(t)
	z := rejecting(a.record)
	broken := errors.New("the disk is gone")
	raw := a.sign(t, a.sign(t, plain, "client.example"), "client.example")
	for _, at := range []int{10, len(raw) - 3} {
		r := &cut{strings.NewReader(raw[:at]), broken}
		if _, err := NewJudge(z).Redirectable(t.Context(), "client.example", r); !errors.Is(err, broken) {
			t.Errorf("after %d octets: Redirectable = %v, want the reader's error", at, err)
		}
	}
	all := iotest.DataErrReader(strings.NewReader(raw))
	if _, err := NewJudge(z).Redirectable(t.Context(), "client.example", all); err != nil {
		t.Errorf("Redirectable = %v, want the end of the message to be none", err)
	}
}

// cut fails at its end.
type cut struct {
	*strings.Reader
	err error
}

func (c *cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil {
		err = c.err
	}
	return n, err
}

// FuzzRedirectable: no message and no record makes it fail or panic, and a policy that is enforced
// never lets an unsigned message through.
func FuzzRedirectable(f *testing.F) {
	a := newAuthor(f)
	f.Add(a.sign(f, plain, "client.example"), "v=DMARC1; p=reject; sp=none; adkim=s; pct=50", a.record)
	f.Add("DKIM-Signature: v=1; a=rsa-sha256; d=client.example; s=s; h=from; bh=; b=\r\n\r\n",
		"v=DMARC1;p=none", "v=DKIM1; k=rsa; p=MA==")
	f.Add(a.sign(f, plain, "mail.client.example"), "v=DMARC1;p=reject", keyOf(16_000))
	f.Fuzz(func(t *testing.T, raw, record, key string) {
		if record == "?" || key == "?" {
			return // the DNS is silent, which takes all the time there is
		}
		z := &zone{texts: map[string]string{"*": key, "_dmarc.mail.client.example": record}}
		effort.Within(t, len(raw)+len(record)+len(key), func() {
			if v := judged(t, z, "mail.client.example", raw); v.Why == "" {
				t.Errorf("Redirectable = %+v, want a reason", v)
			}
		})
		z.texts["_dmarc.mail.client.example"] = "v=DMARC1; p=reject"
		v := judged(t, z, "mail.client.example", raw)
		if v.Redirect && !strings.Contains(strings.ToLower(raw), "dkim-signature") {
			t.Errorf("Redirectable = %+v, want an unsigned message not to pass", v)
		}
	})
}

func TestAligned(t *testing.T) {
	for _, tt := range []struct {
		domain, signer string
		want           bool
	}{
		{"firm.example", "firm.example", true},
		{"Firm.example", "firm.EXAMPLE", true},
		{"mail.firm.example", "firm.example", true},
		{"firm.example", "mail.firm.example", true},
		{"firm.example", "other.example", false},
		{"firm.example", "notfirm.example", false},
		{"firm.co.uk", "other.co.uk", false},
		{"a.firm.co.uk", "b.firm.co.uk", true},
	} {
		if got := Aligned(tt.domain, tt.signer); got != tt.want {
			t.Errorf("Aligned(%s, %s) = %v, want %v", tt.domain, tt.signer, got, tt.want)
		}
	}
}
