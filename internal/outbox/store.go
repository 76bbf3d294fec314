package outbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Store keeps occurrences, entries and destinations in the database. It is safe for concurrent use
// by any number of processes, and goes by the database's clock.
type Store struct{ db *db.DB }

// New is a Store in an open database.
func New(d *db.DB) *Store { return &Store{d} }

// errChanged means that what the transaction read was changed concurrently.
var errChanged = fmt.Errorf("the outbox was %w", db.ErrChanged)

// entryInto is for a row of monitored_outbox.
func entryInto(e *Entry) []any {
	return []any{
		&e.ID, &e.EventID, &e.OccurrenceID, &e.Destination, &e.Kind, &e.TaskID, &e.InboxID, &e.Action, &e.Body,
		&e.Status, &e.Attempts, &e.Worker, db.Micros(&e.VisibleAt), &e.Error, &e.CreatedAt, &e.FinishedAt,
	}
}

// Receive claims entries that are due, oldest first. An event waits until the previous event of its
// task for the same destination has ended. An action waits while another action of its task is
// claimed.
func (s *Store) Receive(ctx context.Context, want Want) ([]Claim, error) {
	var claims []Claim
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		if done, err := stand(tx, claims, InProgress); err != nil || len(done) > 0 {
			return err // an earlier try was committed, and the answer was lost
		}
		due, err := db.Query(tx, entryInto, s.db.LockSkipLocked(sqlDue), want.Destination, now.UnixMicro(),
			want.InboxID, want.InboxID, now.UnixMicro(), want.Max)
		claims = nil
		if err != nil || len(due) == 0 {
			return err
		}
		receipt, until, ids := rand.Text(), now.Add(want.Lease), make([]int64, len(due))
		for i, e := range due {
			ids[i] = e.ID
			e.Status, e.Worker, e.VisibleAt = InProgress, want.Worker, &until
			e.Attempts++
			claims = append(claims, Claim{e, receipt, now.Sub(e.CreatedAt)})
		}
		matched, err := db.Exec(tx, sqlClaim,
			until.UnixMicro(), receipt, db.Cut(want.Worker, 255), ids, now.UnixMicro())
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

// InboxesDue are the inboxes of entries that are due, without those that Pause holds back.
func (s *Store) InboxesDue(ctx context.Context, destination string) (ids []int64, _ error) {
	now, err := s.db.Clock(ctx)
	if err == nil {
		ids, err = db.Read(ctx, s.db, db.Value[int64], sqlInboxesDue, destination, now.UnixMicro(), now.UnixMicro())
	}
	if err != nil {
		return nil, fmt.Errorf("read outbox entries for %q: %w", destination, err)
	}
	return ids, nil
}

// Pause holds back the actions of an inbox for d, in all processes. A change of the inbox ends the
// pause, and so does a login, or Retry of one of its actions. If the inbox was changed since
// updatedAt, Pause does nothing: the server refused the old settings.
func (s *Store) Pause(ctx context.Context, inboxID int64, updatedAt time.Time, d time.Duration) error {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		return db.Run(tx, sqlPause, now.Add(d).UnixMicro(), inboxID, updatedAt)
	})
	if err != nil {
		return fmt.Errorf("pause the actions of inbox %d: %w", inboxID, err)
	}
	return nil
}

// holding is an entry and the receipt of its claim.
type holding struct {
	id      int64
	receipt string
}

func (h *holding) into() []any { return []any{&h.id, &h.receipt} }

func (c Claim) holding() holding { return holding{c.ID, c.Receipt} }

// stand returns the claims that are still valid in a status.
func stand(tx *gorm.DB, claims []Claim, status Status) (map[holding]bool, error) {
	out := map[holding]bool{}
	if len(claims) == 0 {
		return out, nil
	}
	var all []int64
	by := byReceipt(claims)
	for _, ids := range by {
		all = append(all, ids...)
	}
	rows, err := db.Query(tx, (*holding).into, sqlStand, all, slices.Collect(maps.Keys(by)), status)
	for _, r := range rows {
		out[r] = true
	}
	return out, err
}

// byReceipt are the IDs of the entries by receipt.
func byReceipt(claims []Claim) map[string][]int64 {
	out := map[string][]int64{}
	for _, c := range claims {
		out[c.Receipt] = append(out[c.Receipt], c.ID)
	}
	return out
}

// Extend renews leases.
func (s *Store) Extend(ctx context.Context, lease time.Duration, claims ...Claim) (lost []Claim, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		for receipt, ids := range byReceipt(claims) {
			if err := db.Run(tx, sqlExtend, now.Add(lease).UnixMicro(), ids, receipt); err != nil {
				return err
			}
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

func without(claims []Claim, held map[holding]bool) (lost []Claim) {
	for _, c := range claims {
		if !held[c.holding()] {
			lost = append(lost, c)
		}
	}
	return lost
}
