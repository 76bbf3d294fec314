package config

import (
	"fmt"
	"net/netip"
	"regexp"
)

// Web is who may use the status page. The files are read when the page is started: a missing one
// must not stop the mail.
type Web struct {
	Users     string   `yaml:"users"`     // a file in the format of htpasswd
	Operators []string `yaml:"operators"` // users who may change something; * is all
	TLS       WebTLS   `yaml:"tls"`
	Proxy     WebProxy `yaml:"proxy"`
}

// Set reports whether the section says anything.
func (w Web) Set() bool {
	return w.Users != "" || w.TLS != (WebTLS{}) || len(w.Proxy.From) > 0
}

// WebTLS is the page's certificate.
type WebTLS struct {
	Cert string `yaml:"cert"` // a file with the certificate and those of its issuers
	Key  string `yaml:"key"`
}

// WebProxy is a reverse proxy that logs users in.
type WebProxy struct {
	From       []string `yaml:"from"`        // its addresses, or networks
	UserHeader string   `yaml:"user_header"` // in which it names the user
}

// Networks are From. Load has checked them.
func (p WebProxy) Networks() []netip.Prefix {
	var out []netip.Prefix
	for _, from := range p.From {
		if network, err := network(from); err == nil {
			out = append(out, network)
		}
	}
	return out
}

// network reads an address or a network.
func network(s string) (netip.Prefix, error) {
	if one, err := netip.ParseAddr(s); err == nil {
		one = one.Unmap()
		return one.Prefix(one.BitLen())
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

func (r *reader) web(w *Web) {
	for _, p := range []*string{&w.Users, &w.TLS.Cert, &w.TLS.Key} {
		*p = relativeTo(r.path, *p)
	}
	for i, name := range w.Operators {
		if name == "" {
			r.refuse(fmt.Sprintf("web.operators[%d]", i), "is empty; name a user, or * for all users")
		}
	}
	if (w.TLS.Cert == "") != (w.TLS.Key == "") && !r.hasErrorWithin("web.tls") && !r.unknown["web.tls"] {
		r.refuse("web.tls", "needs both: cert, a file with the certificate, and key, a file with its key")
	}
	for i, from := range w.Proxy.From {
		if _, err := network(from); err != nil {
			r.refuse(fmt.Sprintf("web.proxy.from[%d]", i), "%q is not a network; "+
				"write an address or a network, such as 192.0.2.7 or 10.0.0.0/8", from)
		}
	}
	if (len(w.Proxy.From) == 0) != (w.Proxy.UserHeader == "") &&
		!r.hasErrorWithin("web.proxy") && !r.unknown["web.proxy"] {
		r.refuse("web.proxy", "needs both: from, the addresses of the proxy, "+
			"and user_header, the header in which it names the user")
	}
	if w.Proxy.UserHeader != "" && !headerName.MatchString(w.Proxy.UserHeader) {
		r.refuse("web.proxy.user_header", "%q is not a header; write its name, such as X-Remote-User",
			w.Proxy.UserHeader)
	}
}
