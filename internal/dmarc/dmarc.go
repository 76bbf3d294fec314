// Package dmarc foresees what a receiver makes of a message that is redirected with its author's From (RFC 7489).
//
// A redirect passes DMARC by a DKIM signature alone that is aligned with the domain in From and still verifies: SPF is
// about the relay, which is not the author's. Where the domain publishes no policy, or p=none, nothing has to pass.
//
// Redirectable says yes only when it knows. When the DNS does not answer, or says what cannot be read, a redirect is
// right only if a signature of the very domain verifies: that passes, whatever the policy is.
//
// A Judge is for one pass: it asks for each name once, and remembers every answer; for one that got none it asks again after a
// minute. It waits for at most Patience for all it asks about one message, and asks nothing for a minute when the DNS has
// been silent about several domains in a row. That the DNS is down is never an error.
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

// Patience is what the questions about one message may take, all together.
const Patience = 5 * time.Second

// Judge foresees. It may be used from several goroutines at once.
type Judge struct{ dns *cache }

// NewJudge is a judge that asks dns.
func NewJudge(dns Resolver) *Judge { return &Judge{newCache(dns)} }

// Verdict is whether a message may be redirected, and why or why not, for a person.
type Verdict struct {
	Redirect bool
	Why      string
}

// Redirectable judges a message as it would go out; domain is that of its From, in ASCII. Its header has to have an end
// and to be small, since it is held in memory. It fails when the message cannot be read, and for nothing else.
func (j *Judge) Redirectable(ctx context.Context, domain string, message io.Reader) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	p := j.policy(ctx, domain)
	if !p.enforced {
		return Verdict{true, p.says}, nil
	}
	verified, why, err := j.verify(ctx, message, func(signer string) bool { return p.aligned(domain, signer) })
	switch {
	case err != nil:
		return Verdict{}, err
	case verified != "":
		return Verdict{true, fmt.Sprintf("%s, and a redirect passes by the DKIM signature of %s", p.says, verified)}, nil
	}
	return Verdict{false, fmt.Sprintf("%s, and nothing lets a redirect pass: %s", p.says, why)}, nil
}

// Policy says what policy a domain has, for a person. It fails when the DNS does not say.
func (j *Judge) Policy(ctx context.Context, domain string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	p := j.policy(ctx, domain)
	if p.unknown {
		return "", errors.New(p.says)
	}
	return p.says, nil
}

// policy is what receivers are asked to do with mail of a domain that does not pass.
type policy struct {
	unknown  bool
	enforced bool // or it may be
	strict   bool // a signature has to be of the very domain
	says     string
}

// policy asks for the record of the domain, and then for that of the organisation it belongs to (RFC 7489 6.6.3).
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
			return policy{true, true, true, fmt.Sprintf("the DMARC policy of %s is not known (%s)", domain, reason(err))}
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

// version is how a DMARC record begins (RFC 7489 6.4), and nothing else does.
var version = regexp.MustCompile(`^[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)`)

// theRecord is the DMARC record among texts, as the library reads it; none when there is none. With several, receivers apply no
// policy (RFC 7489 6.6.3), or whichever comes first.
func theRecord(texts []string) ([]string, error) {
	var found []string
	for _, t := range texts {
		if at := version.FindStringIndex(t); at != nil {
			found = append(found, "v=DMARC1;"+t[at[1]:])
		}
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("there are %d records", len(found))
	}
	return found, nil
}

// aligned: RFC 7489 3.1.1.
func (p policy) aligned(domain, signer string) bool {
	return domain == signer || !p.strict && Aligned(domain, signer)
}

// Aligned reports whether a signature of a domain counts for mail from another one, unless a policy says that it has to be of the
// very domain: whether both are of one organisation.
func Aligned(domain, signer string) bool {
	return organisation(strings.ToLower(domain)) == organisation(strings.ToLower(signer))
}

// organisation is the organisational domain (RFC 7489 3.2): the public suffix and one label more. A public suffix itself
// stands for itself.
func organisation(domain string) string {
	if org, err := publicsuffix.EffectiveTLDPlusOne(domain); err == nil {
		return org
	}
	return domain
}

// reason is an error's, short.
func reason(err error) string {
	text := err.Error()
	for _, known := range []string{"dmarc: ", "dkim: ", "TXT record unavailable: ", "failed to lookup TXT record: "} {
		text = strings.TrimPrefix(text, known)
	}
	return text
}
