package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Busy says who holds the scan lease of an inbox, and until when.
type Busy struct {
	Holder string
	Until  time.Time // the holder may renew the lease
	Paused bool      // no run holds it: the server asked for a pause
}

// paused is the holder of the lease while the server wants no connections.
const paused = "paused: the server asked for a pause"

// AcquireScan takes the scan lease of an inbox for ttl, by the database's clock. It returns busy
// when another holder's lease is still valid. The token identifies the lease, and grows by one each
// time the lease gets another holder. The holder is unique to a run. When the holder already has
// the lease, AcquireScan extends it, and the token stays the same.
// The lease is a row that is written, so only one node of a Galera cluster can give it away.
func (s *Store) AcquireScan(
	ctx context.Context, inboxID int64, holder string, ttl time.Duration,
) (token int64, busy *Busy, err error) {
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
		until := time.UnixMicro(row.ScanUntil).UTC()
		return 0, &Busy{Holder: row.ScanHolder, Until: until, Paused: row.ScanHolder == paused}, nil
	}
	return row.ScanToken, nil, nil
}

// RenewScan extends the lease to ttl from now. It also renews an expired lease that no other run
// took over. It returns ErrScanLost when the lease was taken over or released.
func (s *Store) RenewScan(ctx context.Context, inboxID, token int64, ttl time.Duration) error {
	return s.underLease(ctx, "renew the scan lease of", inboxID, func(tx *gorm.DB, now int64) *gorm.DB {
		return tx.Exec(sqlRenewScan, now+ttl.Microseconds(), inboxID, token)
	})
}

// PauseScan releases the lease, and prevents every run from acquiring it for the duration of pause.
func (s *Store) PauseScan(ctx context.Context, inboxID, token int64, pause time.Duration) error {
	return s.underLease(ctx, "pause", inboxID, func(tx *gorm.DB, now int64) *gorm.DB {
		return tx.Exec(sqlPauseScan, paused, now+pause.Microseconds(), inboxID, token)
	})
}

// ReleaseScan releases the lease. It does nothing when another run has taken the lease over.
func (s *Store) ReleaseScan(ctx context.Context, inboxID, token int64) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return tx.Exec(sqlReleaseScan, inboxID, token).Error })
	if err != nil {
		return fmt.Errorf("release the scan lease of inbox %d: %w", inboxID, err)
	}
	return nil
}

// outageAfter is how many scans in a row must fail to count as an outage. Fewer may be a restart of
// the server.
const outageAfter = 3

// FinishScan records the result of a scan. An empty errText sets last_scanned_at and clears
// last_error. Any other text becomes last_error, cut to 2,000 characters. An outage begins with the
// third failure in a row, and ends with a successful scan. FinishScan keeps the lease. It returns
// ErrScanLost when the lease was taken over or released.
func (s *Store) FinishScan(ctx context.Context, inboxID, token int64, errText string) error {
	if runes := []rune(errText); len(runes) > 2000 {
		errText = string(runes[:2000])
	}
	return s.underLease(ctx, "record the end of the scan of", inboxID, func(tx *gorm.DB, now int64) *gorm.DB {
		at := time.UnixMicro(now).UTC()
		if errText == "" {
			return tx.Exec(sqlScanDone, at, at, inboxID, token)
		}
		noted := tx.Exec(sqlScanFailed, errText, at, inboxID, token)
		if noted.Error != nil || noted.RowsAffected == 0 {
			return noted
		}
		if outage := tx.Exec(sqlOutage, inboxID, outageAfter); outage.Error != nil {
			return outage
		}
		return noted
	})
}

// UnderScan calls f under the scan lease. When another run holds the lease, it returns that run and
// does not call f. The lease is not renewed: after a minute another run may take it over, and then
// changes that f makes under the Scan fail with ErrScanLost.
func (s *Store) UnderScan(ctx context.Context, inboxID int64, holder string, f func(Scan) error) (*Busy, error) {
	token, busy, err := s.AcquireScan(ctx, inboxID, holder, time.Minute)
	if err != nil || busy != nil {
		return busy, err
	}
	return nil, errors.Join(f(Scan{inboxID, token}), s.ReleaseScan(context.WithoutCancel(ctx), inboxID, token))
}

// underLease runs an update that matches one row while the lease is held. When it matches none,
// underLease returns ErrScanLost.
func (s *Store) underLease(
	ctx context.Context, doing string, inboxID int64, update func(tx *gorm.DB, now int64) *gorm.DB,
) error {
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
