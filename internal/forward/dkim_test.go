package forward

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gomessage "github.com/emersion/go-message"
	msgauth "github.com/emersion/go-msgauth/dkim"

	"postrider/internal/dkim"
	"postrider/internal/message"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// zone is the DNS that a verifier asks.
type zone map[string]string

func (z zone) lookup(name string) ([]string, error) { return []string{z[name]}, nil }

// verify fails unless the message has n signatures and all verify.
func (z zone) verify(t *testing.T, what, raw string, n int) {
	t.Helper()
	found, err := msgauth.VerifyWithOptions(strings.NewReader(raw), &msgauth.VerifyOptions{LookupTXT: z.lookup})
	if err != nil || len(found) != n {
		t.Errorf("%s: %d signatures, %v, want %d\n%.800s", what, len(found), err, n, raw)
	}
	for _, v := range found {
		if v.Err != nil {
			t.Errorf("%s: the signature of %s does not verify: %v\n%.800s", what, v.Domain, v.Err, raw)
		}
	}
}

// keys are a key of each kind; their records are in z.
func keys(t *testing.T, z zone) map[string]crypto.Signer {
	t.Helper()
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, strong, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKIXPublicKey(&weak.PublicKey)
	z["rsa._domainkey.client.example"] = "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(der)
	z["ed25519._domainkey.client.example"] = "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)
	return map[string]crypto.Signer{"rsa": weak, "ed25519": strong}
}

