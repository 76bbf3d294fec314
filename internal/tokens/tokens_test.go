package tokens

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
)

func TestAccess(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.wantNeeded("there was no login with corp yet")
		b.logIn(time.Hour)
		b.want("a0", "")
		b.want("a0", "another") // which was renewed by another process meanwhile
		b.wantAsked(0)
		b.logIn(-time.Second)
		b.want("a1", "")
		b.want("a1", "")
		b.want("a2", "a1")
		b.want("a2", "a2") // no third token at once
		var stored string
		err := b.DB.View(t.Context(), func(tx *gorm.DB) error {
			return tx.Raw("SELECT sealed FROM oauth_tokens").Scan(&stored).Error
		})
		if err != nil || !strings.HasPrefix(stored, "v1:") || strings.Contains(stored, `"r2"`) {
			t.Errorf("the database has %q (%v), want ciphertext", stored, err)
		}
	})
}

func TestMargin(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		issued, expires time.Duration
		want            bool
	}{
		{0, time.Hour, true},
		{-54 * time.Minute, 6 * time.Minute, true},
		{-56 * time.Minute, 4 * time.Minute, false},
		{-time.Minute, 4 * time.Minute, true}, // a life of five minutes
		{-3 * time.Minute, 2 * time.Minute, false},
		{-time.Hour, -time.Second, false},
		{0, -time.Second, false},
	} {
		tok := token{Access: "a", Issued: now.Add(tt.issued), Expires: now.Add(tt.expires)}
		if got := tok.good(now); got != tt.want {
			t.Errorf("issued %s and good until %s: %v, want %v", tt.issued, tt.expires, got, tt.want)
		}
	}
}

// TestRefusedTwice: after two tokens that a server refused, the next one is asked for after a
// pause, but not after a clock that was ahead when the last one was issued.
func TestRefusedTwice(t *testing.T) {
	now := time.Now()
	for issued, want := range map[time.Duration]bool{
		-pause / 2: true, -pause - time.Second: false, 72 * time.Hour: false,
	} {
		tok := token{Access: "a", Again: true, Issued: now.Add(issued), Expires: now.Add(100 * time.Hour)}
		_, waits, err := row{now: now}.current(Account{App: &oauth.App{}}, tok, "a")
		if waits != want || err != nil {
			t.Errorf("issued %v from now: it waits %t, %v; want %t", issued, waits, err, want)
		}
	}
}

// TestOneRenews has several processes renew a token at once.
func TestOneRenews(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				s := &Store{DB: b.DB, Inboxes: b.Inboxes, Worker: fmt.Sprint("host", i)}
				bench{s, t, b.acct, b.provider}.want("a1", "")
			})
		}
		all.Wait()
		b.wantAsked(1)
	})
}

func TestLoginNeeded(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		b.provider.fail(http.StatusBadRequest, `{"error":"invalid_grant","error_description":"gone"}`)
		for range 3 {
			b.wantNeeded("needs login: corp refuses the login (invalid_grant: gone)")
		}
		b.wantAsked(1)
		b.logIn(time.Hour)
		b.want("a0", "")
	})
}

// TestLoginEndsPause: a login ends the pause of the actions of its inbox, and of no other.
func TestLoginEndsPause(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		ann := b.add("ann@firm.example", "oauth:corp")
		b.add("bob@firm.example", "oauth:corp")
		b.exec("UPDATE monitored_emails SET actions_at = 5")
		b.logIn(time.Hour) // of the relay
		want := func(after string, want ...int64) {
			t.Helper()
			at, err := db.Read(t.Context(), b.DB, db.Value[int64],
				"SELECT actions_at FROM monitored_emails ORDER BY id")
			if err != nil || !slices.Equal(at, want) {
				t.Errorf("after the login of %s the pauses end at %d, %v; want %d", after, at, err, want)
			}
		}
		want("the relay", 5, 5)
		b.acct = ForInbox(ann, b.acct.App)
		b.logIn(time.Hour)
		want("ann", 0, 5)
	})
}

