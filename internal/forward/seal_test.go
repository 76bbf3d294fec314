package forward

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	msgauth "github.com/emersion/go-msgauth/dkim"

	"postrider/internal/arc"
	"postrider/internal/dkim"
	"postrider/internal/dmarc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// sealingComposer is one that seals as firm.example. It asks dns; its record is in z.
func sealingComposer(t *testing.T, z zone, dns dmarc.Resolver) *Composer {
	t.Helper()
	key, err := dkim.Load("firm.example", "arc", keyFile(t, keys(t, z)["rsa"]))
	if err != nil {
		t.Fatal(err)
	}
	name, record := key.Record()
	z[name] = record
	s, err := arc.New(key, []string{"mx.firm.example"})
	if err != nil {
		t.Fatal(err)
	}
	return composer(t, ComposeConfig{Sealer: s, Judge: dmarc.NewJudge(dns)})
}

// TestSealed: a redirect arrives with a valid chain, and octet for octet below the fields on top.
// What is composed here is not sealed.
func TestSealed(t *testing.T) {
	z := zone{}
	c := sealingComposer(t, z, z)
	s := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME"}})
	r := relayOn(t, s.Port())
	styles := map[string]Style{
		"redirect": {Mode: Redirect}, "resent": {Mode: Redirect, Resent: true},
		"fallback": {Mode: Redirect, Fallback: true}, "auto": {Mode: Auto},
		"rewrite": {Mode: Rewrite}, "attach": {Mode: Attach},
	}
	var names, arrived []string
	for what, raw := range map[string]string{
		"7 bits":      plain,
		"8 bits":      "From: a@client.example\r\nContent-Transfer-Encoding: 8bit\r\n\r\nZażółć\r\n",
		"no body":     "From: a@client.example\r\n\r\n",
		"no end":      "From: a@client.example\r\nSubject: x\r\n\r\nx",
		"white space": "From: a@client.example\r\nSubject:\t x \r\n\ty\r\n\r\n \r\na  b \r\n\r\n \r\n",
		"dots":        "From: a@client.example\r\n\r\n.\r\n..x\r\n",

		"line ends that were corrected": strings.ReplaceAll(plain, "\r\n", "\n"),
	} {
		m := parse(t, raw)
		original := octetsOf(t, m.Body.Reader())
		for name, style := range styles {
			content := compose(t, c, m, style)
			got := delivered(t, s, r, content)
			sealed := strings.HasPrefix(got, "ARC-Seal: i=1; ")
			want := content.Mode == Redirect
			if sealed != want || want != strings.Contains(content.Remark, "ARC-sealed, i=1, cv=none") {
				t.Errorf("%s in mode %s: sealed is %v and the remark %q, want %v\n%s",
					what, name, sealed, content.Remark, want, got)
			}
			sent := octetsOf(t, content.Reader())
			if again := octetsOf(t, compose(t, c, m, style).Reader()); content.Mode == Redirect && again != sent {
				t.Errorf("%s in mode %s: the second attempt has other octets", what, name)
			}
			if !sealed {
				continue
			}
			if !strings.HasSuffix(sent, original) || int64(len(sent)) != content.Size() {
				t.Errorf("%s in mode %s: it is %q, want the original at its end", what, name, sent)
			}
			twice := delivered(t, s, r, compose(t, c, parse(t, got), style))
			names, arrived = append(names, what+" "+name, what+" "+name+" twice"), append(arrived, got, twice)
		}
	}
	for i, verdict := range testserver.VerifyARC(t, z, arrived...) {
		if verdict.CV != "pass" {
			t.Errorf("%s: dkimpy says %+v, want a valid chain\n%s", names[i], verdict, arrived[i])
		}
	}
	notice := parse(t, plain)
	notice.HeaderOnly = true
	if got := compose(t, c, notice, Style{Mode: Redirect}); strings.Contains(got.Remark, "ARC") {
		t.Errorf("the remark of a notice is %q, want it not sealed", got.Remark)
	}
}

