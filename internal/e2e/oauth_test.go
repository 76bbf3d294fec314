//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/testserver"
)

const office = "office@firm.example"

// withProvider is withAccount, and its inbox, which nobody has logged in to yet.
func withProvider(t *testing.T, kind, app string) (*world, *testserver.OIDC) {
	t.Helper()
	w, provider := withAccount(t, kind, app)
	w.must(0, append(w.addOffice(), "--no-check")...)
	return w, provider
}

// addOffice is the command that adds the inbox.
func (w *world) addOffice() []string {
	return []string{
		"inbox", "add", office, "--host", "127.0.0.1", "--port", fmt.Sprint(w.imapPort),
		"--security", "none", "--oauth", "corp",
	}
}

// withAccount is an installation whose accounts are on a Dovecot that takes the provider's tokens.
func withAccount(t *testing.T, kind, app string) (*world, *testserver.OIDC) {
	t.Helper()
	provider := testserver.NewOIDC(t, office, "ann@firm.example")
	w := newWorld(t, kind)
	w.imap = testserver.DovecotWithTokens(t, provider)
	w.proxy = testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", w.imap.Port))
	w.imapPort = w.proxy.Port
	w.extra = fmt.Sprintf("oauth:\n  corp: {issuer: '%s', %s}\n", provider.Issuer, app)
	w.app = &oauth.App{Name: "corp", Issuer: provider.Issuer, ClientID: strings.Trim(strings.Fields(app)[1], ",")}
	if app == itself {
		w.app.Flow = oauth.Application
	}
	w.configure()
	w.imap.AddUser(t, office, password)
	return w, provider
}

const (
	devices  = "client_id: device, client_secret: secret"
	browsers = "client_id: native, flow: browser"
	itself   = "client_id: sid1, client_secret: verysecret, flow: application"
)

var (
	shownCode = regexp.MustCompile(`enter the code (\S+) there`)
	shownPage = regexp.MustCompile(`(?m)^    (http://\S+)$`)
)

// shown waits until the program shows something.
func (p *process) shown(what *regexp.Regexp) string {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m := what.FindStringSubmatch(p.stderr.String()); m != nil {
			return m[1]
		}
		select {
		case <-p.over:
			p.t.Fatalf("the program ended and showed %q, want %s", p.stderr.String(), what)
		default:
		}
	}
	p.t.Fatalf("the program shows %q, want %s", p.stderr.String(), what)
	return ""
}

// wantEnd checks how the program ended, and that it showed no token.
func (p *process) wantEnd(code int, says string) {
	p.t.Helper()
	res := p.wait()
	if res.code != code || !strings.Contains(res.stderr, says) {
		p.t.Fatalf("exit %d, want %d and %q in:\n%s%s", res.code, code, says, res.stdout, res.stderr)
	}
}

// logIn logs in with a browser on another host.
func (w *world) logIn(provider *testserver.OIDC) {
	w.t.Helper()
	w.paste(provider, func(end string) string { return end }).wantEnd(0, "")
}

// paste logs in with what change makes of the address at which the browser ends.
func (w *world) paste(provider *testserver.OIDC, change func(string) string) *process {
	w.t.Helper()
	return w.pasteAs(provider, office, change, "inbox", "login", office, "--no-browser")
}

func (w *world) pasteAs(
	provider *testserver.OIDC, user string, change func(string) string, command ...string,
) *process {
	w.t.Helper()
	in, out := io.Pipe()
	p := w.startReading(in, command...)
	_, _ = io.WriteString(out, change(provider.Visit(user, p.shown(shownPage))))
	_ = out.Close()
	return p
}

func TestDeviceLogin(t *testing.T) {
	for _, kind := range all {
		w, provider := withProvider(t, kind, devices)
		r, _ := w.pass(75)
		const never = "needs login: there was no login with corp yet; " +
			"log in with `postrider inbox login office@firm.example`"
		if !strings.Contains(r.Inboxes[0].Error, never) {
			t.Errorf("before the login the error is %q, want the command that logs in", r.Inboxes[0].Error)
		}
		p := w.start(nil, "inbox", "login", office)
		provider.Enter(office, p.shown(shownCode), true)
		p.wantEnd(0, "")
		w.put(office, "one")
		w.pass(0)
		w.expireToken()
		w.put(office, "two")
		w.pass(0)
		if n := len(w.sink.Messages()); n != 2 {
			t.Errorf("%d messages arrived, want 2", n)
		}
		w.must(0, "check")
	}
}

