package tokens

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// bench is a store on a new database, and a provider that rotates refresh tokens.
type bench struct {
	*Store
	t        *testing.T
	acct     Account
	provider *provider
}

// provider gives out access tokens a1, a2, ... and with each a refresh token that is good once.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	n      int    // of the last token
	fails  string // what it answers in place of a token
	status int
	seen   []string // refresh tokens
	answer func()   // called before it answers; nil for nothing
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/.well-known") {
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":"%s/token"}`, p.URL, p.URL)
		return
	}
	refresh := r.FormValue("refresh_token")
	p.seen = append(p.seen, refresh)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
		_, _ = fmt.Fprint(w, p.fails)
	case r.FormValue("grant_type") == "refresh_token" && refresh != fmt.Sprint("r", p.n):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant"}`)
	default:
		p.n++
		if p.answer != nil {
			p.answer()
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"a%d","refresh_token":"r%d","expires_in":3600}`, p.n, p.n)
	}
}

func (p *provider) fail(status int, answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.fails = status, answer
}

func (p *provider) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

func onEach(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	for name, cfg := range map[string]func(*testing.T) db.Config{
		"sqlite": func(t *testing.T) db.Config {
			return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
		},
		"mariadb": func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := db.OpenAnySchema(t.Context(), cfg(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			if _, err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			p := &provider{}
			p.Server = httptest.NewServer(p)
			t.Cleanup(p.Close)
			inboxes := inbox.New(d, inbox.OpenSealer(filepath.Join(t.TempDir(), "key")))
			s := &Store{DB: d, Inboxes: inboxes, Worker: "here"}
			app := &oauth.App{Name: "corp", ClientID: "id", Issuer: p.URL, Flow: oauth.Browser}
			test(t, bench{s, t, ForRelay("smtp.firm.example:587 starttls", "ann@firm.example", app), p})
		})
	}
}

// logIn stores a token with that life.
func (b bench) logIn(life time.Duration) {
	b.t.Helper()
	tok := oauth.Token{Access: "a0", Refresh: "r0", Lifetime: life}
	if err := b.LoggedIn(b.t.Context(), b.acct, tok, "bob@firm.example"); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) want(token, refused string) {
	b.t.Helper()
	if got, err := b.Access(b.t.Context(), b.acct, refused); got != token || err != nil {
		b.t.Errorf("the token is %q (%v), want %q", got, err, token)
	}
}

func (b bench) wantNeeded(says ...string) {
	b.t.Helper()
	_, err := b.Access(b.t.Context(), b.acct, "")
	var needed *LoginNeededError
	if !errors.As(err, &needed) {
		b.t.Fatalf("the error is %v, want that somebody has to log in", err)
	}
	for _, s := range append(says, "log in with `postrider smtp login`") {
		if !strings.Contains(err.Error(), s) {
			b.t.Errorf("the error is %q, want %q in it", err, s)
		}
	}
}

// wantRefused checks that there is no token, and that the error says why.
func (b bench) wantRefused(refused, says string) {
	b.t.Helper()
	if _, err := b.Access(b.t.Context(), b.acct, refused); err == nil || !strings.Contains(err.Error(), says) {
		b.t.Errorf("the error is %v, want %q", err, says)
	}
}

// wantAsked checks how often the provider was asked.
func (b bench) wantAsked(times int) {
	b.t.Helper()
	if n := b.provider.asked(); n != times {
		b.t.Errorf("the provider was asked %d times, want %d", n, times)
	}
}

// add makes an inbox.
func (b bench) add(address, password string) inbox.Inbox {
	b.t.Helper()
	in, err := b.Inboxes.Add(b.t.Context(), inbox.Inbox{Address: address, Host: "imap.firm.example"}, password)
	if err != nil {
		b.t.Fatal(err)
	}
	return in
}

func (b bench) exec(query string) {
	b.t.Helper()
	if err := b.DB.Tx(b.t.Context(), func(tx *gorm.DB) error { return tx.Exec(query).Error }); err != nil {
		b.t.Fatal(err)
	}
}
