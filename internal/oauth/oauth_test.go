package oauth

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// fake is a provider that answers as a test says.
type fake struct {
	*httptest.Server
	document string
	code     int
	answer   string
	asked    []url.Values // at the token endpoint
	header   []string     // its Authorization
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{code: http.StatusOK}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(f.document))
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		f.asked, f.header = append(f.asked, r.PostForm), append(f.header, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.code)
		_, _ = w.Write([]byte(f.answer))
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	f.says(nil)
	return f
}

// says is the provider's document, with changes.
func (f *fake) says(change map[string]any) {
	d := map[string]any{"issuer": f.URL, "authorization_endpoint": f.URL + "/auth", "token_endpoint": f.URL + "/token"}
	for k, v := range change {
		d[k] = v
	}
	text, _ := json.Marshal(d)
	f.document = string(text)
}

func (f *fake) app() *App { return &App{Name: "corp", ClientID: "id", Issuer: f.URL, Flow: Browser} }

// TestBuiltIn has what Microsoft and Google document.
func TestBuiltIn(t *testing.T) {
	for _, tt := range []struct {
		app                 *App
		use                 Use
		auth, token, device string
		scopes              string
	}{
		{
			&App{Name: Microsoft}, IMAP,
			"https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
			"https://login.microsoftonline.com/common/oauth2/v2.0/token",
			"https://login.microsoftonline.com/common/oauth2/v2.0/devicecode",
			"https://outlook.office.com/IMAP.AccessAsUser.All offline_access openid email profile",
		},
		{
			&App{Name: Microsoft, Tenant: "firm.example"}, SMTP,
			"https://login.microsoftonline.com/firm.example/oauth2/v2.0/authorize",
			"https://login.microsoftonline.com/firm.example/oauth2/v2.0/token",
			"https://login.microsoftonline.com/firm.example/oauth2/v2.0/devicecode",
			"https://outlook.office.com/SMTP.Send offline_access openid email profile",
		},
		{
			&App{Name: Google}, IMAP,
			"https://accounts.google.com/o/oauth2/v2/auth", "https://oauth2.googleapis.com/token", "",
			"https://mail.google.com/ openid email profile",
		},
		{
			&App{Name: Google, Scopes: []string{"a", "b"}}, SMTP,
			"https://accounts.google.com/o/oauth2/v2/auth", "https://oauth2.googleapis.com/token", "",
			"a b",
		},
	} {
		p, err := tt.app.provider(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := tt.app.config(p, tt.use)
		if c.Endpoint.AuthURL != tt.auth || c.Endpoint.TokenURL != tt.token || c.Endpoint.DeviceAuthURL != tt.device ||
			strings.Join(c.Scopes, " ") != tt.scopes || c.Endpoint.AuthStyle != oauth2.AuthStyleInParams {
			t.Errorf("%s for %s: %+v, scopes %q; want the endpoints %s, %s, %s, and %q",
				tt.app.Name, tt.use, c.Endpoint, c.Scopes, tt.auth, tt.token, tt.device, tt.scopes)
		}
	}
	if got := microsoft("").app; !slices.Equal(got, []string{"https://outlook.office365.com/.default"}) {
		t.Errorf("an application of Microsoft's asks for %q", got)
	}
}

func TestWay(t *testing.T) {
	for _, tt := range []struct {
		app      *App
		want     Flow
		personal bool
	}{
		{&App{Name: Microsoft}, Device, true},
		{&App{Name: Google}, Browser, true},
		{&App{Name: "corp"}, Device, true},
		{&App{Name: Microsoft, Flow: Browser}, Browser, true},
		{&App{Name: Microsoft, Flow: Application}, Application, false},
		{&App{Name: Google, Key: &Key{}}, ServiceAccount, false},
		{&App{Name: "x", Command: []string{"oama"}}, Helper, false},
	} {
		if got := tt.app.Way(); got != tt.want || tt.app.Personal() != tt.personal {
			t.Errorf("%s: %s, personal %v; want %s, %v", tt.app.Name, got, tt.app.Personal(), tt.want, tt.personal)
		}
	}
}

// TestRenewOnce: an answer that is lost does not make the library try again in another way, because
// a provider that sees a refresh token twice revokes all tokens.
func TestRenewOnce(t *testing.T) {
	f := newFake(t)
	f.answer = "no JSON, as if half of it had come"
	if _, err := f.app().Renew(t.Context(), IMAP, "ann", Token{Refresh: "r"}); err == nil {
		t.Fatal("no error, want one")
	}
	if len(f.asked) != 1 {
		t.Errorf("the provider was asked %d times, want once", len(f.asked))
	}
}

func TestRenew(t *testing.T) {
	f := newFake(t)
	f.says(map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic"}})
	f.answer = `{"access_token":"a2","refresh_token":"r2","expires_in":3600,"token_type":"Bearer"}`
	app := f.app()
	app.ClientSecret = "s"
	got, err := app.Renew(t.Context(), IMAP, "ann", Token{Refresh: "r1"})
	if err != nil || got.Access != "a2" || got.Refresh != "r2" || got.Lifetime < 50*time.Minute {
		t.Fatalf("got %+v, %v; want a2, r2 and an hour", got, err)
	}
	if f.asked[0].Get("refresh_token") != "r1" || f.header[0] == "" || f.asked[0].Has("client_secret") {
		t.Errorf("the provider got %v and the header %q, want r1, and the secret in the header alone",
			f.asked[0], f.header[0])
	}
	f.answer = `{"access_token":"a3","token_type":"Bearer"}`
	got, err = app.Renew(t.Context(), IMAP, "ann", got)
	if err != nil || got.Refresh != "r2" || got.Lifetime != time.Hour {
		t.Errorf("got %+v, %v; want the old refresh token, and an hour", got, err)
	}
	app.Flow, f.asked = Application, nil
	_, err = app.Renew(t.Context(), IMAP, "ann", Token{})
	if err != nil || f.asked[0].Get("grant_type") != "client_credentials" {
		t.Errorf("the provider got %v (%v), want client_credentials", f.asked, err)
	}
}

func TestDiscoveryOfAHostileIssuer(t *testing.T) {
	for name, tt := range map[string]struct {
		change   map[string]any
		document string
		says     string
	}{
		"another issuer": {
			change: map[string]any{"issuer": "https://evil.example"},
			says:   `the document there is that of "https://evil.example"`,
		},
		"no https": {
			change: map[string]any{"token_endpoint": "http://evil.example/token"},
			says:   "which is not https",
		},
		"no token endpoint": {change: map[string]any{"token_endpoint": ""}, says: "no token endpoint"},
		"no JSON":           {document: "<html>", says: "is not JSON"},
		"huge":              {document: strings.Repeat(" ", maxDocument+1), says: "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.says(tt.change)
			if tt.document != "" {
				f.document = tt.document
			}
			_, err := f.app().Renew(t.Context(), IMAP, "ann", Token{Refresh: "r"})
			if err == nil || !strings.Contains(err.Error(), tt.says) || len(f.asked) > 0 {
				t.Errorf("the error is %v, want %q, and nothing sent", err, tt.says)
			}
		})
	}
}

// TestNoRedirect: what is sent holds secrets, and goes nowhere else.
func TestNoRedirect(t *testing.T) {
	elsewhere := newFake(t)
	f := newFake(t)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			_, _ = fmt.Fprint(w, f.document)
			return
		}
		http.Redirect(w, r, elsewhere.URL+"/token", http.StatusTemporaryRedirect)
	})
	if _, err := f.app().Renew(t.Context(), IMAP, "ann", Token{Refresh: "r"}); err == nil || len(elsewhere.asked) > 0 {
		t.Errorf("the error is %v, and the other server got %v; want an error, and nothing", err, elsewhere.asked)
	}
}

