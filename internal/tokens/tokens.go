// Package tokens gives out OAuth2 access tokens of inboxes and of the relay, and renews them.
//
// The tokens are in the database, encrypted for the account and the application. Of all processes
// on all hosts, only one at a time renews the token of an account, under a lease in its row. The
// others wait for the new token. So a provider that accepts each refresh token only once does not
// see one twice, with two exceptions: a process was killed between the provider's answer and the
// commit, or the database could not be written for longer than the process waits. Then a person may
// have to log in again, and the error says why.
//
// If a person has to log in, the error is a *LoginNeededError, and the provider is not asked. A
// provider that is down is asked at most every 30 seconds; meanwhile a token that is still valid is
// used.
package tokens

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// Store keeps the tokens in the database. It is safe for concurrent use.
type Store struct {
	DB      *db.DB
	Inboxes *inbox.Store // encrypts what is stored, too
	Worker  string       // names this process in leases
	// Helper runs a program that prints a token.
	Helper func(ctx context.Context, command []string) (string, error)
	Log    *slog.Logger // nil for none

	mu   sync.Mutex
	down map[string]outage // by application, see whole, and by the Key of an account

	wait, keep, keepStopped time.Duration // for tests; zero for the constants below
}

// Account is whose token it is.
type Account struct {
	Key     string // see ForInbox and ForRelay
	InboxID int64  // 0 for the relay
	App     *oauth.App
	Use     oauth.Use
	Name    string // at the server, and at the provider
	Login   string // the command that logs in
	// Server is where tokens are sent: a token is encrypted for it. So whoever can write the
	// database cannot have a token sent elsewhere.
	Server []string
}

// Binding is what the token of an account is encrypted for.
func (a Account) Binding() []byte {
	bound := []string{"postrider token", a.Key, a.App.Name, a.App.ClientID, a.App.Tenant, a.App.Issuer, a.Name}
	return inbox.Bind(append(bound, a.Server...)...)
}

// ForInbox is the account of an inbox. An application that acts for itself has one token for all;
// which inboxes may use it is encrypted with each of them.
func ForInbox(in inbox.Inbox, app *oauth.App) Account {
	a := Account{
		Key: fmt.Sprintf("inbox:%d", in.ID), InboxID: in.ID, App: app, Use: oauth.IMAP, Name: in.Username,
		Login:  "postrider inbox login " + text.Arg(in.Address),
		Server: []string{in.Address, in.Server(), in.CAFile, in.TLSFingerprint, in.ClientCert},
	}
	return a.shared()
}

// ForRelay is the account at the relay, which is host:port and security.
func ForRelay(relay, username string, app *oauth.App) Account {
	return Account{
		Key: "relay", App: app, Use: oauth.SMTP, Name: username, Login: "postrider smtp login", Server: []string{relay},
	}.shared()
}

func (a Account) shared() Account {
	if a.App.Way() == oauth.Application {
		a.Key, a.InboxID, a.Name, a.Server = fmt.Sprintf("app:%s:%s", a.App.Name, a.Use), 0, a.App.Name, nil
	}
	return a
}

// LoginNeededError says that a person has to log in, and with which command.
type LoginNeededError struct {
	Account Account
	Reason  string
}

func (e *LoginNeededError) Error() string {
	return fmt.Sprintf("needs login: %s; log in with `%s`", e.Reason, e.Account.Login)
}

// NeedsLogin marks the error for package imapsrc.
func (e *LoginNeededError) NeedsLogin() {}

// outage is a provider that cannot be reached, or that refuses the application for an account:
// other accounts may be of other organizations. It is left alone for a while: a thousand inboxes do
// not ask it one after the other.
type outage struct {
	err   error
	until time.Time
}

// Lease is for one renewal of a token: at most 30 s of it for the provider.
const Lease = 3 * time.Minute