func keyFile(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dkim.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// arrivals are messages as they arrive, by what they are: signed by their authors in all ways, in
// all modes, and what is taken out of an attachment. Each has one signature, the author's or ours,
// that has to verify.
func arrivals(t *testing.T) (zone, map[string]string) {
	t.Helper()
	z, out := zone{}, map[string]string{}
	authors := keys(t, z)
	s := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME"}})
	r := relayOn(t, s.Port())
	messages := map[string]string{
		"7 bits": "From: Alice <alice@client.example>\r\nTo: office@firm.example\r\nSubject: hello  there\r\n" +
			"Date: Fri, 20 Nov 2026 10:00:00 +0000\r\n\r\nHello, \t world\r\n.\r\n\r\n\r\n",
		"8 bits": "From: Alice <alice@client.example>\r\nSubject: hello\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" +
			"Zażółć gęślą jaźń\r\n",
	}
	signed := []string{
		"From:Subject", "From:From:Subject:Subject:To:Date:Reply-To:Sender",
		"From:X-Postrider-Trace:Resent-From:Resent-Date",
	}
	canonicalizations := []msgauth.Canonicalization{msgauth.CanonicalizationSimple, msgauth.CanonicalizationRelaxed}
	for ours, own := range authors {
		key, err := dkim.Load("firm.example", ours, keyFile(t, own))
		if err != nil {
			t.Fatal(err)
		}
		name, record := key.Record()
		z[name] = record
		c := composer(t, ComposeConfig{From: "Intake <intake@firm.example>", Key: key})
		for theirs, signer := range authors {
			for _, canon := range canonicalizations {
				for kind, raw := range messages {
					for _, h := range signed {
						var b strings.Builder
						if err := msgauth.Sign(&b, strings.NewReader(raw), &msgauth.SignOptions{
							Domain: "client.example", Selector: theirs, Signer: signer,
							HeaderCanonicalization: canon, BodyCanonicalization: canon,
							HeaderKeys: strings.Split(h, ":"),
						}); err != nil {
							t.Fatal(err)
						}
						m := parse(t, b.String())
						arrived := func(style Style) string { return delivered(t, s, r, compose(t, c, m, style)) }
						what := strings.Join([]string{kind, theirs, string(canon), h, "forwarded with", ours}, " ")
						out["redirect "+what] = arrived(Style{Mode: Redirect, Resent: true})
						out["rewrite "+what] = arrived(Style{Mode: Rewrite})
						outer := arrived(Style{Mode: Attach})
						out["attach "+what] = outer
						e, err := gomessage.Read(strings.NewReader(outer))
						if err != nil {
							t.Fatal(err)
						}
						out["the attached original "+what] = taken(t, e)
					}
				}
			}
		}
		large := parse(t, messages["7 bits"])
		large.HeaderOnly = true
		report, err := c.Report(Report{
			To: "ops@firm.example", Subject: "postrider: 1 message is dead", Text: "Task 1 is dead.\n開廷\n",
			At: time.Now(), About: []string{"task 1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		out["report with "+ours] = delivered(t, s, r, report)
		out["notice with "+ours] = delivered(t, s, r, compose(t, c, large, Style{Mode: Redirect}))
	}
	return z, out
}

// TestSignaturesSurvive: what the author signed verifies after redirect, and in the attachment
// after attach; what is composed or rewritten verifies by our key.
func TestSignaturesSurvive(t *testing.T) {
	z, all := arrivals(t)
	for what, raw := range all {
		z.verify(t, what, raw, 1)
	}
}

// TestSignaturesSurviveElsewhere is TestSignaturesSurvive with a verifier that nothing here is made
// of.
func TestSignaturesSurviveElsewhere(t *testing.T) {
	z, all := arrivals(t)
	names := slices.Sorted(maps.Keys(all))
	var messages []string
	for _, what := range names {
		messages = append(messages, all[what])
	}
	broken := strings.Replace(all[names[0]], "\r\n\r\n", "\r\n\r\nforged ", 1)
	verified := testserver.VerifyDKIM(t, z, append(messages, broken)...)
	for i, what := range names {
		if got := verified[i]; len(got) != 1 || got[0] != "" {
			t.Errorf("%s: its signatures are %q, want one that verifies\n%.800s", what, got, messages[i])
		}
	}
	if got := verified[len(names)]; len(got) != 1 || got[0] == "" {
		t.Errorf("a forged message: its signatures are %q, want one that does not verify", got)
	}
}

// TestSigningTakesLittleMemory: the signer holds empty lines back until it knows whether they are
// the end; what has many is encoded, so that it has none.
func TestSigningTakesLittleMemory(t *testing.T) {
	z := zone{}
	key, err := dkim.Load("client.example", "rsa", keyFile(t, keys(t, z)["rsa"]))
	if err != nil {
		t.Fatal(err)
	}
	b := (&message.Spooler{Dir: t.TempDir()}).New()
	if _, err := b.Write([]byte("From: a@client.example\r\n\r\n" + strings.Repeat("\r\n", 4<<20))); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	for _, mode := range []Mode{Rewrite, Attach} {
		c := compose(t, composer(t, ComposeConfig{Key: key}), m, Style{Mode: mode})
		if form, err := shapeOf(c.Reader()); err != nil || c.Mode != Attach || form.empty > maxEmpty {
			t.Errorf("in mode %s it goes out as %s with %d octets of empty lines in a row, %v; "+
				"want it attached in base64", mode, c.Mode, form.empty, err)
		}
	}
}

// TestSignatureIsBroken by what forgers do: the verifier of these tests sees it.
func TestSignatureIsBroken(t *testing.T) {
	z := zone{}
	key, err := dkim.Load("client.example", "rsa", keyFile(t, keys(t, z)["rsa"]))
	if err != nil {
		t.Fatal(err)
	}
	c := composer(t, ComposeConfig{Key: key})
	raw := octetsOf(t, compose(t, c, parse(t, plain), Style{Mode: Attach}).Reader())
	z.verify(t, "untouched", raw, 1)
	for name, forged := range map[string]string{
		"another Subject on top": "Subject: forged\r\n" + raw, "another author": "From: x@y.example\r\n" + raw,
		"a Cc that was not there": "Cc: x@y.example\r\n" + raw, "the body": strings.Replace(raw, "..two", "..three", 1),
	} {
		found, err := msgauth.VerifyWithOptions(strings.NewReader(forged), &msgauth.VerifyOptions{LookupTXT: z.lookup})
		if err == nil && found[0].Err == nil {
			t.Errorf("%s: the signature verifies, want it broken", name)
		}
	}
}
