package forward

import (
	"context"
	"net"
	"strings"
	"testing"

	msgauth "github.com/emersion/go-msgauth/dkim"

	"postrider/internal/dmarc"
	"postrider/internal/testserver/smtpsink"
)

// LookupTXT makes a zone a resolver.
func (z zone) LookupTXT(_ context.Context, name string) ([]string, error) {
	if text, ok := z[strings.TrimSuffix(name, ".")]; ok {
		return []string{text}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// autoComposer is one whose DNS has a policy of client.example, and the keys with which sign signs
// for it.
func autoComposer(t *testing.T, policy string) (c *Composer, sign func(raw, h string) string) {
	t.Helper()
	z := zone{"_dmarc.client.example": policy}
	signer := keys(t, z)["rsa"]
	c = composer(t, ComposeConfig{Judge: dmarc.NewJudge(z)})
	return c, func(raw, h string) string {
		var b strings.Builder
		if err := msgauth.Sign(&b, strings.NewReader(raw), &msgauth.SignOptions{
			Domain: "client.example", Selector: "rsa", Signer: signer, HeaderKeys: strings.Split(h, ":"),
		}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
}

const (
	fromAlice = "From: Alice <alice@client.example>\r\n"
	rest      = "Subject: x\r\nMessage-ID: <1@client.example>\r\n\r\nhello\r\n"
)

func TestAuto(t *testing.T) {
	const (
		quarantine = "v=DMARC1; p=quarantine"
		passes     = "a redirect passes by the DKIM signature of client.example"
		spaces     = "but not at every receiver: its signature covers white space beside a colon"
		lasts      = "auto: its signatures would take long to verify"
	)
	tests := []struct {
		name, policy, raw string
		signs             string // the h= of a signature; empty for none
		resent            bool
		want              Mode
		says              string
	}{
		{
			"signed", rejects, fromAlice + rest,
			"From:Subject", false, Redirect, "auto: the DMARC policy of client.example is reject, and " + passes,
		},
		{
			"not signed, no policy", "", fromAlice + rest,
			"", false, Redirect, "auto: client.example has no DMARC policy",
		},
		{
			"not signed", quarantine, fromAlice + rest,
			"", false, Rewrite, "auto: the DMARC policy of client.example is quarantine, " +
				"and nothing lets a redirect pass: it has no DKIM signature",
		},
		{
			"over-signed, with resent", rejects, fromAlice + rest,
			"From:From:Subject:Subject:Resent-From", true, Redirect,
			"client.example; no Resent- fields: a signature covers Resent-From",
		},
		{
			"the trace field is signed", rejects, fromAlice + rest,
			"From:X-Postrider-Trace", false, Rewrite, "auto: a signature covers X-Postrider-Trace; " +
				"without its signature fields (1), which another From breaks",
		},
		{
			"a domain in capitals", rejects, "From: alice@CLIENT.example\r\n" + rest,
			"", false, Rewrite, "of client.example is reject",
		},
		{
			"an internationalized domain", "", "From: alice@bücher.example\r\n" + rest,
			"", false, Redirect, "auto: xn--bcher-kva.example has no DMARC policy",
		},
		{
			"a name in a charset nobody knows", "", "From: =?klingon?Q?Alice?= <alice@client.example>\r\n" + rest,
			"", false, Redirect, "has no DMARC policy",
		},
		{
			"a long line", rejects, fromAlice + rest + strings.Repeat("x", 999) + "\r\n",
			"From", false, Attach, "attached instead: it has a line of more than 998 octets",
		},
		{
			"no From", "", rest,
			"", false, Rewrite, "auto: it has no From field",
		},
		{
			"two From fields", "", fromAlice + fromAlice + rest,
			"", false, Rewrite, "auto: it has 2 From fields",
		},
		{
			"two authors", "", "From: a@client.example, b@client.example\r\n" + rest,
			"", false, Rewrite, "auto: its From field names 2 authors",
		},
		{
			"an empty From", "", "From: <>\r\n" + rest,
			"", false, Rewrite, "auto: its From field cannot be read",
		},
		{
			"a From that is not an address", "", "From: Alice\r\n" + rest,
			"", false, Rewrite, "auto: its From field cannot be read",
		},
		{
			"an address literal", "", "From: alice@[192.0.2.1]\r\n" + rest,
			"", false, Rewrite, "auto: the address in its From field has no domain",
		},
		{
			"a local part that needs quotes", rejects, "From: \"alice b\"@client.example\r\n" + rest,
			"From:Subject", false, Redirect, passes,
		},
		{
			"signatures that take long to verify", rejects, strings.Repeat("X: y\r\n", 5000) + fromAlice + rest,
			strings.Repeat("X:", 300) + "From", false, Rewrite, lasts,
		},
		{
			"many empty lines", rejects, fromAlice + rest + strings.Repeat("\r\n \r\n", 40_000) + "x\r\n",
			"From", false, Rewrite, lasts,
		},
		{
			"some empty lines", rejects,
			fromAlice + rest + strings.Repeat("\r\n", 30_000) + "x\r\n" + strings.Repeat("\r\n", 30_000),
			"From", false, Redirect, "client.example is reject, and a redirect passes",
		},
		{
			"a second Subject, not signed", rejects, "Subject: y\r\n" + fromAlice + rest,
			"From:Subject", false, Rewrite,
			"by the DKIM signature of client.example, but not at every receiver: it has 2 Subject fields",
		},
		{
			"a second Subject where nothing has to pass", "none", "Subject: y\r\n" + fromAlice + rest,
			"From:Subject", false, Redirect, "has no DMARC policy",
		},
		{
			"a signature field that is none", rejects, "DKIM-Signature: nonsense\r\n" + fromAlice + rest,
			"From:Subject", false, Rewrite, "but not at every receiver: one of its signature fields cannot be read",
		},
		{
			"no space after a colon, where spaces are signed", rejects, "To:b@client.example\r\n" + fromAlice + rest,
			"From:To", false, Rewrite, spaces,
		},
		{
			"a space before a colon, where spaces are signed", rejects, "To : b@client.example\r\n" + fromAlice + rest,
			"From:To", false, Rewrite, spaces,
		},
		{
			"no space after a colon that is not signed", rejects, "To:b@client.example\r\n" + fromAlice + rest,
			"From:Subject", false, Redirect, passes,
		},
		{
			"two spaces after a colon, and an odd fold", rejects,
			"To:  b@client.example,\r\n \t c@client.example \r\n" + fromAlice + rest,
			"From:To", false, Redirect, "a redirect passes by",
		},
		{
			"no header", "", "\x01\r\nhello\r\n",
			"", false, Attach, "auto: its header has a line that is not a field; attached instead of rewritten",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, sign := autoComposer(t, tt.policy)
			if tt.policy == "" {
				c, _ = autoComposer(t, "none") // which is no policy
			}
			if tt.signs != "" {
				tt.raw = sign(tt.raw, tt.signs)
			}
			got := compose(t, c, parse(t, tt.raw), Style{Mode: Auto, Resent: tt.resent})
			if got.Mode != tt.want || !strings.Contains(got.Remark, tt.says) {
				t.Errorf("it goes out in mode %s, since %q; want %s, since %q", got.Mode, got.Remark, tt.want, tt.says)
			}
		})
	}
}

// TestAutoIsWhatItPicks: the octets are those of the mode that is picked.
func TestAutoIsWhatItPicks(t *testing.T) {
	for policy, mode := range map[string]Mode{"v=DMARC1; p=none": Redirect, "v=DMARC1; p=reject": Rewrite} {
		c, _ := autoComposer(t, policy)
		m := parse(t, fromAlice+rest)
		got := octetsOf(t, compose(t, c, m, Style{Mode: Auto, Resent: true}).Reader())
		if want := octetsOf(t, compose(t, c, m, Style{Mode: mode, Resent: true}).Reader()); got != want {
			t.Errorf("with the policy %q it is\n%s\nwant it as in mode %s\n%s", policy, got, mode, want)
		}
	}
}

// TestAutoEightBit: a relay that would have to change an 8-bit message gets it attached, and the
// reason is complete.
func TestAutoEightBit(t *testing.T) {
	c, sign := autoComposer(t, "v=DMARC1; p=reject")
	s := sink(t, smtpsink.Options{})
	m := parse(t, sign(fromAlice+"Subject: x\r\nContent-Transfer-Encoding: 8bit\r\n\r\nZażółć\r\n", "From"))
	res, err := send(t, relayOn(t, s.Port()), compose(t, c, m, Style{Mode: Auto}), "a@x.example")
	if got := brief(res); got != "a accepted 250 2.0.0" || err != nil {
		t.Fatalf("Send = %q, %v, want accepted", got, err)
	}
	want := "a redirect passes by the DKIM signature of client.example; " +
		"attached instead: the relay takes no 8-bit message"
	if res.Sent.Mode != Attach || !strings.Contains(res.Sent.Remark, want) {
		t.Errorf("sent in mode %s, since %q; want attach, since %q", res.Sent.Mode, res.Sent.Remark, want)
	}
}

// TestAutoRewriteEightBit: what auto rewrites is attached for such a relay, as in mode rewrite; the
// remark has both reasons.
func TestAutoRewriteEightBit(t *testing.T) {
	c, _ := autoComposer(t, "v=DMARC1; p=reject")
	s := sink(t, smtpsink.Options{})
	m := parse(t, fromAlice+"Subject: x\r\nContent-Transfer-Encoding: 8bit\r\n\r\nZażółć\r\n")
	res, err := send(t, relayOn(t, s.Port()), compose(t, c, m, Style{Mode: Auto}), "a@x.example")
	if got := brief(res); got != "a accepted 250 2.0.0" || err != nil {
		t.Fatalf("Send = %q, %v, want accepted", got, err)
	}
	const (
		first = "auto: the DMARC policy of client.example is reject"
		last  = "; attached instead of rewritten: it has 8-bit content, and the relay does not offer 8BITMIME"
	)
	why := res.Sent.Remark
	if res.Sent.Mode != Attach || !strings.HasPrefix(why, first) || !strings.HasSuffix(why, last) {
		t.Errorf("sent in mode %s, since %q; want attach, since %q ... %q", res.Sent.Mode, why, first, last)
	}
}

// TestAutoLineEnds: a signature over bare line ends does not survive that they are made canonical.
func TestAutoLineEnds(t *testing.T) {
	c, sign := autoComposer(t, "v=DMARC1; p=reject")
	raw := strings.Replace(sign(fromAlice+rest, "From"), "hello", "hel\rlo", 1)
	got := compose(t, c, parse(t, raw), Style{Mode: Auto})
	if got.Mode != Rewrite || !strings.Contains(got.Remark, "body hash did not verify") {
		t.Errorf("it goes out in mode %s, since %q; want rewrite, since its signature is broken", got.Mode, got.Remark)
	}
}

// TestSender: what is in the forwarder's name does not keep the author's reverse-path, be it
// composed or taken instead of a redirect. Null stays null.
func TestSender(t *testing.T) {
	s := sink(t, smtpsink.Options{})
	const alice = "alice@client.example"
	eight := "From: a@client.example\r\nSubject: x\r\n\r\nZażółć\r\n"
	tests := []struct {
		name, keeps, from, raw string
		style                  Style
		want                   string
	}{
		{"redirect", Keep, alice, plain, Style{Mode: Redirect}, alice},
		{"rewrite", Keep, alice, plain, Style{Mode: Rewrite}, me},
		{"attach", Keep, alice, plain, Style{Mode: Attach}, me},
		{"attached instead of redirected", Keep, alice, eight, Style{Mode: Redirect, Fallback: true}, me},
		{"null", Keep, "", plain, Style{Mode: Rewrite}, ""},
		{"another reverse-path", me, "srs@firm.example", plain, Style{Mode: Rewrite}, "srs@firm.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := relayOn(t, s.Port(), func(c *Config) { c.EnvelopeFrom, c.From = tt.keeps, me })
			content := compose(t, composer(t, ComposeConfig{}), parse(t, tt.raw), tt.style)
			res, err := deliver(t.Context(), r, Envelope{From: tt.from, To: []string{"a@x.example"}}, content)
			if brief(res) != "a accepted 250 2.0.0" || err != nil {
				t.Fatalf("Send = %q, %v, want accepted", brief(res), err)
			}
			all := s.Messages()
			if got := all[len(all)-1].From; got != tt.want {
				t.Errorf("the reverse-path is %q, want %q", got, tt.want)
			}
			if got := r.Sender(tt.from, res.Sent.Mode); got != tt.want {
				t.Errorf("Sender = %q, want %q, as on the wire", got, tt.want)
			}
		})
	}
}

// TestIllegible: what breaks the grammar of a signature field, and what does not.
func TestIllegible(t *testing.T) {
	const valid = "v=1; a=rsa-sha256; d=x.example; s=s; h=from : to; bh=YQ==; b=Y Q=="
	for value, want := range map[string]bool{
		valid: false, valid + ";": false,
		valid + "; x-y=1": false, valid + "; z_y=": false, valid + "; t=12; x=34;": false,

		"": true, "nonsense": true,
		valid + ";;": true, valid + "; =1": true, valid + "; t=now": true, valid + "; d": true,

		strings.Replace(valid, "v=1", "v=2", 1):             true,
		strings.Replace(valid, "v=1; ", "", 1):              true,
		strings.Replace(valid, "s=s", "s=", 1):              true,
		strings.Replace(valid, "x.example", "ü.example", 1): true,
		strings.Replace(valid, "; b=", "; y=", 1):           true,
	} {
		if got := illegible(value); got != want {
			t.Errorf("illegible(%q) = %v, want %v", value, got, want)
		}
	}
}
