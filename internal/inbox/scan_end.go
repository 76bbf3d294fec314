package inbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// outageAfter is how many scans in a row must fail to count as an outage. Fewer may be a restart of
// the server.
const outageAfter = 3

// ScanEnd is how a scan ended.
type ScanEnd struct {
	Interrupted bool          // it neither succeeded nor failed
	Failure     string        // why it failed; empty when it succeeded
	LoginNeeded bool          // it failed because a person has to log in (OAuth2)
	Folders     []int64       // that were scanned to their end
	Pause       time.Duration // that the server asked for: no run acquires the lease meanwhile
}

// FinishScan records how a scan ended, and releases the lease, in one transaction. A success sets
// last_scanned_at and clears last_error. A failure becomes last_error, cut to 4,000 octets. An
// outage begins with the third failure in a row, or with the first that needs a login, and ends
// with a success. FinishScan returns ErrScanLost, and changes nothing, when another run has taken
// the lease over. Doing it twice changes nothing. Scans that end at the same time share the
// transaction.
func (s *Store) FinishScan(ctx context.Context, by Scan, end ScanEnd) error {
	if err := s.ends.Commit(ctx, finish{by, end}); err != nil {
		return fmt.Errorf("record the end of the scan: %w", err)
	}
	return nil
}

// finish is the end of one scan.
type finish struct {
	by  Scan
	end ScanEnd
}

func (s *Store) finishAll(ctx context.Context, batch []finish) []error {
	return db.OrApart(ctx, batch, s.finishTogether)
}

// finishTogether has one statement for all scans that succeeded, which are most.
func (s *Store) finishTogether(ctx context.Context, batch []finish) error {
	var folders []int64
	var done []Scan
	for _, f := range batch {
		folders = append(folders, f.end.Folders...)
		if f.end.plain() {
			done = append(done, f.by)
		}
	}
	return s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		if len(folders) > 0 { // locked before the inbox, as by a registration
			if err := db.Run(tx, sqlFoldersScanned, now, folders); err != nil {
				return err
			}
		}
		before, err := s.troubles(tx, batch)
		if err != nil {
			return err
		}
		held, err := s.succeeded(tx, now, done)
		for _, f := range batch {
			if err == nil && held && !f.end.plain() {
				held, err = f.record(tx, now)
			}
		}
		if err == nil && held {
			err = s.noteTroubles(tx, now, batch, before)
		}
		switch {
		case err != nil || held:
			return err
		case len(batch) > 1:
			return db.ErrApart
		}
		return batch[0].by.held(tx) // an earlier commit may have succeeded without an answer
	})
}

// plain reports whether the scan succeeded, and the server may be asked again at once.
func (end ScanEnd) plain() bool { return !end.Interrupted && end.Failure == "" && end.Pause == 0 }

// succeeded records scans that succeeded. It reports whether all leases are held.
func (s *Store) succeeded(tx *gorm.DB, now time.Time, done []Scan) (held bool, _ error) {
	if len(done) == 0 {
		return true, nil
	}
	args := []any{now, now}
	for _, by := range done {
		args = append(args, by.InboxID, by.Token)
	}
	leases := strings.Repeat(aLease+" OR ", len(done)-1) + aLease
	ended, err := db.Exec(tx, sqlScansDone+"("+leases+")", args...)
	return ended == int64(len(done)), err
}

// record changes the row of the inbox, if the lease is held.
func (f finish) record(tx *gorm.DB, now time.Time) (held bool, err error) {
	holder, until := "", int64(0)
	if f.end.Pause > 0 {
		holder, until = paused, now.Add(f.end.Pause).UnixMicro()
	}
	id, token := f.by.InboxID, f.by.Token
	var ended int64
	switch {
	case f.end.Interrupted:
		ended, err = db.Exec(tx, sqlScanInterrupted, holder, until, id, token)
	case f.end.Failure == "":
		ended, err = db.Exec(tx, sqlScanDone, now, now, holder, until, id, token)
	default:
		failure, login := db.Cut(f.end.Failure, 4000), f.end.LoginNeeded
		ended, err = db.Exec(tx, sqlScanFailed, failure, login, now, login, login, holder, until, id, token)
		if ended == 1 && err == nil {
			return true, db.Run(tx, sqlOutage, id, outageAfter)
		}
	}
	return ended == 1, err
}
