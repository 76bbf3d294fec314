package arc

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	msgauth "github.com/emersion/go-msgauth/dkim"

	"postrider/internal/testserver/effort"
)

// owned are the results of our own verification of a message.
func owned(t *testing.T, z zone, raw string, so ...string) []string {
	t.Helper()
	fields, body := parsed(t, raw)
	hashes, err := hashBody(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	v := &verifier{dns: z, header: newHeader(fields), body: hashes, at: now}
	return v.signatures(t.Context(), so)
}

func TestSignatures(t *testing.T) {
	z := zone{}
	change := func(old, with string) string {
		raw := signedBy(t, z, "client.example", plain, nil)
		changed := strings.Replace(raw, old, with, 1)
		if changed == raw {
			t.Fatalf("%s is not in\n%s", old, raw)
		}
		return changed
	}
	of := func(identity string) string {
		return signedBy(t, z, "client.example", plain, func(o *msgauth.SignOptions) { o.Identifier = identity })
	}
	with := func(domain, record string) string {
		raw := signedBy(t, z, domain, plain, nil)
		z["s._domainkey."+domain] = record
		return raw
	}
	good := recordOf(rsaKey())
	below := signedBy(t, z, "strict.example", plain, func(o *msgauth.SignOptions) {
		o.Identifier = "a@x.strict.example"
	})
	tests := []struct{ name, raw, want string }{
		{"valid", of(""), "pass"},
		{"the body was changed", change("Hello", "Hallo"), "fail"},
		{"a field was changed", change("From: Alice", "From: Malice"), "fail"},
		{"white space only, and the header is simple", change("Subject:  hello", "Subject: hello"), "fail"},
		{"of a part of the body", change("; d=", "; l=1; d="), "policy"},
		{"without a version", change("v=1", "v=2"), "permerror"},
		{"without From", change("h=From:", "h="), "permerror"},
		{"expired", change("; d=", "; x=1; d="), "policy"},
		{"the identity is below the domain", of("a@x.client.example"), "pass"},
		{"the identity is of another domain", change("; d=", "; i=a@other.example; d="), "permerror"},
		{"a key for identities of its domain only", with("strict.example", good+"; t=s"), "pass"},
		{"a key for identities of its domain only, and it is below", below, "permerror"},
		{"a key that is tested", with("tested.example", good+"; t=y"), "neutral"},
		{"a revoked key", with("revoked.example", "v=DKIM1; p="), "permerror"},
		{"two keys", with("two.example", good+"|"+good), "permerror"},
		{"a key for another service", with("service.example", good+"; s=tlsrpt"), "permerror"},
		{"a key for another hash", with("hash.example", good+"; h=sha1"), "permerror"},
		{"a key of another version", with("version.example", strings.Replace(good, "DKIM1", "DKIM2", 1)), "permerror"},
		{
			"a key of two versions",
			with("versions.example", strings.Replace(good, "DKIM1", "DKIM1:DKIM2", 1)), "permerror",
		},
		{"another key", with("another.example", keyOf(1024)), "fail"},
		{"a record that is no key", with("nokey.example", "v=spf1 -all"), "permerror"},
		{"no key", strings.Replace(of(""), "s=s;", "s=none;", 1), "permerror"},
		{"a DNS that does not answer", with("silent.example", "?"), "temperror"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := owned(t, z, tt.raw)
			if len(got) != 1 || !strings.HasPrefix(got[0], "dkim="+tt.want+" header.d=") {
				t.Errorf("the results are %q, want one of %s\n%s", got, tt.want, tt.raw)
			}
		})
	}
}