func TestSecure(t *testing.T) {
	for u, want := range map[string]bool{
		"https://id.firm.example":         true,
		"http://127.0.0.1:8080/":          true,
		"http://[::1]:8080/":              true,
		"http://localhost":                true,
		"http://id.firm.example":          false,
		"http://localhost.evil.example":   false,
		"https://user:pw@id.firm.example": false,
		"id.firm.example":                 false,
		"ftp://127.0.0.1/":                false,
		"https://":                        false,
	} {
		if Secure(u) != want {
			t.Errorf("Secure(%q) = %v, want %v", u, !want, want)
		}
	}
}

func TestParseKey(t *testing.T) {
	const private = `-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n`
	good := `{"type":"service_account","client_email":"a@b","private_key":"` + private +
		`","token_uri":"https://oauth2.googleapis.com/token"}`
	if _, err := ParseKey([]byte(good)); err != nil {
		t.Error(err)
	}
	without := func(part, instead string) string { return strings.Replace(good, part, instead, 1) }
	for _, bad := range []string{
		"", "[]", "{}", without("https", "http"), without("service_account", "user"), without("-----BEGIN", ""),
	} {
		if _, err := ParseKey([]byte(bad)); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v, want an error without the key", bad, err)
		}
	}
}

// nobody does not come back.
type nobody struct{ seen string }

