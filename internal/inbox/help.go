package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Help is the lease of a run that works off tasks of an inbox while another host scans it. A host has one for each inbox.
type Help struct {
	InboxID int64
	Host    string
	Holder  string // unique to a run
}

// keepEnded is how long the lease of a helper is kept that ran out: until then its holder may still renew it.
const keepEnded = 24 * time.Hour

// AcquireHelp takes the lease for ttl by the database's clock, and reports whether it got it: another run of the same host may
// hold it. Asked again by its holder, the lease is extended.
func (s *Store) AcquireHelp(ctx context.Context, h Help, ttl time.Duration) (bool, error) {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		// What other hosts left behind goes, too, but not before its holder is sure to be gone: containers have a new name at each
		// start.
		if err := tx.Exec(sqlEndedHelp, h.InboxID, now-keepEnded.Microseconds(), h.Host, now, h.Holder).Error; err != nil {
			return err
		}
		return tx.Exec(sqlAcquireHelp, h.InboxID, h.Host, h.Holder, now+ttl.Microseconds()).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return false, nil
	}
	return err == nil, h.wrap(err, "acquire")
}

// RenewHelp makes the lease last for ttl from now. ErrHelpLost: it ran out, and another run of this host has
// it, or it was cleared away a day later.
func (s *Store) RenewHelp(ctx context.Context, h Help, ttl time.Duration) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		result := tx.Exec(sqlRenewHelp, now+ttl.Microseconds(), h.InboxID, h.Host, h.Holder)
		if result.Error == nil && result.RowsAffected == 0 {
			return ErrHelpLost
		}
		return result.Error
	})
	return h.wrap(err, "renew")
}

// ReleaseHelp gives the lease back. One that is no longer held is left to who holds it now.
func (s *Store) ReleaseHelp(ctx context.Context, h Help) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return tx.Exec(sqlReleaseHelp, h.InboxID, h.Host, h.Holder).Error })
	return h.wrap(err, "release")
}

func (h Help) wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the lease of a helper of inbox %d: %w", doing, h.InboxID, err)
}
