package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"
)

// provider is where to get tokens, and which.
type provider struct {
	endpoint oauth2.Endpoint
	scopes   map[Use][]string // for the login of a person
	app      []string         // for an application that acts for itself
	login    []oauth2.AuthCodeOption
	redirect string // to a port of this host; without the port
	userinfo string // where to ask who logged in, when the ID token does not say; empty for nowhere
}

// identity has the provider say who logged in (OpenID Connect Core 1.0, 5.4).
var identity = []string{"openid", "email", "profile"}

// provider returns the built-in one, or asks the issuer once.
func (a *App) provider(ctx context.Context) (*provider, error) {
	switch {
	case a.Issuer != "":
		return a.discover(ctx)
	case a.Name == Google:
		return google, nil
	}
	return microsoft(a.Tenant), nil
}

// google is as in https://developers.google.com/identity/protocols/oauth2/native-app and
// https://developers.google.com/workspace/gmail/imap/xoauth2-protocol. Without prompt=consent the
// second login of an account gets no refresh token.
var google = &provider{
	endpoint: oauth2.Endpoint{
		AuthURL: "https://accounts.google.com/o/oauth2/v2/auth", TokenURL: "https://oauth2.googleapis.com/token",
		AuthStyle: oauth2.AuthStyleInParams,
	},
	scopes: map[Use][]string{
		IMAP: append([]string{googleMail}, identity...),
		SMTP: append([]string{googleMail}, identity...),
	},
	app:      []string{googleMail},
	login:    []oauth2.AuthCodeOption{oauth2.AccessTypeOffline, oauth2.SetAuthURLParam("prompt", "consent")},
	redirect: "http://127.0.0.1",
}

const googleMail = "https://mail.google.com/"

// microsoft is as in https://learn.microsoft.com/exchange/client-developer/legacy-protocols/
// how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth. A registration for
// http://localhost holds for each port.
func microsoft(tenant string) *provider {
	if tenant == "" {
		tenant = "common"
	}
	at := "https://login.microsoftonline.com/" + url.PathEscape(tenant) + "/oauth2/v2.0/"
	more := append([]string{"offline_access"}, identity...)
	return &provider{
		endpoint: oauth2.Endpoint{
			AuthURL: at + "authorize", TokenURL: at + "token", DeviceAuthURL: at + "devicecode",
			AuthStyle: oauth2.AuthStyleInParams,
		},
		scopes: map[Use][]string{
			IMAP: append([]string{"https://outlook.office.com/IMAP.AccessAsUser.All"}, more...),
			SMTP: append([]string{"https://outlook.office.com/SMTP.Send"}, more...),
		},
		app:      []string{"https://outlook.office365.com/.default"},
		redirect: "http://localhost",
	}
}

// document is what a provider says about itself (OpenID Connect Discovery 1.0, 3; RFC 8414 2).
type document struct {
	Issuer   string   `json:"issuer"`
	AuthURL  string   `json:"authorization_endpoint"`
	TokenURL string   `json:"token_endpoint"`
	Device   string   `json:"device_authorization_endpoint"`
	UserInfo string   `json:"userinfo_endpoint"`
	Methods  []string `json:"token_endpoint_auth_methods_supported"`
}

const maxDocument = 256 << 10 // octets

func (a *App) discover(ctx context.Context) (*provider, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.found != nil {
		return a.found, nil
	}
	var d document
	err := fetch(ctx, strings.TrimSuffix(a.Issuer, "/")+"/.well-known/openid-configuration", "", &d)
	var answered *answerError
	if errors.As(err, &answered) && answered.code < 500 && answered.code != http.StatusTooManyRequests {
		return nil, a.wrong("issuer", err.Error(), "correct it")
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for its endpoints: %w", a.Issuer, err)
	}
	if strings.TrimSuffix(d.Issuer, "/") != strings.TrimSuffix(a.Issuer, "/") { // Discovery 4.3
		return nil, a.wrong("issuer", fmt.Sprintf("the document there is that of %q", d.Issuer), "correct it")
	}
	for _, u := range []string{d.AuthURL, d.TokenURL, d.Device, d.UserInfo} {
		if u != "" && !Secure(u) {
			reason := fmt.Sprintf("it names the endpoint %q, which is not https", u)
			return nil, a.wrong("issuer", reason, "ask its operator")
		}
	}
	if d.TokenURL == "" {
		return nil, a.wrong("issuer", "it names no token endpoint", "correct it")
	}
	scopes := append([]string{"offline_access"}, identity...)
	a.found = &provider{
		endpoint: oauth2.Endpoint{
			AuthURL: d.AuthURL, TokenURL: d.TokenURL, DeviceAuthURL: d.Device,
			AuthStyle: d.style(a.ClientSecret),
		},
		scopes:   map[Use][]string{IMAP: scopes, SMTP: scopes},
		redirect: "http://localhost", userinfo: d.UserInfo,
	}
	return a.found, nil
}

// style is how a client names itself (RFC 6749 2.3.1). To let the library find out would send a
// refresh token twice when the first answer is lost, and a provider that sees one twice revokes all
// tokens (RFC 9700 4.14.2).
func (d document) style(secret string) oauth2.AuthStyle {
	inHeader := len(d.Methods) == 0 || slices.Contains(d.Methods, "client_secret_basic")
	if secret != "" && inHeader {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// answerError is an answer without a document.
type answerError struct {
	at, status string
	code       int
}

func (e *answerError) Error() string { return e.at + " answers " + e.status }

// fetch reads a JSON document, with an access token if there is one.
func fetch(ctx context.Context, at, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return &answerError{at, resp.Status, resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return err
	}
	if len(body) > maxDocument {
		return fmt.Errorf("what %s answers is larger than %d KiB", at, maxDocument>>10)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("what %s answers is not JSON: %w", at, err)
	}
	return nil
}
