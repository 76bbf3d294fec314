package dmarc

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-msgauth/dkim"
)

// maxSignatures is how many signatures are verified, from the top. OpenDKIM verifies no more by
// default.
const maxSignatures = 3

var (
	errNotAligned = errors.New("it is for another domain")
	errEd25519    = errors.New("it is Ed25519, which many receivers do not know")
	errTesting    = errors.New("its domain is in test mode: t=y")
	errIdentity   = errors.New("its identity is not of exactly its domain, as the key requires: t=s")
	errFuture     = errors.New("it is dated in the future")
	errBare       = errors.New("its key is not in the form that receivers read, SubjectPublicKeyInfo")
)

// maxKeyBits is the size of the largest RSA key that is used. The time of a verification grows with
// its square or more, and a stranger chooses the key.
const maxKeyBits = 8192

// maxDrift is how far clocks may differ.
const maxDrift = 5 * time.Minute

var (
	// The tag p of a key record (RFC 6376 3.6.1).
	keyData = regexp.MustCompile(`(?:^|;)\s*p\s*=([^;]*)`)
	// The tag k of a key record (RFC 8463 4), and its flags, the tag t (RFC 6376 3.6.1).
	ofEd25519 = regexp.MustCompile(`(?:^|;)\s*k\s*=\s*ed25519\s*(?:;|$)`)
	flags     = regexp.MustCompile(`(?:^|;)\s*t\s*=([^;]*)`)
)

// flagged reports whether a key has a flag.
func flagged(key, flag string) bool {
	m := flags.FindStringSubmatch(key)
	return m != nil && slices.ContainsFunc(strings.Split(m[1], ":"), func(s string) bool {
		return strings.TrimSpace(s) == flag
	})
}

// signers are the domains whose keys are only for identities of exactly the domain. A verifier asks
// for several keys at once.
type signers struct {
	mu     sync.Mutex
	strict map[string]bool
}

// usable is why receivers would not use a key, where the library does not check it.
func (s *signers) usable(domain string, keys []string) error {
	for _, key := range keys {
		switch {
		case ofEd25519.MatchString(key):
			return errEd25519
		case rsaBits(key) > maxKeyBits:
			return fmt.Errorf("its key has %d bits, and no key of more than %d is used", rsaBits(key), maxKeyBits)
		case bare(key):
			return errBare
		case flagged(key, "y"): // treated as if there were no signature
			return errTesting
		case flagged(key, "s"):
			s.mu.Lock()
			s.strict[domain] = true
			s.mu.Unlock()
		}
	}
	return nil
}

// bare reports whether a record has an RSA key in the form that the text of RFC 6376 3.6.1 defines
// (RFC 3447 A.1.1). In practice keys have the form of the examples there, and receivers read no
// other.
func bare(record string) bool {
	_, err := x509.ParsePKCS1PublicKey(keyOctets(record))
	return err == nil
}

// rsaBits is the size of the RSA key in a record; 0 when there is none.
func rsaBits(record string) int {
	if key, err := x509.ParsePKIXPublicKey(keyOctets(record)); err == nil {
		if key, ok := key.(*rsa.PublicKey); ok {
			return key.N.BitLen()
		}
	}
	return 0
}

// keyOctets are those of the key in a record; nil when there is none.
func keyOctets(record string) []byte {
	m := keyData.FindStringSubmatch(record)
	if m == nil {
		return nil
	}
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(m[1]), ""))
	if err != nil {
		return nil
	}
	return der
}

// fault is why a signature does not count.
func (s *signers) fault(v *dkim.Verification) error {
	_, identity, _ := strings.Cut(v.Identifier, "@")
	switch {
	case v.Err != nil:
		return v.Err
	case s.strict[strings.ToLower(v.Domain)] && !strings.EqualFold(identity, v.Domain):
		return errIdentity
	case v.Time.After(time.Now().Add(maxDrift)):
		return errFuture
	}
	return nil
}

// verify is the domain of a signature that verifies and is aligned. When there is none, or ctx ends
// before it is found, it is empty, and why is the reason. The error is that of the reader of the
// message.
func (j *Judge) verify(
	ctx context.Context, message io.Reader, aligned func(signer string) bool,
) (domain, why string, err error) {
	src := &wholeReader{ctx: ctx, r: message}
	keys := &signers{strict: map[string]bool{}}
	found, failed := dkim.VerifyWithOptions(src, &dkim.VerifyOptions{
		MaxVerifications: maxSignatures,
		LookupTXT: func(name string) ([]string, error) {
			// A stranger chooses the name of the signer: ask only for what would count.
			_, signer, _ := strings.Cut(strings.ToLower(name), "._domainkey.")
			if !aligned(signer) {
				return nil, errNotAligned
			}
			// A message may ask for many keys. Silence about all of them is not the fault of the
			// DNS.
			texts, err := j.dns.lookup(ctx, name, false)
			if err == nil {
				err = keys.usable(signer, texts)
			}
			return texts, err
		},
	})
	switch {
	case src.late:
		return "", "there was no time to verify its signatures", nil
	case src.err != nil:
		return "", "", fmt.Errorf("read a message to verify its signatures: %w", src.err)
	case failed != nil && !errors.Is(failed, dkim.ErrTooManySignatures):
		return "", "its signatures cannot be read", nil
	}
	why = "it has no DKIM signature of its domain"
	for _, v := range found {
		signer := strings.ToLower(v.Domain)
		if !aligned(signer) {
			continue
		}
		fault := keys.fault(v)
		if fault == nil {
			return signer, "", nil
		}
		why = fmt.Sprintf("the DKIM signature of %s does not verify (%s)", signer, reason(fault))
	}
	return "", why, nil
}

// wholeReader reads to the end, or until ctx ends, and keeps an error for later: the verifier leaks
// its goroutines when its reader fails.
type wholeReader struct {
	ctx  context.Context
	r    io.Reader
	err  error
	late bool // ctx has ended before the message
}

func (p *wholeReader) Read(b []byte) (int, error) {
	if p.late = p.ctx.Err() != nil; p.late {
		return 0, io.EOF
	}
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err, err = err, io.EOF
	}
	return n, err
}
