package tokens

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"postrider/internal/oauth"
)

// onWarning calls do when something is logged.
type onWarning struct {
	slog.Handler
	do func()
}

func (h onWarning) Enabled(context.Context, slog.Level) bool { return true }

func (h onWarning) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

// away has the database refuse to store what the provider gives out, until back is called.
func (b bench) away() (back func()) {
	b.provider.answer = func() { b.exec("ALTER TABLE oauth_tokens RENAME COLUMN generation TO away") }
	return func() { b.exec("ALTER TABLE oauth_tokens RENAME COLUMN away TO generation") }
}

// TestStoredLater: the database does not take the new token at first.
func TestStoredLater(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		b.Log = slog.New(onWarning{slog.DiscardHandler, b.away()})
		b.want("a1", "")
		b.want("a1", "")
		b.wantAsked(1)
	})
}

// TestTokenIsLost: the database does not take the new token at all, or not before the process has
// to stop. It says so at once, and when the provider does not take the old refresh token.
func TestTokenIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		back := b.away()
		for name, lose := range map[string]func() context.Context{
			"too late": func() context.Context {
				b.keep = time.Nanosecond
				return t.Context()
			},
			"stopped": func() context.Context {
				ctx, stop := context.WithCancel(t.Context())
				b.keep, b.keepStopped = 0, time.Nanosecond
				b.Log = slog.New(onWarning{slog.DiscardHandler, stop})
				return ctx
			},
		} {
			b.logIn(-time.Second)
			b.provider.n = 0
			_, err := b.Access(lose(), b.acct, "")
			want := "the new token of ann@firm.example could not be stored, and is lost"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is %v, want that the token is lost", name, err)
			}
			back()
			b.exec("UPDATE oauth_tokens SET held_until = 1") // the lease ends
			b.wantNeeded("an earlier renewal was cut short, so its token was not stored")
		}
	})
}

// TestTakenOver: another process has taken the lease over, because the answer came late. Both use
// the token that comes first.
func TestTakenOver(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.logIn(-time.Second)
		b.wait = time.Second
		b.provider.answer = func() { b.exec("UPDATE oauth_tokens SET holder = 'other', held_until = 9000000000000000") }
		b.want("a1", "")
		b.want("a1", "")
	})
}

// nearlyOver stores a token that lasts for two more minutes.
func (b bench) nearlyOver() {
	b.t.Helper()
	b.logIn(time.Hour)
	old, issued := oauth.Token{Access: "old", Refresh: "r0", Lifetime: time.Hour}, time.Now().Add(-58*time.Minute)
	sealed, err := b.seal(b.t.Context(), b.acct, old, issued, "", false)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Store.exec(b.t.Context(), sqlLoggedIn, "corp", sealed, b.acct.Key); err != nil {
		b.t.Fatal(err)
	}
}

// TestOutageBeforeTheEnd: a provider that is down costs nothing while the token still lasts.
func TestOutageBeforeTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.nearlyOver()
		b.provider.fail(http.StatusServiceUnavailable, "")
		b.want("old", "")
		b.want("old", "")
		b.wantRefused("old", "gives no token now")
		b.wantAsked(1)
		b.nearlyOver()
		b.provider.fail(http.StatusBadRequest, `{"error":"invalid_grant"}`)
		b.Store = &Store{DB: b.DB, Inboxes: b.Inboxes, Worker: "next pass"}
		b.wantNeeded("invalid_grant")
	})
}

// TestRenewedElsewhere: a token that still lasts is used while another process renews it. One that
// does not is waited for, and not for ever.
func TestRenewedElsewhere(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.nearlyOver()
		b.exec("UPDATE oauth_tokens SET holder = 'other', held_until = 9000000000000000")
		b.wait = time.Nanosecond
		b.want("old", "")
		b.wantRefused("old", "another process (other) is still renewing the token of ann@firm.example")
		b.wantAsked(0)
	})
}