const (
	margin = 5 * time.Minute        // before its end, a token is renewed
	look   = 100 * time.Millisecond // how often it looks whether another process is done
	// spare is how long a token has to last that is used while another process renews it, or while
	// the provider is down.
	spare       = time.Minute
	maxWait     = time.Minute // for another process
	outagePause = 30 * time.Second
	// pause is how long nothing is renewed after a server has refused two tokens: it is not the
	// token that it refuses.
	pause = 10 * time.Minute
)

// Access returns a token that is good for five more minutes, or for half of its life if that is
// less. refused is a token that the server does not take: another one is returned, or the same one
// when it is not the token that the server refuses (see pause). When a person has to log in, the
// error is a *LoginNeededError.
func (s *Store) Access(ctx context.Context, a Account, refused string) (string, error) {
	if a.App.Way() == oauth.Helper {
		return s.help(ctx, a, refused)
	}
	holder := s.Worker + ":" + rand.Text()[:8]
	until := time.Now().Add(cmp.Or(s.wait, maxWait))
	for {
		r, tok, err := s.load(ctx, a)
		if err != nil {
			return "", err
		}
		access, done, err := r.current(a, tok, refused)
		if !done {
			access, done, err = s.replace(ctx, a, r, tok, holder, refused)
		}
		switch {
		case done:
			return access, err
		case time.Now().After(until):
			return "", fmt.Errorf("another process (%s) is still renewing the token of %s; the next pass tries again",
				r.Holder, a.Name)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (s *Store) load(ctx context.Context, a Account) (row, token, error) {
	r, err := s.read(ctx, a.Key)
	if err != nil {
		return r, token{}, fmt.Errorf("read the token of %s: %w", a.Name, err)
	}
	tok, err := s.open(a, r)
	return r, tok, err
}

// current is what the row decides alone. done is false when another token has to be got.
func (r row) current(a Account, tok token, refused string) (access string, done bool, _ error) {
	switch {
	case r.App == a.App.Name && r.LoginNeeded != "":
		return "", true, &LoginNeededError{a, r.LoginNeeded}
	case tok.Access != refused && tok.good(r.now):
		return tok.Access, true, nil
	case tok.Access == refused && tok.Again && r.now.Sub(tok.Issued) < pause && !tok.Issued.After(r.now):
		return tok.Access, true, nil
	case tok.Access == "" && a.App.Personal():
		return "", true, &LoginNeededError{a, "there was no login with " + a.App.Name + " yet"}
	}
	return "", false, nil
}

// replace renews the token, unless another process does; then done is false. A token that lasts is
// used meanwhile, and while the provider is down.
func (s *Store) replace(
	ctx context.Context, a Account, r row, tok token, holder, refused string,
) (access string, done bool, err error) {
	lasts := tok.Access != refused && tok.Expires.Sub(r.now) > spare
	if err = s.outage(a); err == nil {
		var held bool
		if held, err = s.hold(ctx, a, r, holder); err == nil && !held {
			return tok.Access, lasts, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("renew the token of %s: %w", a.Name, err)
	} else {
		access, err = s.renew(ctx, a, r, tok, holder, refused != "")
	}
	if err != nil && lasts && s.outage(a) != nil {
		return tok.Access, true, nil
	}
	return access, true, err
}

// good reports that a token need not be renewed.
func (t token) good(now time.Time) bool {
	return t.Access != "" && t.Expires.Sub(now) > min(margin, t.Expires.Sub(t.Issued)/2)
}

// hold takes the lease, unless another process has it or has renewed the token meanwhile.
func (s *Store) hold(ctx context.Context, a Account, r row, holder string) (bool, error) {
	if r.App == "" {
		if err := s.ensure(ctx, a); err != nil {
			return false, err
		}
	}
	var began time.Time
	held := false
	err := s.DB.Tx(ctx, func(tx *gorm.DB) error {
		began = time.Now()
		now, err := s.DB.Now(tx)
		if err != nil {
			return err
		}
		at, until := now.UnixMicro(), now.Add(Lease).UnixMicro()
		n, err := db.Exec(tx, sqlHoldToken, holder, until, a.Key, r.Generation, at, holder)
		held = n == 1
		return err
	})
	// A commit that took long leaves too little of the lease for the provider.
	return held && time.Since(began) < Lease/4, err
}

// renew asks the provider, under the lease. It does not end with ctx: the provider may have taken
// the old refresh token already, and its answer is stored then.
func (s *Store) renew(ctx context.Context, a Account, r row, old token, holder string, again bool) (string, error) {
	stopped := ctx.Done()
	ctx = context.WithoutCancel(ctx)
	got, err := a.App.Renew(ctx, a.Use, a.Name, oauth.Token{Access: old.Access, Refresh: old.Refresh})
	var login *oauth.LoginError
	switch {
	case errors.As(err, &login):
		reason := login.Reason
		if r.interrupted(holder) {
			reason += "; an earlier renewal was cut short, so its token was not stored, which may be why"
		}
		noted, err := s.exec(ctx, sqlNeedsLogin, reason, a.Key, holder)
		if err == nil && !noted { // as below
			return s.Access(ctx, a, "")
		}
		if err != nil {
			return "", fmt.Errorf("record that %s needs a login: %w", a.Name, err)
		}
		return "", &LoginNeededError{a, reason}
	case err != nil:
		if errors.As(err, new(*oauth.AppError)) {
			s.setOutage(a.Key, err)
		} else {
			s.setOutage(a.whole(), err)
		}
		letGo := sqlCutShort
		if oauth.Answered(err) {
			letGo = sqlLetGo
		}
		_, failed := s.exec(ctx, letGo, a.Key, holder)
		return "", errors.Join(err, failed)
	}
	sealed, err := s.seal(ctx, a, got, r.now, old.By, again)
	if err != nil {
		return "", err
	}
	stored, err := s.store(ctx, stopped, a, sealed, r.Generation)
	if err != nil {
		return "", err
	}
	if !stored { // another process took over, or somebody logged in, or the answer to the commit was lost
		return s.Access(ctx, a, "")
	}
	return got.Access, nil
}

// Try returns a token to try an account with that is not stored yet, and stores nothing. It is for
// applications that need no login of a person.
func (s *Store) Try(ctx context.Context, a Account) (string, error) {
	if a.App.Way() == oauth.Helper {
		return s.help(ctx, a, "")
	}
	got, err := a.App.Renew(ctx, a.Use, a.Name, oauth.Token{})
	return got.Access, err
}

// help has the helper print a token; {account} in its arguments is the account's name. It is asked
// once for each login: it would print the same token again.
func (s *Store) help(ctx context.Context, a Account, refused string) (string, error) {
	if refused != "" {
		return "", fmt.Errorf("it came from oauth.%s.token_command; check what that prints for %s", a.App.Name, a.Name)
	}
	command := make([]string, len(a.App.Command))
	for i, arg := range a.App.Command {
		command[i] = strings.ReplaceAll(arg, "{account}", a.Name)
	}
	out, err := s.Helper(ctx, command)
	if err != nil {
		return "", fmt.Errorf("oauth.%s.token_command: %w", a.App.Name, err)
	}
	if err := secret.OneLine(out); err != nil {
		return "", fmt.Errorf("oauth.%s.token_command: the token %w", a.App.Name, err)
	}
	return out, nil
}

// whole stands for all accounts of the application, in Store.down.
func (a Account) whole() string { return "oauth." + a.App.Name }

func (s *Store) outage(a Account) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range []string{a.whole(), a.Key} {
		if o := s.down[of]; time.Now().Before(o.until) {
			return o.err
		}
	}
	return nil
}

func (s *Store) setOutage(of string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		s.down = map[string]outage{}
	}
	s.down[of] = outage{errors.New(text.Error(err)), time.Now().Add(outagePause)}
}
