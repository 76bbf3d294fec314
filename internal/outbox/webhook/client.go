package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"postrider/internal/proxy"
)

const (
	maxRedirects = 3
	maxHeader    = 64 << 10 // octets
)

// newClient connects as guard allows. An http URL is never sent through a proxy: there is no way to
// tell whether the proxy would connect to an address inside. It speaks HTTP/1.1 alone: a request
// that gets no answer ends its connection there, and in HTTP/2 the next ones would go to the dead
// one.
func newClient(set Settings, g guard) *http.Client {
	dialer := proxy.Dialer{Proxy: set.Proxy, RootCAs: set.RootCAs, Control: g.control}
	if g.insideOnly {
		dialer.Proxy = "direct"
	}
	return &http.Client{
		CheckRedirect: redirect,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return dial(ctx, dialer, g, address)
			},
			TLSClientConfig:        &tls.Config{RootCAs: set.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost:    atOnce,
			IdleConnTimeout:        90 * time.Second,
			DisableCompression:     true, // a short text could become a very long one
		},
	}
}

// dial checks an address that is written as one before a proxy is asked for it. Control, which
// checks all others, is not called for a proxy.
func dial(ctx context.Context, dialer proxy.Dialer, g guard, address string) (net.Conn, error) {
	if to, err := netip.ParseAddrPort(address); err == nil {
		if err := g.check(to.Addr()); err != nil {
			return nil, err
		}
	}
	return dialer.Dial(ctx, address)
}

// redirect allows what keeps the method, the body, the host and the encryption.
func redirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	switch {
	case next.Method != first.Method: // 301, 302 and 303 make a GET of a POST, without its body
		return fmt.Errorf("it redirects to %s in a way that drops the event; set url to the new address",
			where(next.URL))
	case next.URL.Scheme != "https", next.URL.Host != first.URL.Host:
		return fmt.Errorf("it redirects to %s; only https on the same host is followed, set url to the new address",
			where(next.URL))
	case len(before) > maxRedirects:
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	}
	return nil
}

// where is a URL without what may be secret.
func where(u *url.URL) string { return u.Scheme + "://" + u.Host }
