package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
)

// All SQL of the tokens, by primary keys, except the last. One text serves MySQL, MariaDB and
// SQLite.
const (
	sqlToken    = `SELECT app, sealed, generation, login_needed, holder FROM oauth_tokens WHERE account = ?`
	sqlNewToken = `INSERT INTO oauth_tokens
		(account, inbox_id, app, sealed, generation, login_needed, holder, held_until)
		VALUES (?, ?, ?, '', 0, '', '', 0)`
	sqlHoldToken = `UPDATE oauth_tokens SET holder = ?, held_until = ? WHERE account = ? AND generation = ?
		AND (held_until <= ? OR holder = ?)`
	sqlRenewed = `UPDATE oauth_tokens SET app = ?, sealed = ?, generation = generation + 1,
		login_needed = '', holder = '', held_until = 0 WHERE account = ? AND generation = ?`
	sqlNeedsLogin = `UPDATE oauth_tokens SET login_needed = ?, holder = '', held_until = 0
		WHERE account = ? AND holder = ?`
	sqlLetGo = `UPDATE oauth_tokens SET holder = '', held_until = 0 WHERE account = ? AND holder = ?`
	// The holder stays: see row.interrupted.
	sqlCutShort = `UPDATE oauth_tokens SET held_until = 0 WHERE account = ? AND holder = ?`
	sqlLoggedIn = `UPDATE oauth_tokens SET app = ?, sealed = ?, generation = generation + 1,
		login_needed = '', holder = '', held_until = 0 WHERE account = ?`
	sqlEndPause = `UPDATE monitored_emails SET actions_at = 0 WHERE id = ?`
	sqlAll      = `SELECT account, app, sealed, login_needed FROM oauth_tokens` // a row for each inbox
)

// row is what the database has of an account's token.
type row struct {
	Account     string // of sqlAll
	App         string
	Sealed      string
	Generation  int64
	LoginNeeded string
	Holder      string
	now         time.Time // by the database's clock
}

// interrupted reports that the last renewal by another holder did not end: its process was killed,
// or the provider's answer did not come. Whether the provider has taken the refresh token is not
// known then.
func (r row) interrupted(holder string) bool { return r.Holder != "" && r.Holder != holder }

// token is what is stored, as JSON.
type token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"`
	Issued  time.Time `json:"issued"`
	Again   bool      `json:"again,omitempty"` // issued because a server refused the one before
	Expires time.Time `json:"expires"`
	By      string    `json:"by,omitempty"` // see Store.By
}

// open reads the token. A token that was not made for this account counts as none.
func (s *Store) open(a Account, r row) (token, error) {
	var out token
	if r.Sealed == "" || r.App != a.App.Name {
		return out, nil // as if there never was one
	}
	text, err := s.Inboxes.Decrypt(r.Sealed, a.Binding())
	if errors.Is(err, inbox.ErrBinding) {
		if a.App.Personal() {
			return out, &LoginNeededError{a, "the server, the username or the application was changed since " +
				"the login, or the key in secrets.key_file is not the one that encrypted the token"}
		}
		return out, nil // another one takes its place
	}
	if err != nil {
		return out, fmt.Errorf("the token of %s is not used: %w; log in again with `%s`", a.Name, err, a.Login)
	}
	return out, json.Unmarshal([]byte(text), &out)
}

func (s *Store) read(ctx context.Context, key string) (r row, err error) {
	err = s.DB.View(ctx, func(tx *gorm.DB) error {
		r = row{}
		if err := tx.Raw(sqlToken, key).Scan(&r).Error; err != nil {
			return err
		}
		r.now, err = s.DB.Now(tx)
		return err
	})
	return r, err
}

// ensure makes the row of an account when there is none.
func (s *Store) ensure(ctx context.Context, a Account) error {
	var of *int64
	if a.InboxID != 0 {
		of = &a.InboxID
	}
	err := s.DB.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlNewToken, a.Key, of, a.App.Name) })
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return nil
	}
	return err
}

// exec runs one UPDATE in a transaction, and reports whether it changed the row.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (changed bool, err error) {
	err = s.DB.Tx(ctx, func(tx *gorm.DB) error {
		n, err := db.Exec(tx, sql, args...)
		changed = n == 1
		return err
	})
	return changed, err
}

// Needed says of which inboxes, by their ids, a person has to log in, and why; key 0 is the relay.
// relay is nil when it gets no tokens.
func (s *Store) Needed(ctx context.Context, apps map[string]*oauth.App, relay *Account) (map[int64]string, error) {
	personal := func(app *oauth.App) bool { return app != nil && app.Personal() }
	if !slices.ContainsFunc(slices.Collect(maps.Values(apps)), personal) {
		return nil, nil
	}
	rows, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	boxes, err := s.Inboxes.List(ctx)
	out := map[int64]string{}
	need := func(a Account) {
		var login *LoginNeededError
		if errors.As(s.needed(a, rows[a.Key]), &login) {
			out[a.InboxID] = login.Reason
		}
	}
	if relay != nil && personal(relay.App) {
		need(*relay)
	}
	for _, in := range boxes {
		if name, err := s.Inboxes.OAuth(in); err == nil && personal(apps[name]) {
			need(ForInbox(in, apps[name]))
		}
	}
	return out, err
}

// needed is the error of Access as far as the row decides it.
func (s *Store) needed(a Account, r row) error {
	tok, err := s.open(a, r)
	if err == nil {
		_, _, err = r.current(a, tok, "")
	}
	return err
}

// all are the rows of all accounts.
func (s *Store) all(ctx context.Context) (map[string]row, error) {
	into := func(r *row) []any { return []any{&r.Account, &r.App, &r.Sealed, &r.LoginNeeded} }
	rows, err := db.Read(ctx, s.DB, into, sqlAll)
	if err != nil {
		return nil, fmt.Errorf("list the logins that are needed: %w", err)
	}
	out := map[string]row{}
	for _, r := range rows {
		out[r.Account] = r
	}
	return out, nil
}
