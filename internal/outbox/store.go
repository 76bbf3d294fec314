package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Store keeps occurrences, entries and destinations in the database. It is safe for concurrent use
// by any number of processes, and goes by the database's clock.
type Store struct{ db *db.DB }

var _ Work = (*Store)(nil)

// New is a Store in an open database.
func New(d *db.DB) *Store { return &Store{d} }

// errChanged is a transaction that read what was changed concurrently.
var errChanged = errors.New("the outbox was changed concurrently")

// maxTries bounds how often a transaction is retried after concurrent changes.
const maxTries = 20

// change runs f in a transaction.
func (s *Store) change(ctx context.Context, f func(tx *gorm.DB, now int64) error) error {
	for try := 1; ; try++ {
		err := s.db.Tx(ctx, func(tx *gorm.DB) error {
			now, err := s.db.Now(tx)
			if err != nil {
				return err
			}
			return f(tx, now)
		})
		again := errors.Is(err, errChanged) || errors.Is(err, gorm.ErrDuplicatedKey)
		if !again || try == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// entryRow is a row of monitored_outbox.
type entryRow struct {
	Entry
	visibleAt *int64
}

func (r *entryRow) into() []any {
	return []any{
		&r.ID, &r.EventID, &r.OccurrenceID, &r.Destination, &r.Kind, &r.TaskID, &r.InboxID, &r.Action, &r.Body, &r.Status,
		&r.Attempts, &r.Worker, &r.visibleAt, &r.Error, &r.CreatedAt, &r.FinishedAt,
	}
}

func (r *entryRow) entry() Entry {
	if r.visibleAt != nil {
		at := time.UnixMicro(*r.visibleAt).UTC()
		r.VisibleAt = &at
	}
	return r.Entry
}

// Receive implements Work. Of the events of one task it claims one at a time.
func (s *Store) Receive(ctx context.Context, want Want) ([]Claim, error) {
	var claims []Claim
	err := s.change(ctx, func(tx *gorm.DB, now int64) error {
		if done, err := stand(tx, claims, InProgress); err != nil || len(done) > 0 {
			return err // an earlier try was committed, and the answer was lost
		}
		due, err := db.Query(tx, (*entryRow).into, s.db.LockSkipLocked(sqlDue), want.Destination, now, want.InboxID, want.InboxID, now, want.Max)
		claims = nil
		if err != nil || len(due) == 0 {
			return err
		}
		token, until, ids := rand.Text(), now+want.Lease.Microseconds(), make([]int64, len(due))
		for i, r := range due {
			ids[i] = r.ID
			r.Status, r.Worker, r.visibleAt = InProgress, want.Worker, &until
			r.Attempts++
			claims = append(claims, Claim{r.entry(), fmt.Sprintf("%s-%d", token, r.ID), time.UnixMicro(now).Sub(r.CreatedAt)})
		}
		matched, err := db.Exec(tx, sqlClaim, until, token, db.Cut(want.Worker, 255), ids, now)
		if err == nil && matched != int64(len(ids)) {
			err = errChanged
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim outbox entries for %q: %w", want.Destination, err)
	}
	return claims, nil
}

// InboxesDue are the inboxes of entries that are due.
func (s *Store) InboxesDue(ctx context.Context, destination string) (ids []int64, _ error) {
	err := s.db.View(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		ids, err = db.Query(tx, db.Value[int64], sqlInboxesDue, destination, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox entries for %q: %w", destination, err)
	}
	return ids, nil
}

// stand returns the receipts of those claims that are good in a status.
func stand(tx *gorm.DB, claims []Claim, status Status) (map[string]bool, error) {
	out := map[string]bool{}
	if len(claims) == 0 {
		return out, nil
	}
	ids, receipts := keysOf(claims)
	rows, err := db.Query(tx, db.Value[string], sqlStand, ids, receipts, status)
	for _, r := range rows {
		out[r] = true
	}
	return out, err
}

func keysOf(claims []Claim) (ids []int64, receipts []string) {
	for _, c := range claims {
		ids, receipts = append(ids, c.ID), append(receipts, c.Receipt)
	}
	return ids, receipts
}

// Extend implements Work.
func (s *Store) Extend(ctx context.Context, lease time.Duration, claims ...Claim) (lost []Claim, _ error) {
	ids, receipts := keysOf(claims)
	err := s.change(ctx, func(tx *gorm.DB, now int64) error {
		if _, err := db.Exec(tx, sqlExtend, now+lease.Microseconds(), ids, receipts); err != nil {
			return err
		}
		held, err := stand(tx, claims, InProgress)
		lost = without(claims, held)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("renew outbox leases: %w", err)
	}
	return lost, nil
}

func without(claims []Claim, held map[string]bool) (lost []Claim) {
	for _, c := range claims {
		if !held[c.Receipt] {
			lost = append(lost, c)
		}
	}
	return lost
}
