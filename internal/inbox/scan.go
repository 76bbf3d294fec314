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

// Lease is a scan lease that was acquired.
type Lease struct {
	Inbox Inbox // as it is since the lease is held, with all its folders, without labels: no other run moves its cursors
	Token int64
}

// Scan is what changes are made under.
func (l Lease) Scan() Scan { return Scan{InboxID: l.Inbox.ID, Token: l.Token} }

// scanRow is a row of sqlGetScan.
type scanRow struct {
	Inbox                Inbox `gorm:"embedded"`
	ScanHolder           string
	ScanToken, ScanUntil int64
}

// AcquireScan takes the scan lease of an inbox for ttl, by the database's clock. It returns busy
// when another holder's lease is still valid. The token identifies the lease, and grows by one each
// time the lease gets another holder. The holder is unique to a run. When the holder already has
// the lease, AcquireScan extends it, and the token stays the same.
// The lease is a row that is written, so only one node of a Galera cluster can give it away. A
// cursor may be read there before a page arrives that another node has just committed; the page is
// then registered twice, which changes nothing.
func (s *Store) AcquireScan(
	ctx context.Context, inboxID int64, holder string, ttl time.Duration,
) (lease Lease, busy *Busy, err error) {
	if holder == "" {
		return Lease{}, nil, errors.New("acquire the scan lease: the holder is empty")
	}
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		lease, busy, err = s.acquire(tx, inboxID, holder, ttl)
		return err
	})
	if err != nil {
		return Lease{}, nil, fmt.Errorf("acquire the scan lease of inbox %d: %w", inboxID, err)
	}
	return lease, busy, nil
}

func (s *Store) acquire(tx *gorm.DB, inboxID int64, holder string, ttl time.Duration) (Lease, *Busy, error) {
	now, err := s.db.Now(tx)
	if err != nil {
		return Lease{}, nil, err
	}
	update := tx.Exec(sqlAcquireScan, holder, holder, now+ttl.Microseconds(), inboxID, holder, now)
	if update.Error != nil {
		return Lease{}, nil, update.Error
	}
	var row scanRow
	query := tx.Raw(sqlGetScan, inboxID).Scan(&row)
	switch {
	case query.Error != nil:
		return Lease{}, nil, query.Error
	case query.RowsAffected == 0:
		return Lease{}, nil, errors.New("the inbox was removed")
	case update.RowsAffected == 0:
		until := time.UnixMicro(row.ScanUntil).UTC()
		return Lease{}, &Busy{Holder: row.ScanHolder, Until: until, Paused: row.ScanHolder == paused}, nil
	}
	row.Inbox.Folders, err = listFolders(tx, inboxID)
	return Lease{row.Inbox, row.ScanToken}, nil, err
}

// RenewScan extends the lease to ttl from now. It also renews an expired lease that no other run
// took over. It returns ErrScanLost when the lease was taken over or released.
func (s *Store) RenewScan(ctx context.Context, by Scan, ttl time.Duration) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		renewed := tx.Exec(sqlRenewScan, now+ttl.Microseconds(), by.InboxID, by.Token)
		if renewed.Error == nil && renewed.RowsAffected == 0 {
			return ErrScanLost
		}
		return renewed.Error
	})
	if err != nil {
		return fmt.Errorf("renew the scan lease of inbox %d: %w", by.InboxID, err)
	}
	return nil
}

// ReleaseScan releases the lease and records nothing. It does nothing when another run has taken
// the lease over.
func (s *Store) ReleaseScan(ctx context.Context, by Scan) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return tx.Exec(sqlReleaseScan, by.InboxID, by.Token).Error })
	if err != nil {
		return fmt.Errorf("release the scan lease of inbox %d: %w", by.InboxID, err)
	}
	return nil
}

// outageAfter is how many scans in a row must fail to count as an outage. Fewer may be a restart of
// the server.
const outageAfter = 3

// ScanEnd is how a scan ended.
type ScanEnd struct {
	Interrupted bool          // it neither succeeded nor failed
	Failure     string        // why it failed; empty when it succeeded
	Folders     []int64       // that were scanned to their end
	Pause       time.Duration // that the server asked for: no run acquires the lease meanwhile
}

// FinishScan records how a scan ended, and releases the lease, in one transaction. A success sets
// last_scanned_at and clears last_error. A failure becomes last_error, cut to 2,000 characters. An
// outage begins with the third failure in a row, and ends with a success. FinishScan returns
// ErrScanLost, and changes nothing, when another run has taken the lease over. Doing it twice
// changes nothing.
func (s *Store) FinishScan(ctx context.Context, by Scan, end ScanEnd) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		if len(end.Folders) > 0 { // locked before the inbox, as by a registration
			if err := tx.Exec(sqlFoldersScanned, time.UnixMicro(now).UTC(), end.Folders).Error; err != nil {
				return err
			}
		}
		ended := end.record(tx, by, now)
		if ended.Error == nil && ended.RowsAffected == 0 {
			return by.held(tx) // an earlier commit may have succeeded without an answer
		}
		if ended.Error == nil && end.Failure != "" {
			ended = tx.Exec(sqlOutage, by.InboxID, outageAfter)
		}
		return ended.Error
	})
	if err != nil {
		return fmt.Errorf("record the end of the scan of inbox %d: %w", by.InboxID, err)
	}
	return nil
}

// record changes the row of the inbox, if the lease is held.
func (end ScanEnd) record(tx *gorm.DB, by Scan, now int64) *gorm.DB {
	at, holder, until := time.UnixMicro(now).UTC(), "", int64(0)
	if end.Pause > 0 {
		holder, until = paused, now+end.Pause.Microseconds()
	}
	switch {
	case end.Interrupted:
		return tx.Exec(sqlScanInterrupted, holder, until, by.InboxID, by.Token)
	case end.Failure == "":
		return tx.Exec(sqlScanDone, at, at, holder, until, by.InboxID, by.Token)
	}
	failure := end.Failure
	if runes := []rune(failure); len(runes) > 2000 {
		failure = string(runes[:2000])
	}
	return tx.Exec(sqlScanFailed, failure, at, holder, until, by.InboxID, by.Token)
}

// UnderScan calls f under the scan lease. When another run holds the lease, it returns that run and
// does not call f. The lease is not renewed: after a minute another run may take it over, and then
// changes that f makes under the Scan fail with ErrScanLost.
func (s *Store) UnderScan(ctx context.Context, inboxID int64, holder string, f func(Scan) error) (*Busy, error) {
	lease, busy, err := s.AcquireScan(ctx, inboxID, holder, time.Minute)
	if err != nil || busy != nil {
		return busy, err
	}
	by := lease.Scan()
	return nil, errors.Join(f(by), s.ReleaseScan(context.WithoutCancel(ctx), by))
}
