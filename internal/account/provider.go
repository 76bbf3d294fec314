package account

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// Provider is the large provider of addresses at domain, in the form of the DNS: the built-in
// settings know the domain, or the host that its mail goes to. It is nil for an unknown one, and
// when the DNS does not answer.
func (f Finder) Provider(ctx context.Context, domain string) *Found {
	if p := byDomain(domain); p != nil {
		return p.found("the built-in settings of " + p.Name)
	}
	if strings.HasPrefix(domain, "[") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.Timeout, 10*time.Second))
	defer cancel()
	found, _ := f.mx(ctx, domain)
	return found
}
