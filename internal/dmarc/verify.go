package dmarc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/emersion/go-msgauth/dkim"
)

// maxSignatures is how many are looked at: who writes a message decides how many there are.
const maxSignatures = 10

var (
	errNotAligned = errors.New("it is of another domain")
	errEd25519    = errors.New("it is Ed25519, which many receivers do not know")
)

// ofEd25519 finds the tag k of a key record (RFC 8463 4).
var ofEd25519 = regexp.MustCompile(`(?:^|;)\s*k\s*=\s*ed25519\s*(?:;|$)`)

// verify is the domain of a signature that verifies, anywhere, and is aligned; when there is none it is empty, and why says so. The
// error is the message's reader's.
func (j *Judge) verify(ctx context.Context, message io.Reader, aligned func(signer string) bool) (domain, why string, err error) {
	src := &patient{r: message}
	found, failed := dkim.VerifyWithOptions(src, &dkim.VerifyOptions{
		MaxVerifications: maxSignatures,
		LookupTXT: func(name string) ([]string, error) {
			// The signer's name is a stranger's to choose: only what would count is asked for.
			if _, signer, _ := strings.Cut(name, "._domainkey."); !aligned(strings.ToLower(signer)) {
				return nil, errNotAligned
			}
			// A message may ask for many keys at once. That all are silent is its author's fault, or doing.
			texts, err := j.dns.lookup(ctx, name, false)
			if slices.ContainsFunc(texts, ofEd25519.MatchString) {
				return nil, errEd25519
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
		switch {
		case !aligned(signer):
		case v.Err == nil:
			return signer, "", nil
		default:
			why = fmt.Sprintf("the DKIM signature of %s does not verify (%s)", signer, reason(v.Err))
		}
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
