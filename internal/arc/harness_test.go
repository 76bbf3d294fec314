package arc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	msgauth "github.com/emersion/go-msgauth/dkim"

	"postrider/internal/dkim"
	"postrider/internal/message"
)

// now is when the messages of these tests are sealed.
var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// zone is a DNS. The text "?" stands for one that does not answer.
type zone map[string]string

func (z zone) LookupTXT(ctx context.Context, name string) ([]string, error) {
	text, known := z[strings.ToLower(name)]
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case text == "?":
		return nil, &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true, IsTemporary: true}
	case !known:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return strings.Split(text, "|"), nil
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 1024) // dkimpy is slow
	if err != nil {
		panic(err)
	}
	return key
})

func pemOf(key *rsa.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func recordOf(key *rsa.PrivateKey) string {
	return "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PublicKey(&key.PublicKey))
}

// loaded is the key of a domain, with the selector s1.
func loaded(t testing.TB, domain string) *dkim.Key {
	t.Helper()
	return keyFrom(t, domain, "s1", pemOf(rsaKey()))
}

func keyFrom(t testing.TB, domain, selector, text string) *dkim.Key {
	t.Helper()
	path := filepath.Join(t.TempDir(), "arc.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := dkim.Load(domain, selector, path)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sealer is one of a domain, whose key is in the zone then.
func sealer(t testing.TB, z zone, domain string, trust ...string) *Sealer {
	t.Helper()
	s, err := New(loaded(t, domain), trust)
	if err != nil {
		t.Fatal(err)
	}
	z["s1._domainkey."+domain] = recordOf(rsaKey())
	return s
}

// parsed are the fields of a message, and its body.
func parsed(t testing.TB, raw string) ([]message.Field, io.Reader) {
	t.Helper()
	b := (&message.Spooler{Limit: 16 << 20, Budget: 64 << 20}).New()
	if _, err := io.WriteString(b, raw); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	fields, err := m.Fields()
	if err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for i, f := range fields {
		if at += int64(len(f.Raw)); f.Name == "" {
			fields = fields[:i]
		}
	}
	return fields, m.Body.From(at)
}

func seal(t testing.TB, s *Sealer, z zone, raw string) Set {
	t.Helper()
	fields, body := parsed(t, raw)
	set, err := s.Seal(t.Context(), z, fields, body, now)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// verified is the state of a message's chain, and why it is not valid.
func verified(t testing.TB, z zone, raw string, at time.Time) (status, string) {
	t.Helper()
	fields, body := parsed(t, raw)
	hashes, err := hashBody(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	return chainOf(fields).verify(t.Context(), &verifier{dns: z, header: newHeader(fields), body: hashes, at: at})
}

// forwarded is the message below a new set, which there has to be.
func forwarded(t testing.TB, s *Sealer, z zone, raw string) string {
	t.Helper()
	set := seal(t, s, z, raw)
	if set.Fields == "" {
		t.Fatalf("Seal says %q, want it sealed\n%s", set.Says, raw)
	}
	return set.Fields + raw
}

const plain = "Received: from mx.client.example by mx.firm.example; Fri, 20 Nov 2026 09:59:00 +0000\r\n" +
	"From: Alice <alice@client.example>\r\nTo: office@firm.example\r\nSubject:  hello\r\n\tthere \r\n" +
	"Date: Fri, 20 Nov 2026 09:58:00 +0000\r\nMessage-ID: <1@client.example>\r\n\r\nHello, \t world \r\n.\r\n\r\n\r\n"

// signedBy is the message with a DKIM signature of the year 2000, with the selector s.
func signedBy(t *testing.T, z zone, domain, raw string, change func(*msgauth.SignOptions)) string {
	t.Helper()
	o := &msgauth.SignOptions{
		Domain: domain, Selector: "s", Signer: rsaKey(), HeaderKeys: []string{"From", "Subject", "To"},
	}
	if change != nil {
		change(o)
	}
	z["s._domainkey."+domain] = recordOf(rsaKey())
	var b strings.Builder
	var err error
	synctest.Test(t, func(*testing.T) { err = msgauth.Sign(&b, strings.NewReader(raw), o) })
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// anyZone has a record for all names that the zone does not have.
type anyZone struct {
	zone
	record string
}

func (z anyZone) LookupTXT(ctx context.Context, name string) ([]string, error) {
	if texts, err := z.zone.LookupTXT(ctx, name); err == nil {
		return texts, nil
	}
	return []string{z.record}, nil
}

func bodyOf(t testing.TB, raw string) io.Reader {
	t.Helper()
	_, body := parsed(t, raw)
	return body
}
