package oauth

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// refusal is the answer of a provider that gives no token.
func refusal(code, description string) string {
	return `{"error":"` + code + `","error_description":"` + description + `"}`
}

// TestRefusals has the errors that the documents of Microsoft and Google name.
func TestRefusals(t *testing.T) {
	const login, app, down = "login", "app", "down"
	for _, tt := range []struct {
		name string
		code int
		kind string
		body string
		says []string
	}{
		{
			"revoked (Google)", 400, login,
			refusal("invalid_grant", "Token has been expired or revoked."),
			[]string{"Token has been expired or revoked."},
		},
		{
			"expired (Microsoft)", 400, login,
			refusal("invalid_grant", "AADSTS700082: The refresh token has expired due to inactivity. "+
				"Trace ID: 1 Correlation ID: 2 Timestamp: 3"),
			[]string{"AADSTS700082: The refresh token has expired due to inactivity.)"},
		},
		{
			"conditional access", 400, login,
			refusal("interaction_required", "AADSTS53003: Access has been blocked by Conditional Access policies."),
			[]string{"AADSTS53003"},
		},
		{
			"consent", 400, login,
			refusal("consent_required", "AADSTS65001: The user or administrator has not consented"),
			[]string{"AADSTS65001"},
		},
		{
			"public client", 401, app,
			refusal("invalid_client", "AADSTS7000218: The request body must contain: client_assertion"),
			[]string{"oauth.corp: ", "Allow public client flows"},
		},
		{
			"wrong secret", 401, app,
			refusal("invalid_client", "AADSTS7000215: Invalid client secret provided."),
			[]string{"oauth.corp.client_secret", "not its ID"},
		},
		{
			"wrong client", 401, app,
			refusal("invalid_client", "The OAuth client was not found."),
			[]string{"oauth.corp.client_id"},
		},
		{
			"wrong tenant", 400, app,
			refusal("invalid_request", "AADSTS90002: Tenant 'x' not found."),
			[]string{"oauth.corp.tenant"},
		},
		{
			"expired secret", 401, app,
			refusal("invalid_client", "AADSTS7000222: The provided client secret keys are expired."),
			[]string{"oauth.corp.client_secret", "make a new one"},
		},
		{
			"not in the tenant", 400, app,
			refusal("unauthorized_client",
				"AADSTS700016: Application with identifier 'x' was not found in the directory 'y'."),
			[]string{"oauth.corp.client_id", "and tenant"},
		},
		{
			"no permission", 400, app,
			refusal("invalid_client",
				"AADSTS650053: The application asked for scope 'x' that doesn't exist on the resource"),
			[]string{"oauth.corp.scopes", "add the permission"},
		},
		{
			"an administrator (Google)", 400, app,
			`{"error":"admin_policy_enforced"}`,
			[]string{"an administrator of the Google Workspace"},
		},
		{
			"another factor", 400, login,
			refusal("invalid_grant", "AADSTS50076: you must use multi-factor authentication"),
			[]string{"AADSTS50076"},
		},
		{
			"a new password", 400, login,
			refusal("invalid_grant", "AADSTS50173: The provided grant has expired due to it being revoked"),
			[]string{"AADSTS50173"},
		},
		{
			"a new session (Google)", 400, login,
			`{"error":"invalid_grant","error_subtype":"invalid_rapt",` +
				`"error_description":"reauth related error (invalid_rapt)"}`,
			[]string{"invalid_rapt"},
		},
		{
			"scope", 400, app,
			refusal("invalid_scope", "AADSTS70011"),
			[]string{"oauth.corp.scopes"},
		},
		{"unknown", 400, app, `{"error":"what"}`, []string{"docs/providers.md"}},
		{"busy", 503, down, `{"error":"temporarily_unavailable"}`, []string{"gives no token now"}},
		{"too many", 429, down, `{"error":"invalid_grant"}`, []string{"gives no token now"}},
		{"an error page", 502, down, `<html>Bad Gateway</html>`, []string{"502 Bad Gateway"}},
		{
			"a wrong address", 404, app, `<html>Not Found</html>`,
			[]string{"oauth.corp: there is no token endpoint at http://127.0.0.1:", "/token (404 Not Found); check it"},
		},
		{"no JSON", 400, down, `oops`, []string{"400 Bad Request"}},
		{
			"a secret repeated", 400, login,
			refusal("invalid_grant", "Invalid refresh token: secret-refresh"),
			[]string{"Invalid refresh token: ***"},
		},
		{
			"control characters", 400, login,
			refusal("invalid_grant", `\u001b[2Jgone`),
			[]string{"[2Jgone"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.code, f.answer = tt.code, tt.body
			_, err := f.app().Renew(t.Context(), IMAP, "ann", Token{Refresh: "secret-refresh"})
			var l *LoginError
			var a *AppError
			got := down
			if errors.As(err, &l) {
				got = login
			}
			if errors.As(err, &a) {
				got = app
			}
			if err == nil || got != tt.kind {
				t.Fatalf("the error is %v (%s), want %s", err, got, tt.kind)
			}
			for _, says := range tt.says {
				got := err.Error()
				if !strings.Contains(got, says) || strings.ContainsAny(got, "\x1b\n") ||
					strings.Contains(got, "secret-refresh") {
					t.Errorf("the error is %q, want %q in one line, without the token", err, says)
				}
			}
			if len(f.asked) != 1 {
				t.Errorf("the provider saw the refresh token %d times, want once", len(f.asked))
			}
		})
	}
}

// TestNoAnswerOfOAuth: the error names the proxy only if the provider was not reached.
func TestNoAnswerOfOAuth(t *testing.T) {
	const hint = "check that this host reaches it"
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	for _, tt := range []struct {
		name   string
		change func(f *fake, a *App)
		says   string
		hint   bool
	}{
		{"no server", func(f *fake, _ *App) {
			f.Close()
		}, "corp cannot be asked for a token: ask http://127.0.0.1", true},
		{"no server of the service account", func(f *fake, a *App) {
			f.Close()
			a.Key = &Key{Email: "robot@x.example", Private: string(text), URL: f.URL + "/token"}
		}, "corp cannot be asked for a token: ", true},
		{"no token in it", func(f *fake, _ *App) {
			f.answer = "{}"
		}, "corp gives no token: oauth2: server response missing access_token", false},
		{"no JSON", func(f *fake, _ *App) {
			f.answer = "oops"
		}, "corp gives no token: its answer is not JSON (", false},
		{"a wrong issuer", func(_ *fake, a *App) {
			a.Issuer += "/corp"
		}, "oauth.corp.issuer: http://127.0.0.1", false},
		{"no document", func(f *fake, _ *App) {
			f.document = ""
		}, "corp gives no token: ask http://127.0.0.1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			app := f.app()
			tt.change(f, app)
			_, err := app.Renew(t.Context(), IMAP, "ann", Token{Refresh: "r"})
			if err == nil || !strings.HasPrefix(err.Error(), tt.says) ||
				strings.Contains(err.Error(), hint) != tt.hint {
				t.Errorf("the error is %v, want that it begins with %q, and the hint at a proxy: %v",
					err, tt.says, tt.hint)
			}
		})
	}
}

// TestSilentProvider: a provider that takes too long is said to, and where.
func TestSilentProvider(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := (&App{Name: "corp", Issuer: silent.URL}).Renew(ctx, IMAP, "ann", Token{Refresh: "r"})
	want := "corp cannot be asked for a token: " + silent.URL +
		"/.well-known/openid-configuration does not answer in time; "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %v, want that it begins with %q", err, want)
	}
}