func TestDeviceLoginRefused(t *testing.T) {
	w, provider := withProvider(t, "sqlite", devices)
	p := w.start(nil, "inbox", "login", office)
	provider.Enter(office, p.shown(shownCode), false)
	p.wantEnd(1, "corp refuses the login (access_denied")

	p = w.start(nil, "inbox", "login", office)
	provider.Enter("ann@firm.example", p.shown(shownCode), true)
	p.wantEnd(1, "ann@firm.example logged in, and not office@firm.example: nothing was stored")
	w.pass(75)

	p = w.start(nil, "inbox", "login", office)
	p.shown(shownCode)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.wantEnd(1, "the login of office@firm.example was stopped; nothing was stored")
}

func TestBrowserLogin(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	p := w.start(nil, "inbox", "login", office)
	page := p.shown(shownPage)
	end := provider.Visit(office, page)
	wrong := strings.Replace(end, "state=", "state=x", 1)
	if code := get(t, wrong); code != http.StatusBadRequest {
		t.Errorf("an address with another state is answered with %d, want 400", code)
	}
	if code := get(t, end); code != http.StatusOK {
		t.Errorf("the browser is answered with %d, want 200", code)
	}
	p.wantEnd(0, "")
	w.put(office, "one")
	w.pass(0)
}

