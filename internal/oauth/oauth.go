// Package oauth gets OAuth2 tokens from Microsoft, Google and other OpenID providers.
//
// A person logs in once (Login), with a code on any device (RFC 8628) or in a browser (RFC 6749 4.1
// with PKCE, RFC 7636). The tokens are renewed without them (Renew), until the provider wants a
// login again. Applications that act for themselves need no login: client credentials (RFC 6749
// 4.4) and Google's service accounts (RFC 7523).
//
// Failures are of three kinds. *LoginError: a person has to log in. *AppError: the provider refuses
// the application, so the configuration or the registration is wrong. Everything else is temporary:
// the provider is down or cannot be reached.
//
// The package stores nothing, and no error of it contains a secret. It does not verify signatures:
// all it reads comes from the provider itself, over TLS (OpenID Connect Core 1.0, 3.1.3.7).
package oauth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"postrider/internal/proxy"
)

// Use is what a token is for.
type Use string

// The uses. Not every provider accepts a token for one use for the other.
const (
	IMAP Use = "imap"
	SMTP Use = "smtp"
)

// Flow is the way to a token.
type Flow string

// The flows. Helper is a program that prints a token.
const (
	Device         Flow = "device"
	Browser        Flow = "browser"
	Application    Flow = "application"
	ServiceAccount Flow = "service account"
	Helper         Flow = "token command"
)

// Names of the applications whose provider is built in.
const (
	Microsoft = "microsoft"
	Google    = "google"
)

// App is an application that is registered with a provider. It is safe for concurrent use.
type App struct {
	Name         string // in the configuration; Microsoft, Google, or any other with an Issuer
	ClientID     string
	ClientSecret string
	Tenant       string   // Microsoft's name for an organization; common when empty
	Issuer       string   // an URL (OpenID Connect Discovery 1.0); empty for Microsoft and Google
	Scopes       []string // in place of those that are built in
	Flow         Flow     // empty: by the provider
	Key          *Key     // of a Google service account; nil for none
	Command      []string // a program that prints a token, and its arguments; nil for none

	mu    sync.Mutex
	found *provider // discovered
}

// Way is the flow to use, as far as it is known without asking the provider.
func (a *App) Way() Flow {
	switch {
	case a.Command != nil:
		return Helper
	case a.Key != nil:
		return ServiceAccount
	case a.Flow != "":
		return a.Flow
	case a.Name == Google:
		return Browser // its devices do not get the scope for mail
	}
	return Device
}

// Personal reports whether a person has to log in.
func (a *App) Personal() bool { return a.Way() == Device || a.Way() == Browser }

// Token is an access token, and what it is renewed with.
type Token struct {
	Access   string
	Refresh  string
	Lifetime time.Duration // of the access token
}

func newToken(t *oauth2.Token) Token {
	lifetime := time.Hour // when the provider does not say, which RFC 6749 5.1 allows
	if !t.Expiry.IsZero() {
		lifetime = time.Until(t.Expiry)
	}
	return Token{Access: t.AccessToken, Refresh: t.RefreshToken, Lifetime: lifetime}
}

// patience is how long one request to a provider may take.
const patience = 30 * time.Second

// client follows no redirects: no endpoint of OAuth2 for programs has them, and what is sent holds
// secrets.
func withClient(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, httpClient)
}

var httpClient = &http.Client{
	Timeout:       patience,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
		DialContext:         dial,
		TLSHandshakeTimeout: patience,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	},
}

// dial goes through the proxy of the environment. The transport does not cancel ctx with the
// request.
func dial(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return proxy.Dialer{}.Dial(ctx, address)
}

// Secure reports whether an URL may get a secret: over TLS, or on this host.
func Secure(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

func (a *App) scopes(builtIn []string) []string {
	if len(a.Scopes) > 0 {
		return a.Scopes
	}
	return builtIn
}

// config is the application for the library.
func (a *App) config(p *provider, use Use) *oauth2.Config {
	return &oauth2.Config{
		ClientID: a.ClientID, ClientSecret: a.ClientSecret, Endpoint: p.endpoint, Scopes: a.scopes(p.scopes[use]),
	}
}

// same compares addresses and domains.
func same(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }

// OtherAccountError says that another account logged in than the one that was meant.
type OtherAccountError struct{ Who, Meant string }

func (e *OtherAccountError) Error() string {
	return fmt.Sprintf("%s logged in, and not %s", e.Who, e.Meant)
}

// Of fails with an *OtherAccountError when the provider says who logged in, and that is none of the
// names that the account may have.
func (g Grant) Of(names ...string) error {
	for _, n := range g.Names {
		if slices.ContainsFunc(names, func(name string) bool { return same(n, name) }) {
			return nil
		}
	}
	if len(g.Names) == 0 {
		return nil
	}
	return &OtherAccountError{Who: g.Names[0], Meant: names[0]}
}
