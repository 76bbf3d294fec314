package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// Resolver asks the DNS, *net.Resolver.
type Resolver interface {
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Finder finds the IMAP server of a domain.
type Finder struct {
	DNS     Resolver
	HTTP    http.RoundTripper
	Timeout time.Duration // for all questions together; 10 s when zero
}

// Found is a server that a domain seems to have, and who says so.
type Found struct {
	IMAP   Server
	Source string  // "the built-in settings of Yahoo", "the SRV record _imaps._tcp.firm.example"
	Preset *Preset // nil for a server of no large provider
	// Foreign says that the DNS alone names a server outside of the domain: whoever can forge an
	// answer chooses who gets the password, so a person has to agree (RFC 6186 6).
	Foreign bool
	// LocalPart says that the login is the part of the address before the @.
	LocalPart bool
}

// NotFoundError says that no server was found.
type NotFoundError struct {
	Domain string
	Tried  []string // what was asked, and why the answer is of no use
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no IMAP server was found for %s (%s)", e.Domain, strings.Join(e.Tried, "; "))
}

// question is one way to find a server. Its error says what was asked.
type question func(ctx context.Context, domain string) (*Found, error)

// Find looks for the IMAP server of addresses at domain, in the form of the DNS. All questions are
// asked at once, and the first of this order counts that has an answer: the presets, MX, SRV,
// autoconfig. The error is a *NotFoundError, or the context's.
func (f Finder) Find(ctx context.Context, domain string) (Found, error) {
	return f.first(ctx, domain,
		f.mx, f.srv("imaps", "tls"), f.srv("imap", "starttls"),
		f.autoconfig("https://autoconfig.%s/mail/config-v1.1.xml"),
		f.autoconfig("https://%s/.well-known/autoconfig/mail/config-v1.1.xml"))
}

// Provider is Find for domains of large providers: only the presets and MX count. What it finds has
// a Preset.
func (f Finder) Provider(ctx context.Context, domain string) (Found, error) {
	return f.first(ctx, domain, f.mx)
}

func (f Finder) first(ctx context.Context, domain string, questions ...question) (Found, error) {
	if p := byDomain(domain); p != nil {
		return *p.found("the built-in settings of " + p.Name), nil
	}
	if strings.HasPrefix(domain, "[") {
		return Found{}, &NotFoundError{Domain: domain, Tried: []string{"it is an IP address"}}
	}
	asking, cancel := context.WithTimeout(ctx, cmp.Or(f.Timeout, 10*time.Second))
	defer cancel()
	type answer struct {
		found *Found
		err   error
	}
	var answers []chan answer
	for _, ask := range questions {
		c := make(chan answer, 1)
		answers = append(answers, c)
		go func() {
			found, err := ask(asking, domain)
			c <- answer{found, err}
		}()
	}
	nothing := &NotFoundError{Domain: domain}
	for _, c := range answers {
		a := <-c
		switch {
		case ctx.Err() != nil:
			return Found{}, ctx.Err()
		case a.err == nil:
			return *a.found, nil
		}
		nothing.Tried = append(nothing.Tried, a.err.Error())
	}
	return Found{}, nothing
}

// found is where the preset's server is.
func (p *Preset) found(source string) *Found { return &Found{IMAP: p.IMAP, Source: source, Preset: p} }

// mx asks where the domain's mail goes. Only the most preferred hosts count: the others may be left
// over from another provider.
func (f Finder) mx(ctx context.Context, domain string) (*Found, error) {
	hosts, err := f.DNS.LookupMX(ctx, domain+".")
	if len(hosts) == 0 {
		return nil, noRecord("MX", "", err)
	}
	best := slices.MinFunc(hosts, func(a, b *net.MX) int {
		return cmp.Or(cmp.Compare(a.Pref, b.Pref), cmp.Compare(a.Host, b.Host))
	})
	host := canonical(best.Host)
	if p := byMX(host); p != nil {
		return p.found(fmt.Sprintf("the MX of %s, %s, which is of %s", domain, host, p.Name)), nil
	}
	return nil, fmt.Errorf("MX: %q is of no known provider", host)
}

// srv asks for the SRV record of RFC 6186 3.2.
func (f Finder) srv(service, security string) question {
	return func(ctx context.Context, domain string) (*Found, error) {
		name := "_" + service + "._tcp." + domain
		_, records, err := f.DNS.LookupSRV(ctx, service, "tcp", domain+".")
		if len(records) == 0 {
			return nil, noRecord("SRV", name, err)
		}
		best := slices.MinFunc(records, func(a, b *net.SRV) int {
			return cmp.Or(
				cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Target, b.Target),
			)
		})
		host := canonical(best.Target)
		switch {
		case host == "": // RFC 6186 3.4
			return nil, fmt.Errorf("SRV %s: the domain says that it has no such service", name)
		case best.Port == 0 || !hostname(host):
			return nil, fmt.Errorf("SRV %s: %q port %d is not a server", name, host, best.Port)
		}
		known := byHost(host)
		return &Found{
			IMAP: Server{host, int(best.Port), security}, Source: "the SRV record " + name,
			Preset: known, Foreign: known == nil && !related(host, domain),
		}, nil
	}
}

// noRecord says why the DNS has no record of a kind, "no MX record" or "SRV NAME: cause".
func noRecord(kind, name string, err error) error {
	var dns *net.DNSError
	switch {
	case err == nil, errors.As(err, &dns) && dns.IsNotFound:
		return errors.New(strings.TrimSpace("no " + kind + " record " + name))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &dns) && dns.IsTimeout:
		err = errors.New("the DNS does not answer in time")
	case dns != nil:
		err = errors.New(dns.Err)
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(kind+" "+name), err)
}

// related reports whether two names belong to the same registered domain.
func related(a, b string) bool { return registered(a) == registered(b) }

func registered(name string) string {
	name = canonical(name)
	if org, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return org
	}
	return name
}

// hostname reports whether s is a name that a server can have.
func hostname(s string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}
	return s != "" && len(s) <= 253 && !strings.ContainsFunc(s, odd) && !strings.Contains(s, "..") &&
		s[0] != '.' && s[0] != '-'
}