func (n *nobody) Enter(page, _ string, _ time.Time) { n.seen = page }
func (n *nobody) Visit(page string)                 { n.seen = page }
func (n *nobody) Paste(_ context.Context, page string) (string, error) {
	n.seen = page
	return "", context.DeadlineExceeded
}

func TestPersonDoesNotComeBack(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("Ctrl-C"))
	who := &nobody{}
	if _, err := f.app().Login(ctx, IMAP, "ann", who, true); err == nil || len(f.asked) > 0 {
		t.Errorf("the login ends with %v, want an error", err)
	}
	f = newFake(t)
	_, err := f.app().Login(t.Context(), IMAP, "ann", who, false)
	if !errors.As(err, new(*LoginError)) || err.Error() != context.DeadlineExceeded.Error() {
		t.Errorf("the login ends with %v, want what kept the person, and no outage", err)
	}
	page, err := url.Parse(who.seen)
	q := page.Query()
	if err != nil || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" ||
		q.Get("login_hint") != "ann" || !strings.HasPrefix(q.Get("redirect_uri"), "http://localhost:") {
		t.Errorf("the page is %s, want PKCE, a state, the account and a port of this host", who.seen)
	}
}

// TestServiceAccount: the account of the inbox is the subject of what is signed (domain-wide
// delegation).
func TestServiceAccount(t *testing.T) {
	f := newFake(t)
	f.answer = `{"access_token":"a1","expires_in":3600,"token_type":"Bearer"}`
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	key := &Key{Email: "robot@project.example", ID: "k1", Private: string(text), URL: f.URL + "/token"}
	app := &App{Name: "workspace", Key: key}
	got, err := app.Renew(t.Context(), IMAP, "office@firm.example", Token{})
	if err != nil || got.Access != "a1" || got.Lifetime < 50*time.Minute {
		t.Fatalf("got %+v, %v; want a1 and an hour", got, err)
	}
	_, claims, _ := strings.Cut(f.asked[0].Get("assertion"), ".")
	claims, _, _ = strings.Cut(claims, ".")
	said, err := base64.RawURLEncoding.DecodeString(claims)
	var c struct{ Iss, Sub, Scope, Aud string }
	if err = errors.Join(err, json.Unmarshal(said, &c)); err != nil {
		t.Fatal(err)
	}
	if c.Iss != "robot@project.example" || c.Sub != "office@firm.example" ||
		c.Scope != googleMail || c.Aud != f.URL+"/token" {
		t.Errorf("the assertion says %s, want the account as its subject, and the scope for mail", said)
	}
	f.code = 401
	f.answer = refusal("unauthorized_client", "Client is unauthorized to retrieve access tokens using this method")
	var wrong *AppError
	if _, err := app.Renew(t.Context(), IMAP, "office@firm.example", Token{}); !errors.As(err, &wrong) {
		t.Errorf("the error is %v, want that the application is refused", err)
	}
}

func TestGrantOf(t *testing.T) {
	g := Grant{Names: []string{"ann@firm.example", "Ann@Corp.example"}}
	for _, names := range [][]string{{"ann@firm.example"}, {"office@firm.example", "ann@corp.example"}} {
		if err := g.Of(names...); err != nil {
			t.Errorf("of %q: %v, want no error", names, err)
		}
	}
	var other *OtherAccountError
	err := g.Of("office@firm.example")
	if !errors.As(err, &other) || other.Who != "ann@firm.example" || other.Meant != "office@firm.example" {
		t.Errorf("of another account: %v, want both names", err)
	}
	if err := (Grant{}).Of("office@firm.example"); err != nil {
		t.Errorf("of a provider that does not say: %v, want no error", err)
	}
}
