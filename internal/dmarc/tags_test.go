package dmarc

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/testserver/effort"

	"github.com/emersion/go-msgauth/dkim"

	"postrider/internal/testserver"
)

// TestTags are those of signatures and keys that decide whether a signature counts (RFC 6376 3.5,
// 3.6.1).
func TestTags(t *testing.T) {
	a := newAuthor(t)
	const domain = "client.example"
	sign := func(change func(*dkim.SignOptions)) string {
		o := dkim.SignOptions{Domain: domain, Selector: "s", Signer: a.key, HeaderKeys: []string{"From", "Subject"}}
		change(&o)
		var b strings.Builder
		if err := dkim.Sign(&b, strings.NewReader(plain), &o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	in := func(d time.Duration) func(*dkim.SignOptions) {
		return func(o *dkim.SignOptions) { o.Expiration = time.Now().Add(d) }
	}
	of := func(identity string) func(*dkim.SignOptions) {
		return func(o *dkim.SignOptions) { o.Identifier = identity }
	}
	nothing := func(*dkim.SignOptions) {}
	var old, future string
	synctest.Test(t, func(*testing.T) { // the clock begins in 2000
		old = sign(nothing)
		time.Sleep(200 * 365 * 24 * time.Hour)
		future = sign(nothing)
	})
	strangers := plain
	for i := range maxSignatures - 1 {
		strangers = a.sign(t, strangers, fmt.Sprintf("other%d.example", i))
	}
	tests := []struct {
		name, raw, key string // what is in the key's record beside the key
		want           bool
		says           string
	}{
		{"x in the future", sign(in(time.Hour)), "", true, "passes by the DKIM signature of client.example"},
		{"x in the past", sign(in(-time.Hour)), "", false, "does not verify (signature has expired)"},
		{"an old signature that does not expire", old, "", true, "passes by"},
		{"dated in the future", future, "", false, "does not verify (it is dated in the future)"},
		{"i of the domain", sign(of("alice@client.example")), "", true, "passes by"},
		{"i of a subdomain", sign(of("alice@mail.client.example")), "", true, "passes by"},
		{"i of another domain", sign(of("alice@other.example")), "", false, "does not verify (domain mismatch)"},
		{
			"i in another case, which the library takes for another domain",
			sign(of("alice@Client.Example")), "", false, "does not verify (domain mismatch)",
		},
		{"a key for i of the very domain, and it is", sign(of("alice@client.example")), "; t=s", true, "passes by"},
		{"a key for i of the very domain, and i is not said", sign(nothing), "; t=s", true, "passes by"},
		{
			"a key for i of the very domain, and it is one below",
			sign(of("alice@mail.client.example")), "; t=s", false,
			"its identity is not of exactly its domain, as the key requires: t=s",
		},
		{"a key that is tested", sign(nothing), "; t=y", false, "its domain is in test mode: t=y"},
		{
			"a key that is tested, among flags",
			sign(nothing), " ; t = s : y ;", false, "its domain is in test mode: t=y",
		},
		{"flags that nobody knows", sign(nothing), "; t=yes:n", true, "passes by"},
		{"a key for something else than mail", sign(nothing), "; s=tlsrpt", false, "inappropriate service"},
		{
			"a part of the body alone",
			strings.Replace(sign(nothing), "; d=", "; l=5; d=", 1), "", false,
			"does not verify (message contains an insecure body length tag)",
		},
		{"the last of three signatures", signedBelow(strangers, sign(nothing)), "", true, "passes by"},
		{
			"the fourth, which many receivers do not look at",
			signedBelow(a.sign(t, strangers, "more.example"), sign(nothing)), "", false,
			"no DKIM signature of its domain",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.name, "part of the body") && !strings.Contains(tt.raw, "l=5") {
				t.Fatalf("the message has no l=5:\n%s", tt.raw)
			}
			z := rejecting(a.record + tt.key)
			if v := judged(t, z, domain, tt.raw); v.Redirect != tt.want || !strings.Contains(v.Why, tt.says) {
				t.Errorf("Redirectable = %+v, want %v, since %q", v, tt.want, tt.says)
			}
		})
	}
}

