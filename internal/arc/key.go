package arc

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"postrider/internal/dkim"
)

// fault is why something does not verify. Temporary faults are those of the DNS; the word is what
// Authentication-Results call the result (RFC 8601 2.7.1).
type fault struct{ result, why string }

func (f *fault) Error() string { return f.why }

const (
	resultFail      = "fail"      // it does not verify
	resultPermanent = "permerror" // it never will, because the signature or the key is invalid
	resultTemporary = "temperror" // the DNS does not answer
	resultPolicy    = "policy"    // it is not accepted
	resultNeutral   = "neutral"   // it does not count
)

func permanent(format string, args ...any) *fault {
	return &fault{resultPermanent, fmt.Sprintf(format, args...)}
}

// tags are a list of tags (RFC 6376 3.2). A tag that is given with an empty value is not the same
// as one that is not given.
type tags map[string]string

// tagName is what a tag can be called.
var tagName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// white is folding white space (RFC 6376 2.8).
const white = " \t\r\n"

func parseTags(list string) (tags, bool) {
	out := tags{}
	parts := strings.Split(list, ";")
	for i, part := range parts {
		name, value, found := strings.Cut(part, "=")
		name = strings.Trim(name, white)
		if !found && name == "" && i > 0 && i == len(parts)-1 {
			break
		}
		if _, twice := out[name]; !found || twice || !tagName.MatchString(name) {
			return nil, false
		}
		out[name] = tagValue(name, value)
	}
	return out, true
}

// tagValue is a value without the white space that does not count: in base64 and in an identity,
// and around the colons of lists. Elsewhere it counts, so that "t=1 2" is not a number.
func tagValue(name, value string) string {
	switch name {
	case "b", "bh", "p", "i":
		return strings.Join(strings.FieldsFunc(value, isWhite), "")
	}
	items := strings.Split(value, ":")
	for i := range items {
		items[i] = strings.Trim(items[i], white)
	}
	return strings.Join(items, ":")
}

func isWhite(r rune) bool { return strings.ContainsRune(white, r) }

// allows reports whether a tag is not there, or is a list with one of the items.
func (t tags) allows(name string, items ...string) bool {
	return !t.given(name) || t.has(name, items...)
}

// has reports whether a tag is a list with one of the items.
func (t tags) has(name string, items ...string) bool {
	return slices.ContainsFunc(strings.Split(t[name], ":"), func(s string) bool { return slices.Contains(items, s) })
}

func (t tags) given(name string) bool { _, given := t[name]; return given }

// or is the value of a tag, or its default when it is not given.
func (t tags) or(name, value string) string {
	if given, ok := t[name]; ok {
		return given
	}
	return value
}

// publicKey is a key with what its record says about its use (RFC 6376 3.6.1).
type publicKey struct {
	key     crypto.PublicKey
	testing bool // t=y
	strict  bool // t=s
}

// maxKeyBits is the size of the largest RSA key that is used, and minKeyBits of the smallest (RFC
// 8301 3.2).
const maxKeyBits, minKeyBits = 8192, 1024

// lookUp asks for a key.
func lookUp(ctx context.Context, dns Resolver, domain, selector string) (*publicKey, *fault) {
	if !isName(domain) || !isName(selector) {
		return nil, permanent("its domain or selector is not a name in the DNS")
	}
	texts, err := dns.LookupTXT(ctx, selector+"._domainkey."+domain)
	no, ok := errors.AsType[*net.DNSError](err)
	switch {
	case ok && no.IsNotFound:
		return nil, permanent("%s has no key %s", domain, selector)
	case err != nil:
		return nil, &fault{resultTemporary, fmt.Sprintf("the key of %s could not be looked up: %v", domain, err)}
	case len(texts) != 1:
		return nil, permanent("%s has %d records for the key %s", domain, len(texts), selector)
	}
	return parseKey(texts[0])
}

func parseKey(record string) (*publicKey, *fault) {
	t, ok := parseTags(record)
	if !ok {
		return nil, permanent("the record of its key cannot be read")
	}
	switch {
	case t.or("v", "DKIM1") != "DKIM1", !t.allows("h", "sha256"), !t.allows("s", "email", "*"):
		return nil, permanent("its key is for something else")
	case t["p"] == "":
		return nil, permanent("its key was revoked")
	}
	der, err := base64.StdEncoding.DecodeString(t["p"])
	if err != nil {
		return nil, permanent("its key cannot be read")
	}
	out := &publicKey{testing: t.has("t", "y"), strict: t.has("t", "s")}
	switch t.or("k", "rsa") {
	case "rsa":
		key, why := parseRSA(der)
		out.key = key
		return out, why
	case "ed25519":
		if len(der) == ed25519.PublicKeySize {
			out.key = ed25519.PublicKey(der)
			return out, nil
		}
	}
	return nil, permanent("its key cannot be read")
}

// parseRSA takes both forms that are in use (RFC 6376 erratum 3017).
func parseRSA(der []byte) (*rsa.PublicKey, *fault) {
	key, err := x509.ParsePKCS1PublicKey(der)
	if err != nil {
		public, _ := x509.ParsePKIXPublicKey(der)
		key, _ = public.(*rsa.PublicKey)
	}
	switch {
	case key == nil:
		return nil, permanent("its key cannot be read")
	case key.N.BitLen() < minKeyBits || key.N.BitLen() > maxKeyBits:
		return nil, permanent("its key has %d bits, and only keys of %d to %d are used",
			key.N.BitLen(), minKeyBits, maxKeyBits)
	}
	return key, nil
}

// verify checks a signature over text. Algorithm is the tag a=.
func (k *publicKey) verify(algorithm, text string, signature []byte) *fault {
	sum := sha256.Sum256([]byte(text))
	valid := false
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		if algorithm != "rsa-sha256" {
			return permanent("its algorithm is not that of its key")
		}
		valid = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case ed25519.PublicKey:
		if algorithm != "ed25519-sha256" {
			return permanent("its algorithm is not that of its key")
		}
		valid = ed25519.Verify(key, sum[:], signature)
	}
	if !valid {
		return &fault{resultFail, "its signature does not verify"}
	}
	return nil
}

// isName reports whether s can be asked for in the DNS, and written into a header.
func isName(s string) bool {
	return s != "" && len(s) <= 200 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	})
}

// Published fails unless the DNS has the record of a key, so that its signatures verify.
func Published(ctx context.Context, dns Resolver, key *dkim.Key) error {
	name, record := key.Record()
	own, why := parseKey(record)
	if why != nil {
		return why
	}
	found, why := lookUp(ctx, dns, key.Domain, key.Selector)
	switch {
	case why != nil && why.result == resultTemporary:
		return fmt.Errorf("the TXT record %s is not known: %s", name, why.why)
	case why != nil:
		return fmt.Errorf("the TXT record %s is not usable (%s); it has to be: %s", name, why.why, record)
	case !own.key.(*rsa.PublicKey).Equal(found.key):
		return fmt.Errorf("the TXT record %s has another key; it has to be: %s", name, record)
	case found.testing:
		return fmt.Errorf("the TXT record %s is marked as a test (t=y), so that signatures do not count; "+
			"it has to be: %s", name, record)
	}
	return nil
}
