package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"postrider/internal/text"
)

// Settings say who may use the page.
type Settings struct {
	Listen            string   // host:port
	UsersFile         string   // in the format of htpasswd; empty for none
	Operators         []string // users who may change something; * is all
	CertFile, KeyFile string
	ProxyFrom         []netip.Prefix // of the proxy that logs users in; empty for none
	ProxyHeader       string         // in which it names the user
	Key               []byte         // signs sessions
	Now               func() time.Time
	Log               *slog.Logger
}

// Access is who may use the page.
type Access struct {
	Settings
	users    *users       // nil: nobody logs in here
	cert     *certificate // nil: no TLS
	attempts *attempts
}

// Open checks the settings, and reads the files. It refuses what would be open to others.
func Open(s Settings) (*Access, error) {
	loopback, err := isLoopback(s.Listen)
	if err != nil {
		return nil, err
	}
	a := &Access{Settings: s, attempts: &attempts{now: s.Now}}
	proxied := len(s.ProxyFrom) > 0
	switch {
	case proxied && s.UsersFile != "":
		return nil, errors.New("web.users and web.proxy exclude each other: " +
			"either postrider or the proxy logs users in; remove one")
	case !loopback && !proxied && s.UsersFile == "":
		return nil, fmt.Errorf("%s can be reached from other hosts, and no login would be needed; "+
			"set web.users and web.tls, or web.proxy, or listen on 127.0.0.1", s.Listen)
	case !loopback && !proxied && s.CertFile == "":
		return nil, fmt.Errorf("%s can be reached from other hosts, and passwords would be sent unencrypted; "+
			"set web.tls, or listen on 127.0.0.1", s.Listen)
	}
	if s.UsersFile != "" {
		if a.users, err = openUsers(s.UsersFile); err != nil {
			return nil, fmt.Errorf("web.users: %w", err)
		}
	}
	if s.CertFile != "" {
		if a.cert, err = openCertificate(s); err != nil {
			return nil, fmt.Errorf("web.tls: %w", err)
		}
	}
	return a, nil
}

// UnknownOperators are those who are not in the file of users.
func (a *Access) UnknownOperators() (names []string) {
	if a.users == nil {
		return nil
	}
	for _, name := range a.Operators {
		if hash, _ := a.users.hash(name); hash == nil && name != "*" {
			names = append(names, name)
		}
	}
	return names
}

// isLoopback reports whether only this host can reach an address.
func isLoopback(listen string) (bool, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" {
		return false, fmt.Errorf("%q is not an address to listen on; write it like 127.0.0.1:8420", listen)
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback(), nil
}

// TLS is the configuration for the listener; nil without a certificate.
func (a *Access) TLS() *tls.Config {
	if a.cert == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.cert.get}
}

// user is who makes a request.
type user struct {
	Name      string // empty: nobody has to log in
	Operator  bool
	LoggedOut bool // can log out: by a session
}

// who is for the audit trail.
func (u user) who() string {
	if u.Name == "" {
		return "the status page (no login)"
	}
	return u.Name + " (status page)"
}

// errLogin says that a user has to log in.
var errLogin = &failure{http.StatusUnauthorized, "Log in first."}

// identify says who makes a request. Names and passwords are taken of programs only, not of pages.
func (a *Access) identify(r *http.Request) (user, error) {
	switch {
	case len(a.ProxyFrom) > 0:
		return a.proxied(r)
	case a.users == nil:
		return user{Operator: true}, nil
	}
	if name, ok := a.session(r); ok {
		return user{Name: name, Operator: a.operates(name), LoggedOut: true}, nil
	}
	name, password, given := r.BasicAuth()
	if !given || !forPrograms(r) {
		return user{}, errLogin
	}
	if err := a.logIn(r, name, password); err != nil {
		return user{}, err
	}
	return user{Name: name, Operator: a.operates(name)}, nil
}

// proxied is who the proxy says.
func (a *Access) proxied(r *http.Request) (user, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := from.Addr().Unmap().WithZone("")
	trusted := err == nil && slices.ContainsFunc(a.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(addr) })
	if !trusted {
		return user{}, &failure{
			http.StatusForbidden, "This page can be reached only through its proxy (web.proxy.from).",
		}
	}
	names := r.Header.Values(a.ProxyHeader)
	if len(names) != 1 || !validName(names[0]) {
		return user{}, &failure{http.StatusForbidden, "The proxy does not say who you are (web.proxy.user_header)."}
	}
	return user{Name: names[0], Operator: a.operates(names[0])}, nil
}

func (a *Access) operates(name string) bool {
	return slices.Contains(a.Operators, name) || slices.Contains(a.Operators, "*")
}

// maxName is the length of the longest name of a user, in octets.
const maxName = 100

// validName reports whether a name of a user is one printable line.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && name == text.Line(name)
}

// forPrograms reports whether a request is for data, and not for a page.
func forPrograms(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics"
}

// knownHost reports whether a request may name the host as it does (in its field Host). A page that
// needs no login accepts only localhost and loopback addresses: any other name may be that of a
// foreign site, made to lead here (DNS rebinding).
func (a *Access) knownHost(r *http.Request) bool {
	if a.users != nil || len(a.ProxyFrom) > 0 {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