// signedBelow puts the signature of one message below those of another, which is the same below
// them.
func signedBelow(above, signed string) string {
	return strings.TrimSuffix(above, plain) + signed
}

// TestLongAnswers: what does not fit into a datagram is asked for again over TCP (RFC 1035 4.2.1,
// RFC 7766 5).
func TestLongAnswers(t *testing.T) {
	a := newAuthor(t)
	dns := testserver.NameServer(t, map[string]string{
		"_dmarc.client.example":       "v=DMARC1; p=reject; rua=mailto:" + strings.Repeat("x", 600) + "@client.example",
		"s._domainkey.client.example": a.record + "; n=" + strings.Repeat("note ", 200),
	})
	streams := 0
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if network == "tcp" {
			streams++
		}
		return (&net.Dialer{}).DialContext(ctx, network, dns.Address)
	}}
	for raw, want := range map[string]bool{plain: false, a.sign(t, plain, "client.example"): true} {
		v, err := NewJudge(resolver).Redirectable(t.Context(), "client.example", strings.NewReader(raw))
		if err != nil || v.Redirect != want ||
			!strings.HasPrefix(v.Why, "the DMARC policy of client.example is reject") {
			t.Errorf("Redirectable = %+v, %v; want %v by the policy reject", v, err, want)
		}
	}
	if streams < 3 {
		t.Errorf("asked over TCP %d times, want for the policy twice and for the key", streams)
	}
}

// keyOf is a record of an RSA key of that many bits, which nobody has the private key of.
func keyOf(bits uint) string {
	n := new(big.Int).SetBit(big.NewInt(1), int(bits)-1, 1)
	return recordOf(&rsa.PublicKey{N: n, E: 65537})
}

func recordOf(key *rsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	return "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(der)
}

// TestBareKey: a key without its frame is one that receivers do not read.
func TestBareKey(t *testing.T) {
	a := newAuthor(t)
	public := x509.MarshalPKCS1PublicKey(a.key.Public().(*rsa.PublicKey))
	z := rejecting("v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public))
	v := judged(t, z, "client.example", a.sign(t, plain, "client.example"))
	if v.Redirect || !strings.Contains(v.Why, "its key is not in the form that receivers read") {
		t.Errorf("Redirectable = %+v, want no redirect, since its key cannot be read", v)
	}
}

// TestLargeKeys: the time of a verification grows with the key, which a stranger chooses.
func TestLargeKeys(t *testing.T) {
	const tooLarge = "bits, and no key of more than 8192 is used"
	raw := newAuthor(t).sign(t, plain, "client.example")
	for bits, want := range map[uint]string{
		1024: "signature did not verify", 8192: "signature did not verify",
		8193: "its key has 8193 " + tooLarge, 90_000: tooLarge, 370_000: "its answer is longer than 16 KiB",
	} {
		z := rejecting(keyOf(bits))
		effort.Within(t, len(raw), func() {
			if v := judged(t, z, "client.example", raw); v.Redirect || !strings.Contains(v.Why, want) {
				t.Errorf("%d bits: Redirectable = %+v, want no redirect, since %q", bits, v, want)
			}
		})
	}
}

// TestNoTimeToVerify: when the context ends while the message is read, no signature counts.
func TestNoTimeToVerify(t *testing.T) {
	const half = 50_000 // octets
	a := newAuthor(t)
	raw := a.sign(t, plain+strings.Repeat("hello\r\n", 20_000), "client.example")
	z := rejecting(a.record)
	ctx, cancel := context.WithCancel(t.Context())
	ends := readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF })
	slow := io.MultiReader(strings.NewReader(raw[:half]), ends, strings.NewReader(raw[half:]))
	v, err := NewJudge(z).Redirectable(ctx, "client.example", slow)
	if err != nil || v.Redirect || !strings.HasSuffix(v.Why, "there was no time to verify its signatures") {
		t.Errorf("Redirectable = %+v, %v, want no redirect, since there was no time", v, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
