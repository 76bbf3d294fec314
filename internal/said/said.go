// Package said decides what a pass prints when nobody watches it: changes, not states.
//
// A pass under cron sees the same failure each minute. The failure is worth a line when it begins,
// again after each Remind while it lasts, and when it is over. The database records what was
// printed, so that passes, hosts and processes that stay up do not repeat each other: each state
// that was printed has a row, and only the process that changes the row prints the line.
//
// The change is committed before the line is printed. If a process is killed between the two, that
// line is lost; a failure that lasts is printed again after Remind. A line is never printed twice,
// with one exception: if the database fails, everything that is currently wrong is printed.
package said

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// State is something that holds now or does not, as far as this process knows. What it does not
// know is not among its states.
type State struct {
	Subject string // what it is about; unique
	Holds   bool
}

// Kind is what is worth saying about a state.
type Kind int

// The kinds.
const (
	Began Kind = iota // it holds, and that was not said yet
	Lasts             // it holds, and was said some time ago
	Ended             // it was said that it holds, and it does not any more
)

// Change is a state that this process has to say now.
type Change struct {
	State
	Kind   Kind
	Lasted time.Duration // since it was said first; zero when it began
}

const (
	// Reads the whole table: a row for each thing that is wrong.
	sqlSaid = `SELECT subject, since, said_at FROM monitored_said`

	// PRIMARY KEY (subject). Each of these matches one row for one of several processes.
	sqlBegan = `INSERT INTO monitored_said (subject, since, said_at) VALUES (?, ?, ?)`
	sqlLasts = `UPDATE monitored_said SET said_at = ? WHERE subject = ? AND said_at = ?`
	sqlEnded = `DELETE FROM monitored_said WHERE subject = ? AND since = ?`

	sqlForget = `DELETE FROM monitored_said WHERE said_at < ?`
)

// forgetAfter is when a row is deleted that nobody has changed: its inbox was removed or disabled.
const forgetAfter = 30 * 24 * time.Hour

// Store keeps in the database what was said.
type Store struct {
	db *db.DB
	// Remind is after what time a state that lasts is said again.
	Remind time.Duration
}

// New is a Store in an open database.
func New(d *db.DB, remind time.Duration) *Store { return &Store{db: d, Remind: remind} }

// row is a row of the table. Times are in microseconds.
type row struct {
	subject       string
	since, saidAt int64
}

func (r *row) into() []any { return []any{&r.subject, &r.since, &r.saidAt} }

// Changes returns those of the states that the caller has to print now, in their order. It writes
// to the database only then. A recorded subject that begins with one of the prefixes in whole, and
// is not among the states, no longer holds.
func (s *Store) Changes(ctx context.Context, states []State, whole ...string) ([]Change, error) {
	rows, now, err := s.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what was said: %w", err)
	}
	states = slices.Concat(states, over(rows, states, whole))
	var out []Change
	for _, state := range states {
		r, known := rows[state.Subject]
		c, news := s.news(state, r, known, now)
		if !news {
			continue
		}
		mine, err := s.take(ctx, c, r, now)
		if err != nil {
			return out, fmt.Errorf("record what is said: %w", err)
		}
		if mine {
			out = append(out, c)
		}
	}
	if len(out) > 0 {
		_ = s.forget(ctx, now) // else the next one does it
	}
	return out, nil
}

// over are the states that were said, and that hold no more because they are not listed.
func over(rows map[string]row, states []State, whole []string) []State {
	var out []State
	for subject := range rows {
		listed := slices.ContainsFunc(states, func(s State) bool { return s.Subject == subject })
		begins := func(prefix string) bool { return strings.HasPrefix(subject, prefix) }
		if !listed && slices.ContainsFunc(whole, begins) {
			out = append(out, State{subject, false})
		}
	}
	return out
}

func (s *Store) read(ctx context.Context) (rows map[string]row, now time.Time, err error) {
	var all []row
	if now, err = s.db.Clock(ctx); err == nil {
		all, err = db.Read(ctx, s.db, (*row).into, sqlSaid)
	}
	rows = map[string]row{}
	for _, r := range all {
		rows[r.subject] = r
	}
	return rows, now, err
}

// news is what there is to say about a state.
func (s *Store) news(state State, r row, known bool, now time.Time) (Change, bool) {
	c := Change{State: state, Lasted: now.Sub(time.UnixMicro(r.since))}
	switch {
	case state.Holds && !known:
		c.Kind, c.Lasted = Began, 0
		return c, true
	case state.Holds:
		c.Kind = Lasts
		return c, now.Sub(time.UnixMicro(r.saidAt)) >= s.Remind
	}
	c.Kind = Ended
	return c, known
}

// take changes the row, and reports whether this process did. An insertion that another process was
// faster with fails as a duplicate, which must not end the others; so each has a transaction.
func (s *Store) take(ctx context.Context, c Change, r row, now time.Time) (mine bool, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		var n int64
		var err error
		switch c.Kind {
		case Began:
			n, err = db.Exec(tx, sqlBegan, c.Subject, now.UnixMicro(), now.UnixMicro())
		case Lasts:
			n, err = db.Exec(tx, sqlLasts, now.UnixMicro(), c.Subject, r.saidAt)
		case Ended:
			n, err = db.Exec(tx, sqlEnded, c.Subject, r.since)
		}
		mine = n == 1
		return err
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return false, nil
	}
	return mine && err == nil, err
}

func (s *Store) forget(ctx context.Context, now time.Time) error {
	return s.db.Tx(ctx, func(tx *gorm.DB) error {
		return db.Run(tx, sqlForget, now.Add(-forgetAfter).UnixMicro())
	})
}
