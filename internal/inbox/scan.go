package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
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
	// Inbox is as it is since the lease is held, with all its folders, without labels: no other run
	// moves its cursors.
	Inbox Inbox
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
) (Lease, *Busy, error) {
	if holder == "" {
		return Lease{}, nil, errors.New("acquire the scan lease: the holder is empty")
	}
	a := &acquisition{inboxID: inboxID, by: asker{holder, ttl}}
	if err := s.acquisitions.Commit(ctx, a); err != nil {
		return Lease{}, nil, fmt.Errorf("acquire the scan lease: %w", err)
	}
	return a.lease, a.busy, nil
}

// acquisition is one call of AcquireScan.
type acquisition struct {
	inboxID int64
	by      asker

	lease Lease
	busy  *Busy
}

// asker is who asks for a lease, and for how long.
type asker struct {
	holder string
	ttl    time.Duration
}

// ErrRemoved is an inbox that is not there any more.
var ErrRemoved = errors.New("the inbox was removed")

// acquireAll takes the leases that are free, in one transaction. Nearly always one holder asks.
func (s *Store) acquireAll(ctx context.Context, batch []*acquisition) []error {
	var ids []int64
	asked := map[asker][]int64{}
	for _, a := range batch {
		ids, asked[a.by] = append(ids, a.inboxID), append(asked[a.by], a.inboxID)
	}
	var found map[int64]scanRow
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		for by, ids := range asked {
			at, until := now.UnixMicro(), now.Add(by.ttl).UnixMicro()
			if err := db.Run(tx, sqlAcquireScan, by.holder, by.holder, until, ids, by.holder, at); err != nil {
				return err
			}
		}
		found, err = scans(tx, ids)
		return err
	})
	errs := make([]error, len(batch))
	for i, a := range batch {
		if errs[i] = err; err == nil {
			errs[i] = a.result(found)
		}
	}
	return errs
}

// scans reads inboxes with their folders and who scans them.
func scans(tx *gorm.DB, ids []int64) (map[int64]scanRow, error) {
	var rows []scanRow
	if err := tx.Raw(sqlGetScans, ids).Scan(&rows).Error; err != nil {
		return nil, err
	}
	folders, err := listFolders(tx, ids...)
	found := map[int64]scanRow{}
	for _, r := range rows {
		for _, f := range folders {
			if f.InboxID == r.Inbox.ID {
				r.Inbox.Folders = append(r.Inbox.Folders, f)
			}
		}
		found[r.Inbox.ID] = r
	}
	return found, err
}

// result is what came of it: the lease is the holder's now, if no other holder has it.
func (a *acquisition) result(found map[int64]scanRow) error {
	row, ok := found[a.inboxID]
	switch {
	case !ok:
		return ErrRemoved
	case row.ScanHolder == a.by.holder:
		a.lease = Lease{row.Inbox, row.ScanToken}
	default:
		until := time.UnixMicro(row.ScanUntil).UTC()
		a.busy = &Busy{Holder: row.ScanHolder, Until: until, Paused: row.ScanHolder == paused}
	}
	return nil
}

// RenewScan extends the lease to ttl from now. It also renews an expired lease that no other run
// took over. It returns ErrScanLost when the lease was taken over or released.
func (s *Store) RenewScan(ctx context.Context, by Scan, ttl time.Duration) error {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		renewed, err := db.Exec(tx, sqlRenewScan, now.Add(ttl).UnixMicro(), by.InboxID, by.Token)
		if err == nil && renewed == 0 {
			return ErrScanLost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("renew the scan lease: %w", err)
	}
	return nil
}

// ReleaseScan releases the lease and records nothing. It does nothing when another run has taken
// the lease over.
func (s *Store) ReleaseScan(ctx context.Context, by Scan) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlReleaseScan, by.InboxID, by.Token) })
	if err != nil {
		return fmt.Errorf("release the scan lease: %w", err)
	}
	return nil
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
