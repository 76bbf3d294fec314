package arrivals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/address"
	"postrider/internal/db"
	"postrider/internal/tasks"
)

const (
	// Reads the whole table: a row for each recipient whose mail bounced too often.
	sqlNoted = `
SELECT id, recipient, since, bounces, why, suspended, COALESCE(resumed_at, 0)
FROM suspended_recipients ORDER BY recipient`

	// By the unique recipient.
	sqlNote      = `INSERT INTO suspended_recipients (recipient, since, bounces, why, suspended) VALUES (?, ?, ?, ?, ?)`
	sqlNoteAgain = `
UPDATE suspended_recipients SET since = ?, bounces = ?, why = ?, suspended = ?, resumed_at = NULL
WHERE recipient = ?`
	sqlResume = `
UPDATE suspended_recipients SET suspended = 0, resumed_at = ? WHERE recipient = ? AND resumed_at IS NULL`

	sqlSuspend = `UPDATE suspended_recipients SET suspended = ? WHERE id = ? AND resumed_at IS NULL`
	sqlForget  = `DELETE FROM suspended_recipients WHERE id = ?`

	// By monitored_emails_arrivals_status (status, reported_at, recipient), backwards.
	sqlLastBounce = `
SELECT code, enhanced, reply, remote FROM monitored_emails_arrivals
WHERE status = 'bounced' AND recipient IN ? AND target = '' ORDER BY reported_at DESC LIMIT 1`
)

// Store keeps in the database whose mail bounced too often.
type Store struct{ db *db.DB }

// NewStore is a Store in an open database.
func NewStore(d *db.DB) *Store { return &Store{d} }

// Noted is a recipient whose mail bounced too often.
type Noted struct {
	ID        int64
	Recipient string // as address.Mailbox has it
	Since     time.Time
	Bounces   int    // how many, at that time
	Why       string // what the last bounce said
	Suspended bool   // nothing is sent to it
	// Resumed is when an operator resumed it; nil if nobody did. Bounces before that no longer
	// count.
	Resumed *time.Time
}

// notedRow is a row of sqlNoted.
type notedRow struct {
	Noted
	since, resumed int64
}

func (r *notedRow) into() []any {
	return []any{&r.ID, &r.Recipient, &r.since, &r.Bounces, &r.Why, &r.Suspended, &r.resumed}
}

// Noted returns all noted recipients, sorted by address, and the time by the database's clock.
func (s *Store) Noted(ctx context.Context) (all []Noted, now time.Time, err error) {
	var rows []notedRow
	if now, err = s.db.Clock(ctx); err == nil {
		rows, err = db.Read(ctx, s.db, (*notedRow).into, sqlNoted)
	}
	if err != nil {
		return nil, now, fmt.Errorf("read which recipients bounce: %w", err)
	}
	for _, r := range rows {
		n := r.Noted
		n.Since = time.UnixMicro(r.since).UTC()
		if r.resumed != 0 {
			at := time.UnixMicro(r.resumed).UTC()
			n.Resumed = &at
		}
		all = append(all, n)
	}
	return all, now, nil
}

// note records that the mail of a recipient, by address.Mailbox, bounced too often: as a new row,
// or in the row of old.
func (s *Store) note(ctx context.Context, recipient string, bounces bounced, suspend bool, old *Noted) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		why, err := lastBounce(tx, recipient, bounces.as)
		if err != nil {
			return err
		}
		if old != nil {
			err = db.Run(tx, sqlNoteAgain, now.UnixMicro(), bounces.times, why, suspend, recipient)
		} else {
			err = db.Run(tx, sqlNote, recipient, now.UnixMicro(), bounces.times, why, suspend)
		}
		return err
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) { // another process noted it concurrently
		err = nil
	}
	if err != nil {
		return fmt.Errorf("record that %s bounces: %w", recipient, err)
	}
	return nil
}

// maxWhy is how long the reason may be, in octets.
const maxWhy = 1000

// lastBounce is what the last bounce of a recipient said; empty if its task was purged in the
// meantime.
func lastBounce(tx *gorm.DB, recipient string, as []string) (string, error) {
	fields := func(a *tasks.Arrival) []any { return []any{&a.Code, &a.Enhanced, &a.Reply, &a.Remote} }
	rows, err := db.Query(tx, fields, sqlLastBounce, as)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return db.Cut(rows[0].Line(recipient), maxWhy), nil
}

// suspend suspends a noted recipient, or ends its suspension, unless an operator has resumed it.
func (s *Store) suspend(ctx context.Context, n Noted, suspend bool) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlSuspend, suspend, n.ID) })
	if err != nil {
		return fmt.Errorf("record whether %s is suspended: %w", n.Recipient, err)
	}
	return nil
}

// forget deletes the row of a recipient.
func (s *Store) forget(ctx context.Context, n Noted) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlForget, n.ID) })
	if err != nil {
		return fmt.Errorf("forget that %s bounced: %w", n.Recipient, err)
	}
	return nil
}

// Resume ends the suspension of a recipient, and reports whether the recipient was noted. Earlier
// bounces no longer count.
func (s *Store) Resume(ctx context.Context, recipient string) (was bool, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		n, err := db.Exec(tx, sqlResume, now.UnixMicro(), address.Mailbox(recipient))
		was = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("resume %s: %w", recipient, err)
	}
	return was, nil
}