// TestBy: who logged in for an account is known until somebody else does, also after a renewal, and
// when the provider wants the next login.
func TestBy(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		want := func(who string) {
			t.Helper()
			if got := b.By(t.Context(), b.acct); got != who {
				t.Errorf("%q logged in, want %q", got, who)
			}
		}
		want("")
		b.logIn(-time.Second)
		b.want("a1", "")
		want("bob@firm.example")
		b.provider.fail(http.StatusBadRequest, `{"error":"invalid_grant"}`)
		b.wantRefused("a1", "")
		want("bob@firm.example")
		if err := b.LoggedIn(t.Context(), b.acct, oauth.Token{Access: "a2"}, ""); err != nil {
			t.Fatal(err)
		}
		want("")
	})
}

// TestNeeded: who needs a login is known without a pass, also where nobody has logged in yet.
func TestNeeded(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		apps := map[string]*oauth.App{"corp": b.acct.App, "itself": {Name: "itself", Flow: oauth.Application}}
		b.add("password@firm.example", "secret")
		b.add("itself@firm.example", "oauth:itself")
		b.add("gone@firm.example", "oauth:gone") // the configuration does not have it any more
		office := b.add("office@firm.example", "oauth:corp")
		want := func(relay *Account, want map[int64]string) {
			t.Helper()
			if needed, err := b.Needed(t.Context(), apps, relay); err != nil || !maps.Equal(needed, want) {
				t.Errorf("logins are needed of %v (%v), want %v", needed, err, want)
			}
		}
		const never = "there was no login with corp yet"
		relay := b.acct
		want(nil, map[int64]string{office.ID: never})
		want(&relay, map[int64]string{0: never, office.ID: never})
		b.logIn(-time.Second) // which is renewed without a person
		b.acct = ForInbox(office, b.acct.App)
		b.logIn(time.Hour)
		want(&relay, map[int64]string{})

		b.provider.fail(http.StatusBadRequest, `{"error":"invalid_grant"}`)
		if _, err := b.Access(t.Context(), relay, ""); err == nil {
			t.Error("the provider refuses the login, and there is no error")
		}
		want(&relay, map[int64]string{0: "corp refuses the login (invalid_grant)"})
		if _, err := b.Inboxes.Set(t.Context(), office.Address, inbox.Changes{Username: new("bob")}); err != nil {
			t.Fatal(err)
		}
		itself := Account{Key: "relay", App: apps["itself"], Use: oauth.SMTP}
		want(&itself, map[int64]string{office.ID: changedSince})
		delete(apps, "corp")
		want(&relay, nil)
	})
}

// TestInterrupted is a process that was killed before the provider took the refresh token, and one
// that was killed after that.
func TestInterrupted(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		b.exec("UPDATE oauth_tokens SET holder = 'dead', held_until = 1")
		b.want("a1", "")

		b.logIn(-time.Second)
		b.exec("UPDATE oauth_tokens SET holder = 'dead', held_until = 1")
		b.provider.n = 7 // it has given out others
		b.wantNeeded("an earlier renewal was cut short, so its token was not stored")
	})
}

// TestOutage: a provider that is down, or refuses the application, asks for no login, and is not
// asked for each inbox.
func TestOutage(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		for i, tt := range []struct {
			status       int
			answer, says string
		}{
			{http.StatusServiceUnavailable, "", "gives no token now"},
			{http.StatusUnauthorized, `{"error":"invalid_client"}`, "oauth.corp.client_id"},
		} {
			b.provider.fail(tt.status, tt.answer)
			b.Store = &Store{DB: b.DB, Inboxes: b.Inboxes, Worker: "pass"}
			for range 3 {
				_, err := b.Access(t.Context(), b.acct, "")
				if err == nil || errors.As(err, new(*LoginNeededError)) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the error is %v, want %q", err, tt.says)
				}
			}
			b.wantAsked(i + 1) // once in a pass
		}
		b.provider.fail(0, "")
		next := bench{&Store{DB: b.DB, Inboxes: b.Inboxes, Worker: "next pass"}, t, b.acct, b.provider}
		next.want("a1", "")
	})
}

