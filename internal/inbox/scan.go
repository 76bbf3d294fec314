package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Busy is who scans an inbox, and until when unless the lease is renewed.
type Busy struct {
	Holder string
	Until  time.Time
	Paused bool // nobody does: the server asked to be left alone
}

// paused holds the lease of an inbox whose server asked to be left alone.
const paused = "nobody: the server asked to be left alone"

// AcquireScan takes the scan lease of an inbox for ttl by the database's clock. Somebody else's lease that has not run
// out yields busy instead. The token names the lease to the other methods and grows by one each time the lease changes
// hands. The holder is unique to a run: asked again by the same holder, the lease is extended and keeps its token.
// The lease is a row that is written, so of two nodes of a Galera cluster one gets it.
func (s *Store) AcquireScan(ctx context.Context, inboxID int64, holder string, ttl time.Duration) (token int64, busy *Busy, err error) {
	if holder == "" {
		return 0, nil, errors.New("acquire the scan lease: the holder is empty")
	}
	var row struct {
		ScanHolder           string
		ScanToken, ScanUntil int64
	}
	var taken bool
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		update := tx.Exec(sqlAcquireScan, holder, holder, now+ttl.Microseconds(), inboxID, holder, now)
		if update.Error != nil {
			return update.Error
		}
		taken = update.RowsAffected == 1
		query := tx.Raw(sqlGetScan, inboxID).Scan(&row)
		if query.Error == nil && query.RowsAffected == 0 {
			return errors.New("the inbox was removed")
		}
		return query.Error
	})
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("acquire the scan lease of inbox %d: %w", inboxID, err)
	case !taken:
		return 0, &Busy{Holder: row.ScanHolder, Until: time.UnixMicro(row.ScanUntil).UTC(), Paused: row.ScanHolder == paused}, nil
	}
	return row.ScanToken, nil, nil
}

// RenewScan makes the lease last for ttl from now. ErrScanLost: it was taken over or released. A lease that ran out but
// that nobody took over is renewed.
func (s *Store) RenewScan(ctx context.Context, inboxID, token int64, ttl time.Duration) error {
	return s.underLease(ctx, "renew the scan lease of", inboxID, func(tx *gorm.DB, now int64) *gorm.DB {
		return tx.Exec(sqlRenewScan, now+ttl.Microseconds(), inboxID, token)
	})
}

// PauseScan gives the lease back and keeps everybody away from the inbox for as long as pause.
func (s *Store) PauseScan(ctx context.Context, inboxID, token int64, pause time.Duration) error {
	return s.underLease(ctx, "pause", inboxID, func(tx *gorm.DB, now int64) *gorm.DB {
		return tx.Exec(sqlPauseScan, paused, now+pause.Microseconds(), inboxID, token)
	})
}

// ReleaseScan gives the lease back. One that is no longer held is left to who holds it now.
func (s *Store) ReleaseScan(ctx context.Context, inboxID, token int64) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return tx.Exec(sqlReleaseScan, inboxID, token).Error })
	if err != nil {
		return fmt.Errorf("release the scan lease of inbox %d: %w", inboxID, err)
	}
	return nil
}

// enoughFailed is how many scans in a row have to fail until that is an outage: a server that is restarted is none.
const enoughFailed = 3

// FinishScan notes how a scan ended: an empty errText stamps last_scanned_at and clears last_error, any other becomes
// last_error, cut to 2,000 characters. An outage of the inbox begins with the third failure in a row, and ends with a
// scan that completed. The lease stays. ErrScanLost: it was taken over or released.
func (s *Store) FinishScan(ctx context.Context, inboxID, token int64, errText string) error {
	if runes := []rune(errText); len(runes) > 2000 {
		errText = string(runes[:2000])
	}
	return s.underLease(ctx, "note the end of the scan of", inboxID, func(tx *gorm.DB, now int64) *gorm.DB {
		at := time.UnixMicro(now).UTC()
		if errText == "" {
			return tx.Exec(sqlScanDone, at, at, inboxID, token)
		}
		noted := tx.Exec(sqlScanFailed, errText, at, inboxID, token)
		if noted.Error != nil || noted.RowsAffected == 0 {
			return noted
		}
		if outage := tx.Exec(sqlOutage, inboxID, enoughFailed); outage.Error != nil {
			return outage
		}
		return noted
	})
}

// UnderScan does f while no run works on the inbox, or tells who does and leaves it undone. The lease is not renewed: after a
// minute somebody else may take it, and then what f changes under the Scan fails with ErrScanLost.
func (s *Store) UnderScan(ctx context.Context, inboxID int64, holder string, f func(Scan) error) (*Busy, error) {
	token, busy, err := s.AcquireScan(ctx, inboxID, holder, time.Minute)
	if err != nil || busy != nil {
		return busy, err
	}
	return nil, errors.Join(f(Scan{inboxID, token}), s.ReleaseScan(context.WithoutCancel(ctx), inboxID, token))
}

// underLease runs an update that matches one row while the lease is held.
func (s *Store) underLease(ctx context.Context, doing string, inboxID int64, update func(tx *gorm.DB, now int64) *gorm.DB) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		result := update(tx, now)
		if result.Error == nil && result.RowsAffected == 0 {
			return ErrScanLost
		}
		return result.Error
	})
	if err != nil {
		return fmt.Errorf("%s inbox %d: %w", doing, inboxID, err)
	}
	return nil
}
