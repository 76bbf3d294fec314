package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// ErrNotFound reports that there is no such entry.
var ErrNotFound = errors.New("no such entry")

// Filter selects entries. Empty fields select all.
type Filter struct {
	Destination string
	Statuses    []Status
	Kind        Kind
	TaskID      int64
	Within      time.Duration // created at most this long ago
	Limit       int           // the newest first when set, the oldest first otherwise
}

// List returns the entries that a filter selects, without their bodies.
func (s *Store) List(ctx context.Context, f Filter) (entries []Entry, _ error) {
	now, err := s.db.Clock(ctx)
	if err == nil {
		query, args := f.query(now)
		entries, err = db.Read(ctx, s.db, entryInto, query, args...)
	}
	if err != nil {
		return nil, fmt.Errorf("list the outbox: %w", err)
	}
	return entries, nil
}

func (f Filter) query(now time.Time) (string, []any) {
	where, args := []string{"1 = 1"}, []any{}
	and := func(set bool, condition string, arg any) {
		if set {
			where, args = append(where, condition), append(args, arg)
		}
	}
	and(f.Destination != "", "destination = ?", f.Destination)
	and(len(f.Statuses) > 0, "status IN ?", f.Statuses)
	and(f.Kind != "", "kind = ?", f.Kind)
	and(f.TaskID != 0, "task_id = ?", f.TaskID)
	and(f.Within != 0, "created_at >= ?", now.Add(-f.Within))
	order := " ORDER BY id"
	if f.Limit > 0 {
		order, args = " ORDER BY id DESC LIMIT ?", append(args, f.Limit)
	}
	return "SELECT " + listedColumns + " FROM " + tableOutbox + " WHERE " + strings.Join(where, " AND ") + order, args
}

// Get returns ErrNotFound if there is no such entry. A waiting action is not visible before the
// pause of its inbox ends.
func (s *Store) Get(ctx context.Context, id int64) (Entry, error) {
	rows, err := db.Read(ctx, s.db, entryInto, sqlEntry, id)
	switch {
	case err != nil:
		return Entry{}, fmt.Errorf("read entry %d of the outbox: %w", id, err)
	case len(rows) == 0:
		return Entry{}, ErrNotFound
	}
	e := rows[0]
	if e.Destination != Server || e.Status != Waiting {
		return e, nil
	}
	paused, err := db.Read(ctx, s.db, db.Value[int64], sqlPausedUntil, e.InboxID, e.VisibleAt.UnixMicro())
	if err != nil {
		return Entry{}, fmt.Errorf("read until when the actions of inbox %d pause: %w", e.InboxID, err)
	}
	if len(paused) > 0 {
		at := time.UnixMicro(paused[0]).UTC()
		e.VisibleAt = &at
	}
	return e, nil
}

// Retry requeues dead and skipped entries, with all attempts available again, and makes waiting
// ones due now. It ends the pauses of their destinations, and of the actions of their inboxes, but
// does not enable a destination that is gone. An event that could not be made is not retried. Retry
// returns how many entries changed. For each one it adds a line with the operator to the trail of
// its task or inbox, as do Skip and Purge.
func (s *Store) Retry(ctx context.Context, who string, ids ...int64) (int, error) {
	retry := func(tx *gorm.DB, ids []int64, now time.Time) (int64, error) {
		if err := db.Run(tx, sqlEndPauses, ids); err != nil {
			return 0, err
		}
		if err := db.Run(tx, sqlEndPausesOfInboxes, ids, Server); err != nil {
			return 0, err
		}
		return db.Exec(tx, sqlRetry, now.UnixMicro(), now, ids)
	}
	return s.byOperator(ctx, who, "event_retried", sqlToRetry, ids, Retryable, retry)
}

// Skip ends entries that wait, and dead ones. It reports how many.
func (s *Store) Skip(ctx context.Context, who string, ids ...int64) (int, error) {
	skip := func(tx *gorm.DB, ids []int64, now time.Time) (int64, error) {
		return db.Exec(tx, sqlSkip, db.Cut("skipped by "+who, 4000), now, ids)
	}
	return s.byOperator(ctx, who, "event_skipped", sqlToChange, ids, Skippable, skip)
}

// Purge deletes entries that have ended. It reports how many.
func (s *Store) Purge(ctx context.Context, who string, ids ...int64) (int, error) {
	purge := func(tx *gorm.DB, ids []int64, _ time.Time) (int64, error) {
		return db.Exec(tx, sqlPurge, ids)
	}
	return s.byOperator(ctx, who, "event_purged", sqlToChange, ids, Purgeable, purge)
}

// Expire deletes entries that were done or skipped longer than age ago, at most limit of them. It
// skips actions in inboxes that were removed.
func (s *Store) Expire(ctx context.Context, age time.Duration, limit int) (n int, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := db.Run(tx, sqlSkipOrphans, "the inbox was removed", now, Server); err != nil {
			return err
		}
		ids, err := db.Query(tx, db.Value[int64], sqlOld, now.Add(-age), limit)
		if err != nil || len(ids) == 0 {
			n = 0
			return err
		}
		gone, err := db.Exec(tx, sqlPurge, ids)
		n = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete old outbox entries: %w", err)
	}
	return n, nil
}

// changed is a row of sqlToChange.
type changed struct {
	id, taskID, inboxID       int64
	kind, destination, action string
}

func (c *changed) into() []any {
	return []any{&c.id, &c.taskID, &c.inboxID, &c.kind, &c.destination, &c.action}
}

// byOperator changes the entries that are in one of the states.
func (s *Store) byOperator(ctx context.Context, who, what, find string, ids []int64, from []Status,
	change func(tx *gorm.DB, ids []int64, now time.Time) (int64, error),
) (n int, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		found, err := db.Query(tx, (*changed).into, s.db.Lock(find+" ORDER BY id"), ids, from)
		if n = len(found); err != nil || n == 0 {
			return err
		}
		var some []int64
		var trail [][]any
		for _, c := range found {
			if c.taskID != 0 {
				c.inboxID = 0
			}
			some = append(some, c.id)
			detail := fmt.Sprintf("by an operator: event %d (%s) for %s", c.id, c.kind, c.destination)
			if c.action != "" {
				detail += ": " + c.action
			}
			trail = append(trail, []any{c.taskID, c.inboxID, now, db.Cut(who, 255), what, detail})
		}
		matched, err := change(tx, some, now)
		if err == nil && matched != int64(n) {
			err = errChanged
		}
		if err != nil {
			return err
		}
		return db.Insert(tx, "monitored_emails_events", "task_id, inbox_id, at, worker, event, detail", trail)
	})
	if err != nil {
		return 0, fmt.Errorf("change the outbox: %w", err)
	}
	return n, nil
}
