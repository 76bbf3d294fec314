package testserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// OIDC is a running OpenID provider, see the command oidcprovider. Its users have the password
// "sesame"; it revokes everything of a user when it sees a refresh token twice.
type OIDC struct {
	Issuer string
	t      testing.TB
	port   int
}

// buildOIDC builds the provider once for all tests of a process.
var buildOIDC = sync.OnceValues(func() (string, error) { return buildCommand("oidcprovider") })

// NewOIDC starts a provider with these users, and stops it when the test is over. A client of it is
// native (the browser's flow), device (which has the secret "secret"), or sid1 (an application that
// acts for itself, as the first user, with the secret "verysecret").
func NewOIDC(t testing.TB, users ...string) *OIDC {
	t.Helper()
	binary, err := buildOIDC()
	if err != nil {
		missing(t, err.Error())
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	people := map[string]map[string]any{}
	for _, user := range users {
		people[user] = map[string]any{
			"ID": user, "Username": user, "Password": "sesame", "Email": user, "EmailVerified": true,
		}
	}
	people["sid1"] = map[string]any{"ID": "sid1", "Username": "sid1", "Email": users[0]}
	text, err := json.Marshal(people)
	file := filepath.Join(t.TempDir(), "users.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(filepath.Join(filepath.Dir(file), "log"), nil, binary, fmt.Sprint(ports[0]), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := p.waitListening(ports[0]); err != nil {
		t.Fatal(err)
	}
	return &OIDC{Issuer: fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), t: t, port: ports[0]}
}

// introspection is the configuration of a Dovecot that asks this provider.
func (o *OIDC) introspection() []byte {
	if o == nil {
		return nil
	}
	return fmt.Appendf(nil, "introspection_mode = post\n"+
		"introspection_url = http://imap:secret@127.0.0.1:%d/oauth/introspect\n"+
		"username_attribute = email\nactive_attribute = active\nactive_value = true\n", o.port)
}

// browser is one that keeps cookies, and stops at an address of another server.
func (o *OIDC) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		o.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), o.Issuer) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// Enter is a person who enters a code at the page for devices, and allows what is asked, or not.
func (o *OIDC) Enter(user, code string, allow bool) {
	o.t.Helper()
	b, action := o.browser(), "denied"
	if allow {
		action = "allowed"
	}
	login := url.Values{"user_code": {code}, "username": {user}, "password": {"sesame"}}
	o.page(b.PostForm(o.Issuer+"device/login", login))
	said := o.page(b.PostForm(o.Issuer+"device/confirm", url.Values{"action": {action}}))
	if !strings.Contains(said, action) {
		o.t.Fatalf("the provider does not take the code %s of %s: %s", code, user, said)
	}
}

// Visit is a person who opens the page in a browser and logs in. It returns the address at which
// the browser ends.
func (o *OIDC) Visit(user, page string) string {
	o.t.Helper()
	b := o.browser()
	form, err := b.Get(page)
	o.page(form, err)
	id := form.Request.URL.Query().Get("authRequestID")
	login := url.Values{"id": {id}, "username": {user}, "password": {"sesame"}}
	resp, err := b.PostForm(o.Issuer+"login/username", login)
	said := o.page(resp, err)
	end := resp.Header.Get("Location")
	if end == "" {
		o.t.Fatalf("%s cannot log in at %s: %s", user, page, said)
	}
	return end
}

// Revoke withdraws what a user has allowed.
func (o *OIDC) Revoke(user string) { o.Switch("revoke?user=" + url.QueryEscape(user)) }

// Switch turns a switch of the provider: down, up, hold (answers to requests for tokens), stall
// (the requests themselves, which are dropped in the end), delay (the requests themselves, which
// are answered in the end), held (returns when one waits), letgo, forget (access tokens), counts.
func (o *OIDC) Switch(name string) string {
	o.t.Helper()
	return o.page(http.Get(o.Issuer + "test/" + name))
}

func (o *OIDC) page(resp *http.Response, err error) string {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(body)
}
