package dmarc

import (
	"context"
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

// maxSignatures is how many are looked at: who writes a message decides how many there are.
const maxSignatures = 10

var (
	errNotAligned = errors.New("it is of another domain")
	errEd25519    = errors.New("it is Ed25519, which many receivers do not know")
	errTesting    = errors.New("its domain is testing: t=y")
	errIdentity   = errors.New("its identity is not of the very domain, as the key wants: t=s")
	errFuture     = errors.New("it is dated in the future")
)

// maxDrift is by how much clocks may differ.
const maxDrift = 5 * time.Minute

// ofEd25519 finds the tag k of a key record (RFC 8463 4), and flags its tag t (RFC 6376 3.6.1).
var (
	ofEd25519 = regexp.MustCompile(`(?:^|;)\s*k\s*=\s*ed25519\s*(?:;|$)`)
	flags     = regexp.MustCompile(`(?:^|;)\s*t\s*=([^;]*)`)
)

// flagged reports whether a key has a flag.
func flagged(key, flag string) bool {
	m := flags.FindStringSubmatch(key)
	return m != nil && slices.ContainsFunc(strings.Split(m[1], ":"), func(s string) bool { return strings.TrimSpace(s) == flag })
}

// signers are the domains whose keys are for identities of the very domain alone. A verifier asks for several keys at once.
type signers struct {
	mu     sync.Mutex
	strict map[string]bool
}

// usable is why receivers would not go by a key, which the library does not look at.
func (s *signers) usable(domain string, keys []string) error {
	for _, key := range keys {
		switch {
		case ofEd25519.MatchString(key):
			return errEd25519
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

// verify is the domain of a signature that verifies, anywhere, and is aligned; when there is none it is empty, and why says so. The
// error is the message's reader's.
func (j *Judge) verify(ctx context.Context, message io.Reader, aligned func(signer string) bool) (domain, why string, err error) {
	src := &patient{r: message}
	keys := &signers{strict: map[string]bool{}}
	found, failed := dkim.VerifyWithOptions(src, &dkim.VerifyOptions{
		MaxVerifications: maxSignatures,
		LookupTXT: func(name string) ([]string, error) {
			// The signer's name is a stranger's to choose: only what would count is asked for.
			_, signer, _ := strings.Cut(strings.ToLower(name), "._domainkey.")
			if !aligned(signer) {
				return nil, errNotAligned
			}
			// A message may ask for many keys at once. That all are silent is its author's fault, or doing.
			texts, err := j.dns.lookup(ctx, name, false)
			if err == nil {
				err = keys.usable(signer, texts)
			}
			return texts, err
		},
	})
	switch {
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

// patient reads to the end, and keeps an error for later: the verifier leaves its goroutines behind when it meets one.
type patient struct {
	r   io.Reader
	err error
}

func (p *patient) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err, err = err, io.EOF
	}
	return n, err
}
