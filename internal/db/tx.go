package db

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// Tx runs fn in a transaction, READ COMMITTED on MySQL and BEGIN IMMEDIATE on SQLite, and commits
// it when fn returns nil. fn may run several times, even after a commit that went through
// unnoticed; see the package comment. It must return the errors of its statements: no statement may
// follow a failed one. fn's own errors come back unchanged, and end the transaction at once; so
// does ctx.
//
// On MySQL each statement has 30 s: one that takes longer counts as a lost connection, and the
// server may still work on it.
func (db *DB) Tx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return db.explained(db.tx(ctx, fn))
}

func (db *DB) tx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return db.retry(ctx, true, func() error {
		var asked time.Time
		err := db.gorm.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			err := fn(tx)
			asked = time.Now()
			return err
		})
		if err == nil {
			db.commits.Add(1)
			db.committing.Add(int64(time.Since(asked)))
		}
		return err
	})
}

// ErrChanged means that what the transaction read was changed concurrently.
var ErrChanged = errors.New("changed concurrently")

// maxTries bounds how often Change runs its function.
const maxTries = 20

// Change is Tx with the time, by Now. fn runs again if it returns ErrChanged, or if another
// transaction inserted one of its keys first (gorm.ErrDuplicatedKey).
func (db *DB) Change(ctx context.Context, fn func(tx *gorm.DB, now time.Time) error) error {
	return db.ChangeBy(ctx, db.Now, fn)
}

// ChangeBy is Change with another clock, such as AboutNow.
func (db *DB) ChangeBy(ctx context.Context, clock func(*gorm.DB) (time.Time, error),
	fn func(tx *gorm.DB, now time.Time) error,
) error {
	for try := 1; ; try++ {
		err := db.Tx(ctx, func(tx *gorm.DB) error {
			now, err := clock(tx)
			if err != nil {
				return err
			}
			return fn(tx, now)
		})
		changed := errors.Is(err, ErrChanged) || errors.Is(err, gorm.ErrDuplicatedKey)
		if !changed || try == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// Commits is how many transactions were committed, and how long the commits took. The durations of
// parallel commits are added.
func (db *DB) Commits() (n int64, took time.Duration) {
	return db.commits.Load(), time.Duration(db.committing.Load())
}

// View runs fn, which only reads, outside a transaction, with the retries of Tx.
func (db *DB) View(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return db.explained(db.retry(ctx, false, func() error {
		tx := db.gorm.WithContext(ctx)
		tx.Statement.ConnPool = db.viewPool
		return fn(tx)
	}))
}

// retry runs op until it succeeds, fails permanently, or the time is up: its own time for
// contention, and that of the whole DB for an outage.
func (db *DB) retry(ctx context.Context, writes bool, op func() error) error {
	if err := db.outage.admit(ctx, writes, db.probe); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return db.unavailable(err)
	}
	start := time.Now()
	for attempt := 0; ; attempt++ {
		err := op()
		kind := classify(err)
		switch {
		case ctx.Err() != nil && err != nil:
			return db.ended(ctx, err)
		case kind == permanent:
			db.outage.answered(writes)
			return err
		}
		pause := backoff(attempt)
		if attempt == 0 && kind == unwritable {
			start = time.Now() // before, it may have waited for the one connection of this process
		}
		if kind == contention {
			if time.Since(start)+pause > db.retryFor {
				return fmt.Errorf("%s database %s: tried for %s: %w; %s",
					db.dialect, db.where, db.retryFor, err, db.fix(err))
			}
			if serverError(err) == 1205 {
				db.otherServer() // a Galera node that is cut off answers like that: it cannot wait for the others
			}
			err = db.pause(ctx, pause, nil, err)
		} else {
			err = db.waitOut(ctx, start, pause, kind, writes, err)
		}
		if err != nil {
			return err
		}
	}
}

// waitOut waits for a database that is unavailable or can only be read, or gives up.
func (db *DB) waitOut(
	ctx context.Context, start time.Time, pause time.Duration, kind trouble, writes bool, err error,
) error {
	if kind != outage {
		db.otherServer()
	}
	since := db.outage.failed(err, writes && kind == unwritable)
	if start.Before(since) {
		since = start // others succeed, this one does not
	}
	patience, stopped := db.retryFor, db.outage.stopped
	if db.outage.isStopped() {
		patience, stopped = min(patience, stoppedPatience), nil
		if asked := db.outage.stoppedAt; kind == unwritable && since.Before(asked) {
			since = asked
		}
	}
	if time.Since(since)+pause > patience {
		db.outage.gaveUp(since)
		return db.unavailable(err)
	}
	return db.pause(ctx, pause, stopped, err)
}

// pause returns nil when it is time to try again.
func (db *DB) pause(ctx context.Context, pause time.Duration, stopped <-chan struct{}, err error) error {
	select {
	case <-time.After(pause):
	case <-stopped:
	case <-ctx.Done():
		return db.ended(ctx, err)
	}
	return nil
}

// ended is the error of a transaction whose context has ended. err is its last one.
func (db *DB) ended(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w while waiting for the %s database %s", err, db.dialect, db.where)
	}
	return fmt.Errorf("%w while waiting for the %s database %s: %w", ctx.Err(), db.dialect, db.where, err)
}

// otherServer has the next statement connect again: a balancer, or a name that moved with the
// primary, leads to another server then.
func (db *DB) otherServer() {
	if db.pool != nil && db.dialect == MySQL {
		db.pool.SetMaxIdleConns(0)
		db.pool.SetMaxIdleConns(mysqlConns)
	}
}

// backoff is about 10 ms, then doubles up to half a second. The random factor keeps two
// transactions that deadlocked from meeting again.
func backoff(attempt int) time.Duration {
	pause := min(10*time.Millisecond<<min(attempt, 6), 500*time.Millisecond)
	return time.Duration(float64(pause) * (0.5 + rand.Float64()))
}