// TestRefusedForOneAccount: an organization that disables the application does not stop accounts of
// others. It is asked once.
func TestRefusedForOneAccount(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		b.provider.fail(http.StatusBadRequest, `{"error":"unauthorized_client",`+
			`"error_description":"AADSTS7000112: Application is disabled."}`)
		for range 3 {
			b.wantRefused("", "AADSTS7000112")
		}
		b.wantAsked(1)
		b.provider.fail(0, "")
		other := b
		other.acct.Key, other.acct.Name = "relay of others", "bob@other.example"
		other.logIn(-time.Second)
		other.want("a1", "")
	})
}

// TestAnotherApplication: a token is for the application that it was made for, and nobody who can
// write the database can give it to another.
func TestAnotherApplication(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(time.Hour)
		b.acct.App = &oauth.App{Name: "other", ClientID: "id", Issuer: b.provider.URL, Flow: oauth.Browser}
		b.wantNeeded("there was no login with other yet")
		b.exec("UPDATE oauth_tokens SET app = 'other'")
		b.wantNeeded(changedSince)
	})
}

// changedSince is why a token that was encrypted for something else is not used.
const changedSince = "the server, the username or the application was changed since the login, " +
	"or the key in secrets.key_file is not the one that encrypted the token"

// TestTokenIsBound: a token goes to the server and the account that it was made for, whatever
// somebody else wrote into the database, or an operator into the configuration.
func TestTokenIsBound(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.exec("INSERT INTO monitored_emails (id, email_address, email_password, description, is_active, host, port, " +
			"security, allow_plaintext, username, auth, ca_file, tls_fingerprint, client_cert, start, last_error, " +
			"scan_holder, scan_token, scan_until, created_at, updated_at) " +
			"VALUES (1, 'ann@firm.example', '', '', 1, 'h', 993, 'tls', 0, 'ann', 'auto', '', '', '', 'now', '', " +
			"'', 0, 0, '2026-01-01', '2026-01-01')")
		for name, change := range map[string]func(*inbox.Inbox, *oauth.App){
			"host":     func(in *inbox.Inbox, _ *oauth.App) { in.Host = "imap.evil.example" },
			"username": func(in *inbox.Inbox, _ *oauth.App) { in.Username = "bob" },
			// Whose inbox got the ID of Ann's.
			"address": func(in *inbox.Inbox, _ *oauth.App) { in.Address = "eve@evil.example" },
			"client":  func(_ *inbox.Inbox, app *oauth.App) { app.ClientID = "another" },
			"issuer":  func(_ *inbox.Inbox, app *oauth.App) { app.Issuer = "https://evil.example" },
		} {
			in := inbox.Inbox{
				ID: 1, Address: "ann@firm.example", Host: "imap.firm.example", Port: 993,
				Security: inbox.TLS, Username: "ann",
			}
			app := &oauth.App{Name: "corp", ClientID: "id", Issuer: b.provider.URL, Flow: oauth.Browser}
			b.acct = ForInbox(in, app)
			b.logIn(time.Hour)
			b.want("a0", "")
			change(&in, app)
			b.acct = ForInbox(in, app)
			_, err := b.Access(t.Context(), b.acct, "")
			if err == nil || !strings.Contains(err.Error(), "was changed since the login") {
				t.Errorf("%s: the error is %v, want that it was changed since the login", name, err)
			}
		}
	})
}

// TestApplication has one token for all inboxes.
func TestApplication(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		app := &oauth.App{
			Name: "corp", ClientID: "id", ClientSecret: "s", Issuer: b.provider.URL, Flow: oauth.Application,
		}
		for id := range 3 {
			b.acct = ForInbox(inbox.Inbox{ID: int64(id + 1), Address: "ann@firm.example", Username: "ann"}, app)
			b.want("a1", "")
		}
	})
}

func TestHelper(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.Helper = func(_ context.Context, command []string) (string, error) { return strings.Join(command, "+"), nil }
		b.acct.App = &oauth.App{Name: "oama", Command: []string{"oama", "access", "{account}"}}
		b.want("oama+access+ann@firm.example", "")
		b.Helper = func(context.Context, []string) (string, error) { return "token\nlogin: ann", nil }
		b.wantRefused("", "oauth.oama.token_command: the token has 2 lines")
	})
}
