package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/inbox"
)

// All SQL of the tokens, by primary key, except the last. One text serves MySQL, MariaDB and
// SQLite.
const (
	sqlToken    = `SELECT app, sealed, generation, login_needed, holder, held_until FROM oauth_tokens WHERE account = ?`
	sqlNewToken = `INSERT INTO oauth_tokens (account, inbox_id, app, sealed, generation, login_needed, holder, held_until)
		VALUES (?, ?, ?, '', 0, '', '', 0)`
	sqlHoldToken = `UPDATE oauth_tokens SET holder = ?, held_until = ? WHERE account = ? AND generation = ?
		AND (held_until <= ? OR holder = ?)`
	sqlRenewed = `UPDATE oauth_tokens SET app = ?, sealed = ?, generation = generation + 1, login_needed = '', holder = '', held_until = 0
		WHERE account = ? AND generation = ?`
	sqlNeedsLogin = `UPDATE oauth_tokens SET login_needed = ?, holder = '', held_until = 0 WHERE account = ? AND holder = ?`
	sqlLetGo      = `UPDATE oauth_tokens SET holder = '', held_until = 0 WHERE account = ? AND holder = ?`
	// The holder stays: see row.interrupted.
	sqlCutShort = `UPDATE oauth_tokens SET held_until = 0 WHERE account = ? AND holder = ?`
	sqlLoggedIn = `UPDATE oauth_tokens SET app = ?, sealed = ?, generation = generation + 1, login_needed = '', holder = '', held_until = 0
		WHERE account = ?`
	sqlNeeded = `SELECT inbox_id, app, login_needed FROM oauth_tokens WHERE login_needed <> ''` // a row for each inbox
)

// row is what the database has of an account's token.
type row struct {
	App         string
	Sealed      string
	Generation  int64
	LoginNeeded string
	Holder      string
	HeldUntil   int64
	now         int64 // by the database's clock
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
}

func (s *Store) open(a Account, r row) (token, error) {
	var out token
	if r.Sealed == "" || r.App != a.App.Name {
		return out, nil // as if there never was one
	}
	text, err := s.Box.Decrypt(r.Sealed, a.Binding())
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
	err := s.DB.Tx(ctx, func(tx *gorm.DB) error { return tx.Exec(sqlNewToken, a.Key, of, a.App.Name).Error })
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return nil
	}
	return err
}

// exec runs one UPDATE in a transaction, and reports whether it changed the row.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (changed bool, err error) {
	err = s.DB.Tx(ctx, func(tx *gorm.DB) error {
		res := tx.Exec(sql, args...)
		changed = res.RowsAffected == 1
		return res.Error
	})
	return changed, err
}

// Inboxes is what Needed needs of *inbox.Store.
type Inboxes interface {
	List(ctx context.Context, activeOnly bool) ([]inbox.Inbox, error)
	OAuth(in inbox.Inbox) (app string, _ error)
}

// Needed says of which inboxes, by their ids, a person has to log in, and why; key 0 is the relay.
// Whoever has a password now, or another application than at the last login, does not count. relay
// is the application of the relay; empty for none.
func (s *Store) Needed(ctx context.Context, inboxes Inboxes, relay string) (map[int64]string, error) {
	rows, err := s.needed(ctx)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	apps := map[int64]string{0: relay}
	boxes, err := inboxes.List(ctx, false)
	for _, in := range boxes {
		if app, err := inboxes.OAuth(in); err == nil {
			apps[in.ID] = app
		}
	}
	out := map[int64]string{}
	for _, r := range rows {
		if apps[r.InboxID] == r.App {
			out[r.InboxID] = r.LoginNeeded
		}
	}
	return out, err
}

// neededRow is a row of sqlNeeded; the inbox of the relay is 0.
type neededRow struct {
	InboxID          int64
	App, LoginNeeded string
}

func (s *Store) needed(ctx context.Context) (rows []neededRow, _ error) {
	err := s.DB.View(ctx, func(tx *gorm.DB) error {
		rows = nil
		return tx.Raw(sqlNeeded).Scan(&rows).Error
	})
	if err != nil {
		return nil, fmt.Errorf("list the logins that are needed: %w", err)
	}
	return rows, nil
}