// TestNotSealed: the message goes out as it would without a seal, and says why it has none.
func TestNotSealed(t *testing.T) {
	z := zone{}
	c := sealingComposer(t, z, z)
	const author = "From: a@client.example\r\n"
	for _, tt := range []struct{ raw, says string }{
		{author + "no field\r\n\r\nx\r\n", "not ARC-sealed: its header has a line that is not a field"},
		{
			author + strings.Repeat("X: "+strings.Repeat("y", 95)+"\r\n", maxRewritten/100+1) + "\r\nx\r\n",
			"not ARC-sealed: its header is longer than 256 KiB",
		},
		{author + strings.Repeat("X: y\r\n", 10_000) + "\r\nx\r\n", "not ARC-sealed: its header has too many fields"},
		{"DKIM-Signature: v=1; h=from:arc-seal; b=\r\n" + plain, "not ARC-sealed: a signature covers ARC-Seal"},
		{
			"DKIM-Signature: v=1; h=from:arc-authentication-results; b=\r\n" + plain,
			"not ARC-sealed: a signature covers ARC-Authentication-Results",
		},
		{
			"DKIM-Signature: v=1; h=from:arc-seal:resent-from; b=\r\n" + plain,
			"no Resent- fields: a signature covers Resent-From; not ARC-sealed: a",
		},
	} {
		m := parse(t, tt.raw)
		got := compose(t, c, m, Style{Mode: Redirect, Resent: strings.HasPrefix(tt.says, "no Resent")})
		if !strings.HasPrefix(got.Remark, tt.says) || !strings.HasPrefix(octetsOf(t, got.Reader()), traceField) {
			t.Errorf("the remark is %q, want %q, and no seal", got.Remark, tt.says)
		}
	}
}

// silence is a DNS that does not answer.
type silence struct{}

func (silence) LookupTXT(ctx context.Context, name string) ([]string, error) {
	<-ctx.Done()
	return nil, &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true, IsTemporary: true}
}

// TestSealedWithoutDNS: nothing fails, and the silence of the DNS is waited for a few times only.
func TestSealedWithoutDNS(t *testing.T) {
	z := zone{}
	signer := keys(t, z)["rsa"]
	chain := octetsOf(t, compose(t, sealingComposer(t, z, z), parse(t, plain), Style{Mode: Redirect}).Reader())
	var signed []string
	for i := range 20 {
		var b strings.Builder
		o := &msgauth.SignOptions{Domain: fmt.Sprintf("d%d.example", i), Selector: "s", Signer: signer}
		if err := msgauth.Sign(&b, strings.NewReader(plain), o); err != nil {
			t.Fatal(err)
		}
		signed = append(signed, b.String())
	}
	later := origin
	later.Registered = time.Now()
	const (
		sealed    = "ARC-sealed, i=1, cv=none"
		notSealed = "not ARC-sealed: whether its chain is valid is not known " +
			"(the key of firm.example could not be looked up: "
	)
	synctest.Test(t, func(t *testing.T) {
		c := sealingComposer(t, z, silence{})
		start := time.Now()
		for i, raw := range signed {
			before := time.Now()
			silent := fmt.Sprintf("dkim=temperror header.d=d%d.example", i)
			for raw, want := range map[string]string{raw: sealed, chain: notSealed} {
				out, err := c.Compose(t.Context(), parse(t, raw), later, Style{Mode: Redirect})
				if err != nil || !strings.HasPrefix(out.Remark, want) {
					t.Fatalf("message %d: %v, %v, want %q", i, out.Remark, err, want)
				}
				if sent := octetsOf(t, out.Reader()); want == sealed && !strings.Contains(sent, silent) {
					t.Errorf("message %d is sent with\n%s\nwant it to say that the DNS did not answer", i, sent)
				}
			}
			if took := time.Since(before); took > 2*dmarc.Patience {
				t.Fatalf("two messages waited for %v, want %v at most", took, 2*dmarc.Patience)
			}
		}
		if took := time.Since(start); took > 4*dmarc.Patience {
			t.Errorf("40 messages waited for %v, want %v at most", took, 4*dmarc.Patience)
		}
	})
}