func get(t *testing.T, page string) int {
	t.Helper()
	resp, err := http.Get(strings.Replace(page, "localhost", "127.0.0.1", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// anotherState is the address at which another login ended.
func anotherState(s string) string { return strings.Replace(s, "state=", "state=x", 1) }

// TestPastedAddress is the login of a host without a browser.
func TestPastedAddress(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	for _, tt := range []struct {
		name, says string
		code       int
		change     func(string) string
	}{
		{"another login's", "its state differs", 1, anotherState},
		{"not the address", "this is not the address at which the login ended", 1, func(string) string {
			return "http://localhost/"
		}},
		{"refused there", "corp refuses the login (access_denied)", 1, func(s string) string {
			return strings.Replace(s, "code=", "error=access_denied&x=", 1)
		}},
		{"nothing", "no address was given", 1, func(string) string { return "" }},
		{"right", "", 0, func(s string) string { return s + "\n" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.paste(provider, tt.change).wantEnd(tt.code, tt.says)
		})
	}
	w.put(office, "one")
	w.pass(0)
}

// TestSharedMailbox: who logged in with --account is expected the next time, too, so the command in
// an error is enough. Dovecot takes no token of another account.
func TestSharedMailbox(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	same := func(s string) string { return s }
	login := []string{"inbox", "login", office, "--no-browser"}
	const stored = "the login is stored, but logging in to the server with it failed"
	w.pasteAs(provider, "ann@firm.example", same, append(login, "--account", "ann@firm.example")...).wantEnd(1, stored)
	w.pasteAs(provider, "ann@firm.example", same, login...).wantEnd(1, stored)
	w.pasteAs(provider, office, same, login...).wantEnd(1,
		"If office@firm.example is to log in for office@firm.example from now on, add --account office@firm.example")
	w.pasteAs(provider, office, same, append(login, "--account", office)...).wantEnd(0, "")
}

// TestAddWithOAuth: somebody logs in before the inbox is stored, and nothing is stored when that
// fails.
func TestAddWithOAuth(t *testing.T) {
	w, provider := withAccount(t, "sqlite", browsers)
	w.put(office, "old")
	add := append(w.addOffice(), "--no-browser")
	same := func(s string) string { return s }
	for _, tt := range []struct {
		name, user, says string
		code             int
		flags            []string
		change           func(string) string
	}{
		{
			"another account", "ann@firm.example",
			"inbox office@firm.example was not added: ann@firm.example logged in, and not office@firm.example", 1,
			nil, same,
		},
		{
			"another login", office,
			"was not added: log in as office@firm.example: the address belongs to another login", 1,
			nil, anotherState,
		},
		{
			"no folder of that name", office,
			`was not added: folder "IBOX" does not exist; did you mean INBOX?`, 2,
			[]string{"--folder", "IBOX"},
			same,
		},
		{
			"refused by the server", "ann@firm.example",
			"was not added: imap 127.0.0.1:", 1,
			[]string{"--account", "ann@firm.example"},
			same,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.pasteAs(provider, tt.user, tt.change, append(add, tt.flags...)...).wantEnd(tt.code, tt.says)
			if shown := w.must(0, "inbox", "list", "--json").stdout; shown != "" {
				t.Errorf("it stored %s", shown)
			}
		})
	}
	p := w.start(nil, w.addOffice()...)
	p.shown(shownPage)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wantEnd(1, "the login of office@firm.example was stopped; nothing was stored")
	w.pasteAs(provider, office, same, append(add, "--start", "all")...).wantEnd(0, "")
	w.pass(0)
	if n := len(w.sink.Messages()); n != 1 {
		t.Errorf("%d messages arrived, want 1", n)
	}
}

// TestWithdrawnConsent: each pass says what to do, and the provider is not asked again.
func TestWithdrawnConsent(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	w.extra += "notify: {to: ops@firm.example, at_most: 0s}\n"
	w.configure()
	w.logIn(provider)
	w.put(office, "one")
	w.pass(0)
	provider.Revoke(office)
	w.expireToken()
	w.addInbox("other@firm.example", "--start", "all")
	w.put("other@firm.example", "of another inbox")
	for range 2 {
		r, _ := w.pass(75)
		if r.Inboxes[1].Error != "" {
			t.Errorf("the error of the other inbox is %q, want none", r.Inboxes[1].Error)
		}
		said := r.Inboxes[0].Error
		if !strings.Contains(said, "needs login: ") || !strings.Contains(said, "postrider inbox login "+office) {
			t.Errorf("the error is %q, want needs login and the command", r.Inboxes[0].Error)
		}
	}
	notices := w.arrivedFor("ops@firm.example")
	if len(notices) != 1 || !strings.Contains(string(notices[0].Header), "postrider: 1 inbox needs a login") {
		t.Errorf("%d notices arrived, want one that says that the inbox needs a login", len(notices))
	}
	w.must(0, "status").has(t, "needs login: corp refuses the login", "postrider inbox login "+office)
	w.must(0, "status", "--json").has(t, `"needs_login":"corp refuses the login`)
	w.logIn(provider)
	w.put(office, "two")
	w.pass(0)
	if n := len(w.arrivedFor("intake@firm.example")); n != 3 {
		t.Errorf("%d messages arrived, want 3: two of the inbox, and one of the other", n)
	}
}

// TestProviderIsDown: an outage is no reason to log in again.
func TestProviderIsDown(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	w.logIn(provider)
	provider.Switch("down")
	w.expireToken()
	r, _ := w.pass(75)
	said := r.Inboxes[0].Error
	if strings.Contains(said, "needs login") ||
		!strings.Contains(said, "gives no token now") && !strings.Contains(said, "ask ") {
		t.Errorf("the error is %q, want the provider's outage", r.Inboxes[0].Error)
	}
	provider.Switch("up")
	w.put(office, "one")
	w.pass(0)
}

// TestRelayWithTokens submits through a Postfix that has Dovecot check the tokens.
func TestRelayWithTokens(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	w.logIn(provider)
	relay := testserver.Postfix(t, testserver.PostfixOptions{AuthPort: w.imap.AuthPort, Next: w.sink.Port()})
	w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, security: starttls, ca_file: '%s', "+
		"username: %s, auth: oauth, oauth: corp", relay.Port, relay.CAFile, office)
	w.configure()
	w.put(office, "one")
	r, _ := w.pass(75)
	if !strings.Contains(r.RelayError, "there was no login with corp yet; log in with `postrider smtp login`") {
		t.Errorf("before the login the relay's error is %q, want the command", r.RelayError)
	}
	in, out := io.Pipe()
	p := w.startReading(in, "smtp", "login", "--no-browser")
	_, _ = io.WriteString(out, provider.Visit(office, p.shown(shownPage)))
	_ = out.Close()
	p.wantEnd(0, "")
	w.pass(0)
	w.must(0, "check")
	relay.Drain(t)
	if n := len(w.sink.Messages()); n != 1 {
		t.Errorf("%d messages arrived, want 1", n)
	}
}

// TestTokenCommand has another program keep the tokens.
func TestTokenCommand(t *testing.T) {
	w, _ := withProvider(t, "sqlite", itself)
	w.put(office, "one")
	w.pass(0) // the application has a token now, which the helper is to print
	var token string
	w.behind(func(tx *gorm.DB) error {
		var sealed string
		if err := tx.Raw("SELECT sealed FROM oauth_tokens").Scan(&sealed).Error; err != nil {
			return err
		}
		text, err := inbox.OpenSealer(w.path("postrider.key")).Decrypt(sealed, w.binding(1))
		if err != nil {
			return err
		}
		var stored struct{ Access string }
		err = json.Unmarshal([]byte(text), &stored)
		token = stored.Access
		return err
	})
	w.extra = fmt.Sprintf("oauth:\n  corp: {token_command: "+
		"[/bin/sh, -c, 'test \"$0\" = \"%s\" && echo %s', '{account}']}\n", office, token)
	w.configure()
	w.put(office, "two")
	w.pass(0)
	w.extra = "oauth:\n  corp: {token_command: [/bin/sh, -c, 'echo the vault is sealed >&2; exit 3']}\n"
	w.configure()
	r, _ := w.pass(75)
	said := r.Inboxes[0].Error
	if !strings.Contains(said, "oauth.corp.token_command: ") || !strings.Contains(said, "the vault is sealed") {
		t.Errorf("the error is %q, want what the program says", r.Inboxes[0].Error)
	}
}
