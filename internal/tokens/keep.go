package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/oauth"
	"postrider/internal/text"
)

// How long a process tries to store what the provider gave out: the provider may take the old
// refresh token no more. A process that has to stop tries for keepStopped.
const (
	keep        = 10 * time.Minute
	keepStopped = 30 * time.Second
	keepPause   = 200 * time.Millisecond // the database waits for an outage itself
)

// store stores a renewed token, unless there is a newer one than that of this generation. Another
// process that has the lease by now gets this token, too.
func (s *Store) store(
	ctx context.Context, stopped <-chan struct{}, a Account, sealed string, generation int64,
) (bool, error) {
	end := time.Now().Add(cmp.Or(s.keep, keep))
	for failures := 0; ; failures++ {
		stored, err := s.exec(ctx, sqlRenewed, a.App.Name, sealed, a.Key, generation)
		if err == nil {
			return stored, nil
		}
		if !time.Now().Before(end) {
			return false, fmt.Errorf("the new token of %s could not be stored, and is lost: %w; "+
				"if %s does not take the old one any more, the next pass says that a login is needed",
				a.Name, err, a.App.Name)
		}
		if failures == 0 && s.Log != nil {
			s.Log.WarnContext(ctx, "could not store a new access token; trying again",
				"account", a.Name, "until", end.UTC(), "error", text.Error(err))
		}
		select {
		case <-time.After(keepPause):
		case <-stopped:
			stopped = nil
			if soon := time.Now().Add(cmp.Or(s.keepStopped, keepStopped)); soon.Before(end) {
				end = soon
			}
		}
	}
}

func (s *Store) seal(
	ctx context.Context, a Account, got oauth.Token, now time.Time, by string, again bool,
) (string, error) {
	text, err := json.Marshal(token{
		Access: got.Access, Refresh: got.Refresh,
		Issued: now.UTC(), Expires: now.Add(got.Lifetime).UTC(), By: by, Again: again,
	})
	if err != nil {
		return "", err
	}
	return s.Inboxes.Encrypt(ctx, string(text), a.Binding())
}

// LoggedIn stores the token of a login. by is the account that logged in, if it is another one that
// may open the mailbox; else empty. The login ends the pause of the actions on the inbox's server.
func (s *Store) LoggedIn(ctx context.Context, a Account, got oauth.Token, by string) error {
	r, err := s.read(ctx, a.Key)
	if err != nil {
		return err
	}
	sealed, err := s.seal(ctx, a, got, r.now, by, false)
	if err == nil {
		err = s.ensure(ctx, a)
	}
	if err == nil {
		err = s.DB.Tx(ctx, func(tx *gorm.DB) error {
			if err := db.Run(tx, sqlLoggedIn, a.App.Name, sealed, a.Key); err != nil {
				return err
			}
			return db.Run(tx, sqlEndPause, a.InboxID)
		})
	}
	if err != nil {
		return fmt.Errorf("store the login of %s: %w", a.Name, err)
	}
	return nil
}

// By is the other account that logged in for this one the last time; empty if there was none. The
// next login needs no --account then.
func (s *Store) By(ctx context.Context, a Account) string {
	r, err := s.read(ctx, a.Key)
	if err != nil {
		return ""
	}
	tok, err := s.open(a, r)
	if err != nil {
		return ""
	}
	return tok.By
}
