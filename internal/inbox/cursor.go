package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
)

// cursor is a folder's row as far as a change depends on it.
type cursor struct {
	UIDValidity   int64  `gorm:"column:uid_validity"`
	LastSeenUID   uint32 `gorm:"column:last_seen_uid"`
	StartUID      uint32 `gorm:"column:start_uid"`
	InitializedAt *time.Time
}

// Scan is what a change of a cursor is made under: the scan lease, by its token.
type Scan struct{ InboxID, Token int64 }

// Initialize begins the registry of a folder that was never scanned: messages up to startUID were there before and are
// not forwarded, the cursor stands there. ErrCursorMoved: another process initialised it to something else. ErrScanLost:
// the lease was taken over.
func (s *Store) Initialize(ctx context.Context, by Scan, folderID, uidValidity int64, startUID uint32) error {
	return s.moveCursor(ctx, "initialize", by, folderID, func(tx *gorm.DB, now time.Time) *gorm.DB {
		return tx.Exec(sqlInitializeFolder, uidValidity, startUID, startUID, now, folderID)
	}, func(c cursor) bool {
		return c.UIDValidity == uidValidity && c.LastSeenUID == startUID && c.StartUID == startUID
	})
}

// ResetEpoch begins anew under another UIDVALIDITY: the cursor goes to 0, and what was registered is told by
// fingerprint. ErrCursorMoved: the folder is no longer in oldEpoch. ErrScanLost: the lease was taken over.
func (s *Store) ResetEpoch(ctx context.Context, by Scan, folderID, oldEpoch, newEpoch int64) error {
	return s.moveCursor(ctx, "reset", by, folderID, func(tx *gorm.DB, _ time.Time) *gorm.DB {
		return tx.Exec(sqlResetEpoch, newEpoch, folderID, oldEpoch)
	}, func(c cursor) bool {
		return c.InitializedAt != nil && c.UIDValidity == newEpoch && c.LastSeenUID == 0 && c.StartUID == 0
	})
}

// Rewind moves the cursor back to uid: what lies above it and was never registered will be, as if it were new. What
// was registered stays in the ledger and is not registered again. A cursor at or below uid stays. ErrCursorMoved: the
// folder was never scanned or is no longer in that epoch. ErrScanLost: the lease was taken over.
func (s *Store) Rewind(ctx context.Context, by Scan, folderID, epoch int64, uid uint32) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		update := tx.Exec(sqlRewindFolder, uid, uid, uid, uid, uid, uid, folderID, epoch)
		if update.Error != nil {
			return update.Error
		}
		if update.RowsAffected == 0 {
			return ErrCursorMoved
		}
		if err := by.held(tx); err != nil {
			return err
		}
		return forget(tx, folderID, epoch, uid)
	})
	if err != nil {
		return fmt.Errorf("rewind folder %d to UID %d: %w", folderID, uid, err)
	}
	return nil
}

// forget takes the messages above uid that were there before the start out of the ledger, in older epochs as well.
func forget(tx *gorm.DB, folderID, epoch int64, uid uint32) error {
	var known [][]byte
	if err := tx.Raw(sqlUnregistered, folderID, epoch, uid).Scan(&known).Error; err != nil {
		return err
	}
	for part := range slices.Chunk(known, 500) {
		if err := tx.Exec(sqlForgetUnregistered, part, folderID, epoch, uid).Error; err != nil {
			return err
		}
	}
	return nil
}

// FolderScanned stamps last_scanned_at. ErrScanLost: the lease was taken over.
func (s *Store) FolderScanned(ctx context.Context, by Scan, folderID int64) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		if err := tx.Exec(sqlFolderScanned, time.UnixMicro(now).UTC(), folderID).Error; err != nil {
			return err
		}
		return by.held(tx)
	})
	if err != nil {
		return fmt.Errorf("note the scan of folder %d: %w", folderID, err)
	}
	return nil
}

// held fails with ErrScanLost once another run has taken the lease over. It changes the row of the
// lease: whoever takes the lease over meanwhile, on this node of a Galera cluster or on another, either
// waits for this transaction or has it fail.
func (by Scan) held(tx *gorm.DB) error {
	hold := tx.Exec(sqlHoldScan, by.InboxID, by.Token)
	if hold.Error == nil && hold.RowsAffected == 0 {
		return ErrScanLost
	}
	return hold.Error
}

// moveCursor runs an update that matches one row, or finds that it is done already: by us, in a transaction whose
// commit went unnoticed.
func (s *Store) moveCursor(ctx context.Context, doing string, by Scan, folderID int64,
	update func(tx *gorm.DB, now time.Time) *gorm.DB, done func(cursor) bool,
) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		result := update(tx, time.UnixMicro(now).UTC())
		if result.Error != nil {
			return result.Error
		}
		if err := by.held(tx); err != nil || result.RowsAffected == 1 {
			return err
		}
		var c cursor
		if err := tx.Raw(sqlGetCursor, folderID).Scan(&c).Error; err != nil {
			return err
		}
		if !done(c) {
			return ErrCursorMoved
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s the cursor of folder %d: %w", doing, folderID, err)
	}
	return nil
}
