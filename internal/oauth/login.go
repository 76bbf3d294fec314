package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// Person is who logs in.
type Person interface {
	// Enter has them open a page, on any device, and enter a code there.
	Enter(page, code string, until time.Time)
	// Visit has them open a page in a browser on this host.
	Visit(page string)
	// Paste has them open a page in any browser, and returns the address at which it ended.
	Paste(ctx context.Context, page string) (string, error)
}

// Grant is the result of a login.
type Grant struct {
	Token Token
	Names []string // of the account that logged in; empty when the provider does not say
}

// loginPatience is how long a browser may take to come back.
const loginPatience = 10 * time.Minute

// Login lets a person log in. hint is the account's name. If here is false, the browser may be on
// another host, and the person pastes the address at which it ended.
func (a *App) Login(ctx context.Context, use Use, hint string, person Person, here bool) (Grant, error) {
	if !a.Personal() {
		return Grant{}, fmt.Errorf("oauth.%s needs no login: it gets its tokens by %s", a.Name, a.Way())
	}
	ctx = withClient(ctx)
	p, err := a.provider(ctx)
	if err != nil {
		return Grant{}, a.explain(err)
	}
	var got *oauth2.Token
	switch {
	case a.Way() == Device && p.endpoint.DeviceAuthURL != "":
		got, err = a.device(ctx, a.config(p, use), person)
	case p.endpoint.AuthURL == "":
		return Grant{}, a.wrong("issuer", "it has no page to log in at", "use flow: application")
	default:
		got, err = a.browser(ctx, a.config(p, use), p, hint, person, here)
	}
	if err != nil {
		return Grant{}, a.explain(err)
	}
	if got.RefreshToken == "" {
		return Grant{}, a.wrong("scopes", "the login gave no refresh token, so it would end with the access token",
			"remove them, or add offline_access; the registration has to allow refresh tokens")
	}
	return Grant{Token: newToken(got), Names: names(ctx, p, got)}, nil
}

func (a *App) device(ctx context.Context, config *oauth2.Config, person Person) (*oauth2.Token, error) {
	code, err := config.DeviceAuth(ctx)
	if err != nil {
		return nil, err
	}
	if !Secure(code.VerificationURI) {
		return nil, fmt.Errorf("its page to log in at is %q, which is not https", clean(code.VerificationURI))
	}
	if code.Interval < 1 || code.Interval > 600 {
		code.Interval = 5 // the default of RFC 8628 3.2; the library would panic below 0
	}
	person.Enter(code.VerificationURI, clean(code.UserCode), code.Expiry)
	ctx, cancel := context.WithTimeoutCause(ctx, devicePatience, errLate)
	defer cancel()
	for {
		got, err := config.DeviceAccessToken(ctx, code)
		var refused *oauth2.RetrieveError
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &refused) && refused.ErrorCode == "expired_token":
			return nil, errLate
		case err == nil || errors.As(err, &refused) && !busy(refused):
			return got, err
		case !code.Expiry.IsZero() && !time.Now().Before(code.Expiry):
			return nil, errLate
		}
		// The provider could not be reached, or has trouble. It is asked less often then (RFC 8628
		// 3.5), also because the library forgets how often it said slow_down.
		code.Interval += 5
	}
}

// devicePatience is how long a code is waited for, whatever the provider says.
const devicePatience = time.Hour

var errLate = &LoginError{Reason: "the code was not entered in time; log in again for a new one"}

func (a *App) browser(
	ctx context.Context, config *oauth2.Config, p *provider, hint string, person Person, here bool,
) (*oauth2.Token, error) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = port.Close() }()
	config.RedirectURL = fmt.Sprintf("%s:%d", p.redirect, port.Addr().(*net.TCPAddr).Port)
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	options := append(p.login, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("login_hint", hint))
	page := config.AuthCodeURL(state, options...)

	late := &LoginError{Reason: fmt.Sprintf("the browser did not come back within %.0f minutes; "+
		"log in again, with --no-browser if it is on another host", loginPatience.Minutes())}
	ctx, cancel := context.WithTimeoutCause(ctx, loginPatience, late)
	defer cancel()
	var back url.Values
	if here {
		person.Visit(page)
		back, err = returned(ctx, port, state)
	} else {
		back, err = pasted(ctx, person, page, state)
	}
	if err != nil {
		return nil, err
	}
	if code := back.Get("error"); code != "" {
		return nil, &oauth2.RetrieveError{ErrorCode: code, ErrorDescription: back.Get("error_description")}
	}
	return config.Exchange(ctx, back.Get("code"), oauth2.VerifierOption(verifier))
}

var (
	errOther = &LoginError{Reason: "the address belongs to another login (its state differs); " +
		"use the page that was shown last"}
	errNone = &LoginError{Reason: "this is not the address at which the login ended; " +
		"it begins with http://localhost or http://127.0.0.1 and has code= in it"}
)

// answer reads the address at which a login ended (RFC 6749 4.1.2).
func answer(back url.Values, state string) (url.Values, error) {
	switch {
	case back.Get("code") == "" && back.Get("error") == "":
		return nil, errNone
	case back.Get("state") != state:
		return nil, errOther
	}
	return back, nil
}

func pasted(ctx context.Context, person Person, page, state string) (url.Values, error) {
	address, err := person.Paste(ctx, page)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &LoginError{Reason: err.Error()}
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, errNone
	}
	return answer(u.Query(), state)
}

// returned waits for the browser. Other requests, such as for an icon, get an error page.
func returned(ctx context.Context, port net.Listener, state string) (url.Values, error) {
	got := make(chan url.Values, 1)
	handler := func(w http.ResponseWriter, r *http.Request) {
		back, err := answer(r.URL.Query(), state)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		switch {
		case err != nil:
			http.Error(w, "postrider: "+err.Error(), http.StatusBadRequest)
			return
		case back.Get("error") != "":
			_, _ = fmt.Fprintln(w, "postrider: the login was refused. The terminal says more.")
		default:
			_, _ = fmt.Fprintln(w, "postrider: the login is done. This page can be closed.")
		}
		select {
		case got <- back:
		default:
		}
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(handler)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(port)
	}()
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // so that the page is delivered
		defer cancel()
		_ = server.Shutdown(ended)
		_ = server.Close()
		<-over
	}()
	select {
	case back := <-got:
		return back, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// claims are the names of an account (OpenID Connect Core 1.0, 5.1; upn is Microsoft's).
type claims struct {
	Email     string `json:"email"`
	Preferred string `json:"preferred_username"`
	UPN       string `json:"upn"`
}

// names are those of the account that logged in: in the ID token, or where the provider says more.
func names(ctx context.Context, p *provider, t *oauth2.Token) (names []string) {
	var who claims
	id, _ := t.Extra("id_token").(string)
	if parts := strings.Split(id, "."); len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, &who) // who stays unknown
		}
	}
	if who == (claims{}) && p.userinfo != "" {
		_ = fetch(ctx, p.userinfo, t.AccessToken, &who)
	}
	for _, n := range []string{who.Email, who.Preferred, who.UPN} {
		if n != "" && len(n) <= 320 {
			names = append(names, clean(n))
		}
	}
	return names
}
