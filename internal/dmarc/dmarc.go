// Package dmarc predicts what receivers do with a message that is redirected with its author's From
// (RFC 7489).
//
// A redirect passes DMARC only by a DKIM signature that is aligned with the domain in From and
// still verifies: SPF is about the relay, which is not the author's. When the domain publishes no
// policy, or p=none, nothing has to pass.
//
// Redirectable says yes only when it knows. When the DNS does not answer, or its answer cannot be
// read, it says yes only if a signature of exactly that domain verifies: such a message passes
// under any policy.
//
// A Judge is for one pass. It asks for each name once and keeps the answer; a name without an
// answer is asked for again after a minute. All questions about one message take Patience at most.
// When the DNS was silent about several domains in a row, the Judge asks nothing for a minute. A
// DNS that is down is never an error.
package dmarc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/emersion/go-msgauth/dmarc"
	"golang.org/x/net/publicsuffix"
)

// Resolver is *net.Resolver.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Patience is what all questions about one message may take together.
const Patience = 5 * time.Second

// Judge predicts. It is safe for concurrent use.
type Judge struct{ dns *cache }

// NewJudge is a judge that asks dns.
func NewJudge(dns Resolver) *Judge { return &Judge{newCache(dns)} }

// Verdict says whether a message may be redirected, and why or why not.
type Verdict struct {
	Redirect bool
	Signer   string // whose signature lets it pass; empty when nothing has to pass
	Why      string
}

// Redirectable judges a message as it would go out; domain is that of its From, in ASCII. The
// header must have an end and be small: it is held in memory. It fails only when the message cannot
// be read.
func (j *Judge) Redirectable(ctx context.Context, domain string, message io.Reader) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	p := j.policy(ctx, domain)
	if !p.enforced {
		return Verdict{Redirect: true, Why: p.says}, nil
	}
	verified, why, err := j.verify(ctx, message, func(signer string) bool { return p.aligned(domain, signer) })
	switch {
	case err != nil:
		return Verdict{}, err
	case verified != "":
		says := fmt.Sprintf("%s, and a redirect passes by the DKIM signature of %s", p.says, verified)
		return Verdict{true, verified, says}, nil
	}
	return Verdict{Why: fmt.Sprintf("%s, and nothing lets a redirect pass: %s", p.says, why)}, nil
}

// Policy says which policy a domain has. It fails when the DNS does not say.
func (j *Judge) Policy(ctx context.Context, domain string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	p := j.policy(ctx, domain)
	if p.unknown {
		return "", errors.New(p.says)
	}
	return p.says, nil
}

// policy is what receivers are asked to do with mail of a domain that does not pass DMARC.
type policy struct {
	unknown  bool
	enforced bool // or it may be
	strict   bool // a signature has to be of exactly the domain
	says     string
}

// policy asks for the record of the domain, and then for that of its organisation (RFC 7489 6.6.3).
func (j *Judge) policy(ctx context.Context, domain string) policy {
	names := []string{domain}
	if org := organisation(domain); org != domain {
		names = append(names, org)
	}
	for _, name := range names {
		record, err := dmarc.LookupWithOptions(name, &dmarc.LookupOptions{
			LookupTXT: func(name string) ([]string, error) {
				texts, err := j.dns.lookup(ctx, name, true)
				if err != nil {
					return nil, err
				}
				return theRecord(texts)
			},
		})
		switch {
		case errors.Is(err, dmarc.ErrNoPolicy):
			continue
		case err != nil:
			says := fmt.Sprintf("the DMARC policy of %s is not known (%s)", domain, reason(err))
			return policy{true, true, true, says}
		}
		asks := record.Policy
		if name != domain && record.SubdomainPolicy != "" {
			asks = record.SubdomainPolicy
		}
		return policy{
			enforced: asks != dmarc.PolicyNone, strict: record.DKIMAlignment == dmarc.AlignmentStrict,
			says: fmt.Sprintf("the DMARC policy of %s is %s", domain, asks),
		}
	}
	return policy{says: domain + " has no DMARC policy"}
}

// version is how a DMARC record begins (RFC 7489 6.4). Some receivers remove white space before it.
var version = regexp.MustCompile(`^[ \t]*[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)`)

// theRecord returns the DMARC record among texts, in the form that the library reads, or nothing if
// there is none. Several records are an error: receivers then apply no policy (RFC 7489 6.6.3), or
// that of one of them. A text that has the version, but not at its beginning, is an error, too,
// because some receivers take it for a record.
func theRecord(texts []string) ([]string, error) {
	var found []string
	for _, t := range texts {
		if at := version.FindStringIndex(t); at != nil {
			found = append(found, "v=DMARC1;"+t[at[1]:])
		} else if strings.Contains(t, "DMARC1") {
			return nil, errors.New("there is a record that does not begin with v=DMARC1;")
		}
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("there are %d records", len(found))
	}
	return found, nil
}

// aligned reports whether a signature counts for a domain (RFC 7489 3.1.1).
func (p policy) aligned(domain, signer string) bool {
	return domain == signer || !p.strict && Aligned(domain, signer)
}

// Aligned reports whether both domains are of one organisation: then a signature of the one counts
// for mail of the other, unless the policy is strict.
func Aligned(domain, signer string) bool {
	return organisation(strings.ToLower(domain)) == organisation(strings.ToLower(signer))
}

// organisation is the organisational domain (RFC 7489 3.2): the public suffix and one label more.
// For a public suffix it is the suffix itself.
func organisation(domain string) string {
	if org, err := publicsuffix.EffectiveTLDPlusOne(domain); err == nil {
		return org
	}
	return domain
}

// reason is the text of an error without the prefixes of the library.
func reason(err error) string {
	text := err.Error()
	for _, known := range []string{"dmarc: ", "dkim: ", "TXT record unavailable: ", "failed to lookup TXT record: "} {
		text = strings.TrimPrefix(text, known)
	}
	return text
}
