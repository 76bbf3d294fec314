package sink

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// address is the URL of a broker: scheme://user:password@host:port,host:port/path?parameters
type address struct {
	scheme, user, password string
	hosts                  []string // with ports
	path                   string   // without the first slash
	query                  url.Values
}

// parse reads a URL. Its errors do not show it, because it may have a password.
func parse(raw, defaultPort string, parameters ...string) (address, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	unreadable := fmt.Errorf("the url %s://... of the destination cannot be read; "+
		"write it as %s://user:password@host:port/... "+
		"In a password or a name, write all but letters, digits and - . _ ~ as %%XX: / as %%2F", scheme, scheme)
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.Contains(tail, "@") { // then the tail begins within the password
		return address{}, unreadable
	}
	login, hosts := "", authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		login, hosts = authority[:at+1], authority[at+1:]
	}
	a := address{scheme: scheme}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse(scheme + "://" + login + host + tail)
		if err != nil || u.Fragment != "" || strings.Contains(u.RawQuery, "+") || // which means a space
			u.Hostname() == "" && len(hosts) > 0 {
			return address{}, unreadable
		}
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		a.hosts = append(a.hosts, net.JoinHostPort(u.Hostname(), port))
		a.user, a.path, a.query = u.User.Username(), strings.TrimPrefix(u.Path, "/"), u.Query()
		a.password, _ = u.User.Password()
	}
	for name := range a.query {
		if !slices.Contains(parameters, name) {
			return address{}, fmt.Errorf("the url %s://... has the unknown parameter %q; use one of: %s",
				scheme, name, strings.Join(parameters, ", "))
		}
	}
	if hosts == "" && scheme != "awssns" {
		return address{}, errors.New("the url " + scheme + "://... has no host")
	}
	return a, nil
}

// name is what errors call the broker.
func (a address) name() string { return a.scheme + "://" + strings.Join(a.hosts, ",") }

// yes reads a parameter that is true or false.
func (a address) yes(name string) (bool, error) {
	switch value := a.query.Get(name); value {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, fmt.Errorf("the url %s://... has %s=%s; it must be true or false", a.scheme, name, value)
	}
}

// bareURL takes a URL out of an error: it may have a password.
func bareURL(err error) error {
	var shown *url.Error
	for errors.As(err, &shown) {
		err = shown.Err
	}
	return err
}

// number reads a parameter from least to most, otherwise if it is not there.
func (a address) number(name string, otherwise, least, most int64) (int64, error) {
	value := a.query.Get(name)
	if value == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("the url %s://... has %s=%s; it must be a number from %d to %d",
			a.scheme, name, value, least, most)
	}
	return n, nil
}
