package outbox

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Destination is where events go. Name and Target are the caller's; Target is a digest of its
// address, and a new target starts without failures.
type Destination struct {
	Name   string
	Target string

	Failures  int           // in a row; 0 when only an event was at fault
	RetryIn   time.Duration // until it is tried again; 0 when it may be tried now
	Gone      bool          // it wants no more events, until an operator enables it
	LastError string        // empty when the last try did not fail
}

type destinationRow struct {
	Destination
	retryAt int64
}

func (r *destinationRow) into() []any {
	return []any{&r.Name, &r.Target, &r.Failures, &r.retryAt, &r.Gone, &r.LastError}
}

// Destinations returns the destinations that have failed since they last worked, by name.
func (s *Store) Destinations(ctx context.Context) (map[string]Destination, error) {
	out := map[string]Destination{}
	now, err := s.db.Clock(ctx)
	var rows []destinationRow
	if err == nil {
		rows, err = db.Read(ctx, s.db, (*destinationRow).into, sqlDestinations)
	}
	for _, r := range rows {
		r.RetryIn = max(0, time.UnixMicro(r.retryAt).Sub(now))
		out[r.Name] = r.Destination
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the destinations: %w", err)
	}
	return out, nil
}

// The pauses of a failing destination that does not ask for a pause itself: they double.
const (
	firstPause   = 5 * time.Second // also the shortest that it can ask for
	LongestPause = 15 * time.Minute
)

// fault records that a destination failed, and pauses it for all processes: for as long as it asks,
// or longer each time. If one event is the likely cause, it is not a failure of a destination that
// has worked since its last failure. news reports whether the destination has only now begun to
// fail, or is only now gone.
func (s *Store) fault(ctx context.Context, d Destination, v verdict) (news bool, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		rows, err := db.Query(tx, (*destinationRow).into, s.db.Lock(sqlDestination), d.Name)
		if err != nil {
			return err
		}
		before := destinationRow{}
		if len(rows) > 0 && rows[0].Target == d.Target {
			before = rows[0]
		}
		failures := before.Failures + 1
		if v.event && before.Failures == 0 {
			failures = 0
		}
		news = before.Failures == 0 && failures > 0 || v.gone && !before.Gone
		pause := min(firstPause<<min(before.Failures, 20), LongestPause)
		if v.asked > 0 {
			pause = max(v.asked, firstPause)
		}
		resumes := now.Add(pause).UnixMicro()
		row := []any{d.Name, d.Target, failures, resumes, v.gone || before.Gone, db.Cut(v.fault.Error(), 4000)}
		return db.Upsert(tx, tableDestinations, "name", destinationColumns, [][]any{row})
	})
	if err != nil {
		return false, fmt.Errorf("record that the destination %q failed: %w", d.Name, err)
	}
	return news, nil
}

// Works forgets the failures of a destination, as when an operator enables one that was gone. It
// reports whether there were any.
func (s *Store) Works(ctx context.Context, name string) (news bool, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, _ time.Time) error {
		n, err := db.Exec(tx, sqlForgetDestination, name)
		news = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("record that the destination %q works: %w", name, err)
	}
	return news, nil
}