// TestTags: each signature is valid, so what its tags say decides.
func TestTags(t *testing.T) {
	z := zone{}
	s := sealer(t, z, "client.example")
	fields, body := parsed(t, plain)
	hashes, err := hashBody(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	z["s1._domainkey.other.example"] = strings.Replace(recordOf(rsaKey()), "k=rsa", "k=", 1)
	for tags, want := range map[string]string{
		"d=client.example": "pass", "d= client.example\r\n ": "pass",
		"d=client. example": "none", "d=other.example": "permerror",
		"d=client.example; n=a b": "pass", "d=client.example; n=": "pass", "d=client.example; x_1=": "pass",
		"d=client.example; _=": "none", "d=client.example; 1=": "none",
		"d=client.example; c=simple": "pass", "d=client.example; c=": "permerror",
		"d=client.example; c=simple/": "permerror", "d=client.example; c=sim ple": "permerror",
		"d=client.example; i=@client. example": "pass",
		"d=client.example; i=":                 "permerror", "d=client.example; i=client.example": "permerror",
		"d=client.example; t=1": "pass", "d=client.example; t=": "permerror",
		"d=client.example; t=1 2": "permerror", "d=client.example; t=-1": "permerror",
	} {
		field := "DKIM-Signature: v=1; a=rsa-sha256; s=s1; h=From : To; bh=" + encode(hashes.simple) +
			"; " + tags + "; b="
		signature, err := s.Key.SignSHA256([]byte(newHeader(fields).picked([]string{"From", "To"}, simple) + field))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(owned(t, z, field+encode(signature)+"\r\n"+plain), "; ")
		if want == "none" && got != "" || want != "none" && !strings.HasPrefix(got, "dkim="+want+" ") {
			t.Errorf("%q: the results are %q, want %s", tags, got, want)
		}
	}
}

// TestSignaturesAsTheLibrary: our verifier and the library that mode auto uses agree, in both
// canonical forms of both parts.
func TestSignaturesAsTheLibrary(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	forms := []msgauth.Canonicalization{msgauth.CanonicalizationSimple, msgauth.CanonicalizationRelaxed}
	head, _, _ := strings.Cut(plain, "\r\n\r\n")
	z := zone{}
	both := []string{"dkim=pass header.d=ed.example header.s=s", "dkim=pass header.d=client.example header.s=s"}
	for name, body := range bodies {
		for _, inHeader := range forms {
			for _, inBody := range forms {
				raw := signedBy(t, z, "client.example", head+"\r\n\r\n"+body, func(o *msgauth.SignOptions) {
					o.HeaderCanonicalization, o.BodyCanonicalization = inHeader, inBody
				})
				raw = signedBy(t, z, "ed.example", raw, func(o *msgauth.SignOptions) {
					o.Signer, o.HeaderCanonicalization, o.BodyCanonicalization = private, inHeader, inBody
				})
				z["s._domainkey.ed.example"] = "k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)
				if got := owned(t, z, raw); !slices.Equal(got, both) {
					t.Errorf("%s, %s/%s: the results are %q, want both signatures valid\n%s",
						name, inHeader, inBody, got, raw)
				}
			}
		}
	}
}

// TestWhichSignatures: what the server said stands; a stranger's text is never in a result.
func TestWhichSignatures(t *testing.T) {
	z := zone{}
	raw := signedBy(t, z, "list.example", signedBy(t, z, "client.example", plain, nil), nil)
	const (
		ofList   = "dkim=pass header.d=list.example header.s=s"
		ofClient = "dkim=pass header.d=client.example header.s=s"
	)
	for _, tt := range []struct {
		name, raw string
		so, want  []string
	}{
		{"nothing was said", raw, nil, []string{ofList, ofClient}},
		{"one was said", raw, []string{"dkim=fail header.i=@Client.example header.s=s"}, []string{ofList}},
		{
			"both were said", raw,
			[]string{"dkim=fail header.d=client.example", `dkim=pass header.i="a@list.example"`},
			nil,
		},
		{
			"something else was said", raw,
			[]string{"dmarc=fail header.d=client.example", "dkim=fail header.d=list.example"},
			[]string{ofClient},
		},
		{"no signature", plain, nil, []string{"dkim=none"}},
		{"no signature, and the server says so", plain, []string{"dkim=none"}, nil},
		{"tags that cannot be read", "DKIM-Signature: v=1; v=1\r\n" + plain, nil, nil},
		{"a domain that is text", "DKIM-Signature: v=1; d=a;\r\n s=\"x\"\r\n" + plain, nil, nil},
		{"a domain that is more text", "DKIM-Signature: v=1; d=a(b)c; s=x\r\n" + plain, nil, nil},
	} {
		if got := owned(t, z, tt.raw, tt.so...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the results are %q, want %q", tt.name, got, tt.want)
		}
	}
	for i := range maxSignatures + 1 {
		raw = signedBy(t, z, fmt.Sprintf("d%d.example", i), raw, nil)
	}
	if got := owned(t, z, raw); len(got) != maxSignatures {
		t.Errorf("of %d signatures %d are verified, want %d", maxSignatures+3, len(got), maxSignatures)
	}
}

// keyOf is a record of an RSA key of that many bits, which nobody has the private key of.
func keyOf(bits uint) string {
	n := new(big.Int).SetBit(big.NewInt(1), int(bits)-1, 1)
	key := &rsa.PublicKey{N: n, E: 65537}
	return "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PublicKey(key))
}

// TestKeySize: the time of a verification grows with the key, which a stranger chooses.
func TestKeySize(t *testing.T) {
	z := zone{}
	raw := signedBy(t, z, "client.example", plain, nil)
	for bits, want := range map[uint]string{
		512: "permerror", 1023: "permerror", 1024: "fail", 8192: "fail", 8193: "permerror", 90_000: "permerror",
	} {
		z["s._domainkey.client.example"] = keyOf(bits)
		effort.Within(t, len(raw), func() {
			if got := owned(t, z, raw); len(got) != 1 || !strings.HasPrefix(got[0], "dkim="+want) {
				t.Errorf("with a key of %d bits the results are %q, want %s", bits, got, want)
			}
		})
	}
}

// TestPublished: what check says of our own key.
func TestPublished(t *testing.T) {
	key := loaded(t, "firm.example")
	const txt = "the TXT record s1._domainkey.firm.example "
	for record, want := range map[string]string{
		recordOf(rsaKey()): "", "k=rsa; p=" + strings.TrimPrefix(recordOf(rsaKey()), "v=DKIM1; k=rsa; p="): "",
		keyOf(1024): txt + "has another key; it has to be: v=DKIM1; k=rsa; p=MI",
		recordOf(rsaKey()) + "; t=y": txt + "is marked as a test (t=y), so that signatures do not count; " +
			"it has to be: v=DKIM1",
		"v=DKIM1; p=": txt + "is not usable (its key was revoked); it has to be: v=DKIM1",
		"?":           txt + "is not known: the key of firm.example could not be looked up: ",
	} {
		err := Published(t.Context(), zone{"s1._domainkey.firm.example": record}, key)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("Published with %q = %v, want %q", record, err, want)
		}
	}
}

