package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"postrider/internal/text"
)

// LoginError says that a person has to log in.
type LoginError struct{ Reason string }

func (e *LoginError) Error() string { return e.Reason }

// AppError says that the provider refuses the application: nobody can log in with it, or an
// application that acts for itself gets no token.
type AppError struct {
	App    string
	Key    string // of the configuration, below oauth.App; empty when it is not known which
	Reason string
	Fix    string
}

func (e *AppError) Error() string {
	key := "oauth." + e.App
	if e.Key != "" {
		key += "." + e.Key
	}
	return key + ": " + e.Reason + "; " + e.Fix
}

// OutageError says that the provider gives no token now.
type OutageError struct {
	Answered bool // the provider said so; else it is not known what it did
	Err      error
}

func (e *OutageError) Error() string { return e.Err.Error() }

func (e *OutageError) Unwrap() error { return e.Err }

// Answered reports whether an error is what the provider answered: it has given out no token then.
func Answered(err error) bool {
	var outage *OutageError
	return !errors.As(err, &outage) || outage.Answered
}

func (a *App) wrong(key, reason, fix string) error {
	return &AppError{App: a.Name, Key: key, Reason: reason, Fix: fix}
}

// logins are the error codes that only a person can do something about: RFC 6749 5.2, RFC 8628 3.5,
// OpenID Connect Core 1.0 3.1.2.6, and Microsoft's.
var logins = []string{
	"invalid_grant", "interaction_required", "login_required", "consent_required", "account_selection_required",
	"access_denied", "authorization_declined", "expired_token",
}

// temporary are the error codes of a provider that has trouble of its own.
var temporary = []string{"temporarily_unavailable", "server_error", "slow_down", "rate_limit_exceeded"}

// fixes are for what operators get wrong most often. says is in the error's code or description.
var fixes = []struct{ says, key, fix string }{
	{"AADSTS7000218", "", "switch on \"Allow public client flows\" in the registration, or give client_secret"},
	{"AADSTS7000215", "client_secret", "give the secret's value, not its ID"},
	{"AADSTS7000222", "client_secret", "the secret has expired: make a new one in the registration"},
	{"AADSTS700016", "client_id", "check it, and tenant"},
	{"AADSTS90002", "tenant", "give the organization's domain or ID"},
	{"AADSTS70011", "scopes", "correct them"},
	{"AADSTS650053", "scopes", "add the permission to the registration"},
	{"admin_policy_enforced", "", "an administrator of the Google Workspace has to allow the application"},
	{"invalid_client", "client_id", "check it, and client_secret"},
	{"unauthorized_client", "", "allow this way to log in, and the scopes, in the registration"},
	{"invalid_scope", "scopes", "correct them"},
}

// explain turns an error of the library into one of the three kinds. It takes secrets out of what
// the provider says.
func (a *App) explain(err error, secrets ...string) error {
	var refused *oauth2.RetrieveError
	var login *LoginError
	var wrong *AppError
	switch {
	case errors.As(err, &login), errors.As(err, &wrong):
		return err
	case garbled(err):
		return &OutageError{Err: fmt.Errorf("%s gives no token: its answer is not JSON (%w)", a.Name, err)}
	case !errors.As(err, &refused) && !unreached(err):
		return &OutageError{Err: fmt.Errorf("%s gives no token: %w", a.Name, err)}
	case refused == nil:
		if at := new(url.Error); errors.As(err, &at) && at.Timeout() {
			err = fmt.Errorf("%s does not answer in time", at.URL)
		}
		return &OutageError{Err: fmt.Errorf("%s cannot be asked for a token: %w; "+
			"check that this host reaches it (ALL_PROXY, HTTPS_PROXY)", a.Name, err)}
	}
	clean := func(s string) string { return clean(hide(s, append(secrets, a.ClientSecret))) }
	if refused.ErrorCode == "" { // the library leaves it out for service accounts
		var body struct {
			Code  string `json:"error"`
			Words string `json:"error_description"`
		}
		if json.Unmarshal(refused.Body, &body) == nil {
			refused.ErrorCode, refused.ErrorDescription = body.Code, body.Words
		}
	}
	said := clean(refused.ErrorCode)
	if said == "" {
		said = fmt.Sprintf("%d %s", status(refused), http.StatusText(status(refused)))
	}
	if words := clean(refused.ErrorDescription); words != "" {
		said += ": " + words
	}
	switch {
	case busy(refused):
		return &OutageError{Answered: true, Err: fmt.Errorf("%s gives no token now (%s)", a.Name, said)}
	case a.Personal() && slices.Contains(logins, refused.ErrorCode):
		return &LoginError{Reason: fmt.Sprintf("%s refuses the login (%s)", a.Name, said)}
	}
	e := &AppError{
		App: a.Name, Reason: "the provider refuses it (" + said + ")", Fix: "check it against docs/providers.md",
	}
	if refused.ErrorCode == "" { // a 404, see busy
		e.Reason = fmt.Sprintf("there is no token endpoint at %s (%s)", refused.Response.Request.URL.Redacted(), said)
	}
	for _, f := range fixes {
		if strings.Contains(said, f.says) {
			e.Key, e.Fix = f.key, f.fix
			break
		}
	}
	return e
}

// unreached reports that there was no answer. For a service account the library has it as text.
func unreached(err error) bool {
	return errors.As(err, new(*url.Error)) || strings.Contains(err.Error(), "cannot fetch token: Post ")
}

// garbled reports that an answer to a request for a token or a code could not be read. The library
// has it as text.
func garbled(err error) bool {
	return strings.HasPrefix(err.Error(), "oauth2: cannot parse json: ") || strings.HasPrefix(err.Error(), "unmarshal ")
}

// busy reports that the provider has trouble of its own, and refuses nothing.
func busy(e *oauth2.RetrieveError) bool {
	return status(e) >= 500 || status(e) == http.StatusTooManyRequests ||
		e.ErrorCode == "" && status(e) != http.StatusNotFound || slices.Contains(temporary, e.ErrorCode)
}

// status is that of the answer; 0 for an error that came with a browser.
func status(e *oauth2.RetrieveError) int {
	if e.Response == nil {
		return 0
	}
	return e.Response.StatusCode
}

// hide takes secrets out of a text.
func hide(s string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.NewReplacer(secret, "***", url.QueryEscape(secret), "***").Replace(s)
		}
	}
	return s
}

// clean makes one line of what a provider says, without the numbers that Microsoft adds to it.
func clean(s string) string {
	s, _, _ = strings.Cut(s, " Trace ID:")
	return text.Cut(text.Line(strings.ToValidUTF8(s, "?")), 200)
}
