package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// cursor holds the columns of a folder that a change depends on.
type cursor struct {
	UIDValidity   int64  `gorm:"column:uid_validity"`
	LastSeenUID   uint32 `gorm:"column:last_seen_uid"`
	StartUID      uint32 `gorm:"column:start_uid"`
	InitializedAt *time.Time
}

// Scan is the scan lease, by its token. Every change of a cursor needs it.
type Scan struct{ InboxID, Token int64 }

// Initialize sets the first cursor of a folder to startUID. Messages up to startUID are not
// forwarded. It returns ErrCursorMoved when another process initialized the folder to other values,
// and ErrScanLost when the lease was taken over.
func (s *Store) Initialize(ctx context.Context, by Scan, folderID, uidValidity int64, startUID uint32) error {
	return s.moveCursor(ctx, "initialize", by, folderID, func(tx *gorm.DB, now time.Time) (int64, error) {
		return db.Exec(tx, sqlInitializeFolder, uidValidity, startUID, startUID, uidValidity, now, folderID)
	}, func(c cursor) bool {
		return c.UIDValidity == uidValidity && c.LastSeenUID == startUID && c.StartUID == startUID
	})
}

// ResetEpoch sets the cursor to 0 under another UIDVALIDITY. The next scan recognizes registered
// messages by fingerprint. It returns ErrCursorMoved when the folder is no longer in oldEpoch, and
// ErrScanLost when the lease was taken over.
func (s *Store) ResetEpoch(ctx context.Context, by Scan, folderID, oldEpoch, newEpoch int64) error {
	return s.moveCursor(ctx, "reset", by, folderID, func(tx *gorm.DB, _ time.Time) (int64, error) {
		return db.Exec(tx, sqlResetEpoch, newEpoch, folderID, oldEpoch)
	}, func(c cursor) bool {
		return c.InitializedAt != nil && c.UIDValidity == newEpoch && c.LastSeenUID == 0 && c.StartUID == 0
	})
}

// Distrust records that the server gave a UID of this epoch to two messages: the next scan begins a
// new epoch and compares all messages with the registry. Nothing changes in a folder that has begun
// another epoch. It needs no lease: it moves no cursor.
func (s *Store) Distrust(ctx context.Context, folderID, epoch int64) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlDistrust, folderID, epoch) })
	if err != nil {
		return fmt.Errorf("record that the UIDs of folder %d cannot be trusted: %w", folderID, err)
	}
	return nil
}

// Rewind moves the cursor back to uid. Messages above uid that were never registered are then
// registered as new. Registered messages stay in the ledger and are not registered again. A cursor
// at or below uid stays. The trail of the inbox has a line about it, with who and the detail, and
// the inbox counts as changed: a watch visits it. Rewind returns ErrCursorMoved when the folder was
// never scanned or is no longer in that epoch, and ErrScanLost when the lease was taken over.
func (s *Store) Rewind(ctx context.Context, by Scan, f Folder, uid uint32, who, detail string) error {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		matched, err := db.Exec(tx, sqlRewindFolder, uid, uid, uid, uid, uid, uid, f.ID, f.UIDValidity)
		if err != nil {
			return err
		}
		if matched == 0 {
			return ErrCursorMoved
		}
		if err := by.held(tx); err != nil {
			return err
		}
		if err := db.Run(tx, sqlTouchInbox, now, by.InboxID); err != nil {
			return err
		}
		line := fmt.Sprintf("folder %q to UID %d, %s", f.Name, uid, detail)
		if err := record(tx, by.InboxID, now, who, "rewound", line); err != nil {
			return err
		}
		return forget(tx, f.ID, f.UIDValidity, uid)
	})
	if err != nil {
		return fmt.Errorf("rewind folder %q to UID %d: %w", f.Name, uid, err)
	}
	return nil
}

// record adds a line to the trail of an inbox.
func record(tx *gorm.DB, id int64, now time.Time, who, event, detail string) error {
	return db.Run(tx, sqlRecord, id, now, db.Cut(who, 255), event, db.Cut(detail, 4000))
}

// forget deletes messages above uid from the ledger when they have no task, because they were there
// before the start. It also deletes them in older epochs.
func forget(tx *gorm.DB, folderID, epoch int64, uid uint32) error {
	known, err := db.Query(tx, db.Value[[]byte], sqlUnregistered, folderID, epoch, uid)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(known, 500) {
		if err := db.Run(tx, sqlForgetUnregistered, part, folderID, epoch, uid); err != nil {
			return err
		}
	}
	return nil
}

// Reconciled records that every message on the server has been compared with the registry, through
// that epoch. ErrCursorMoved: the folder is no longer in it. ErrScanLost: the lease was taken over.
func (s *Store) Reconciled(ctx context.Context, by Scan, folderID, epoch int64) error {
	update := func(tx *gorm.DB, _ time.Time) (int64, error) {
		return db.Exec(tx, sqlReconciled, epoch, folderID, epoch)
	}
	never := func(cursor) bool { return false }
	return s.moveCursor(ctx, "record the reconciliation under", by, folderID, update, never)
}

// held fails with ErrScanLost once another run has taken the lease over. It changes the row of the
// lease: whoever takes the lease over meanwhile, on this node of a Galera cluster or on another,
// either waits for this transaction or has it fail.
func (by Scan) held(tx *gorm.DB) error {
	held, err := db.Exec(tx, sqlHoldScan, by.InboxID, by.Token)
	if err == nil && held == 0 {
		return ErrScanLost
	}
	return err
}

// moveCursor runs an update that matches one row. When it matches none, done decides whether the
// row already has the new values: an earlier commit of this process may have succeeded without an
// answer.
func (s *Store) moveCursor(ctx context.Context, doing string, by Scan, folderID int64,
	update func(tx *gorm.DB, now time.Time) (matched int64, _ error), done func(cursor) bool,
) error {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		matched, err := update(tx, now)
		if err != nil {
			return err
		}
		if err := by.held(tx); err != nil || matched == 1 {
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