// TestTheSameEachTime: a retry has the same octets, and what was found is in them.
func TestTheSameEachTime(t *testing.T) {
	z := zone{}
	s := sealer(t, z, "firm.example", "mx.firm.example")
	raw := "Authentication-Results: mx.firm.example; spf=pass smtp.mailfrom=a@client.example\r\n" +
		border + signedBy(t, z, "client.example", plain, nil)
	first := seal(t, s, z, raw)
	if again := seal(t, s, z, raw); again != first {
		t.Errorf("Seal = %+v, and then %+v, want no difference", first, again)
	}
	const found = "ARC-Authentication-Results: i=1; firm.example;\r\n arc=none;\r\n" +
		" spf=pass smtp.mailfrom=a@client.example;\r\n dkim=pass header.d=client.example header.s=s\r\n"
	if !strings.HasSuffix(first.Fields, found) || first.Says != "ARC-sealed, i=1, cv=none" {
		t.Errorf("Seal = %s %q, want it to end with %s", first.Fields, first.Says, found)
	}
	for line := range strings.SplitSeq(first.Fields, "\r\n") {
		if len(line) > 78 {
			t.Errorf("a line has %d octets, want 78 at most: %s", len(line), line)
		}
	}
	fields, _ := parsed(t, raw)
	if _, err := s.Seal(t.Context(), z, fields, iotest.ErrReader(iotest.ErrTimeout), now); err == nil {
		t.Error("Seal with a body that cannot be read = nil, want an error")
	}
}
