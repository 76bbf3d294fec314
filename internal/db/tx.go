package db

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// Tx runs fn in a transaction, READ COMMITTED on MySQL and BEGIN IMMEDIATE on SQLite, and commits it when fn returns
// nil. fn may run several times, even after a commit that went through unnoticed; see the package comment. It
// must return the errors of its statements: a transaction is never gone on with after one. fn's own errors come back
// unchanged, and end it at once; so does ctx.
//
// On MySQL each statement has 30 s: one that takes longer counts as a lost connection, and the server may still be at it.
func (db *DB) Tx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return db.retry(ctx, func() error {
		return db.gorm.WithContext(ctx).Transaction(fn)
	})
}

// View runs fn, which only reads, outside a transaction, with the retries of Tx.
func (db *DB) View(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return db.retry(ctx, func() error {
		return fn(db.gorm.WithContext(ctx))
	})
}

// retry runs op until it succeeds, fails for a reason that does not pass, or the time is up.
func (db *DB) retry(ctx context.Context, op func() error) error {
	start := time.Now()
	for attempt := 0; ; attempt++ {
		err := op()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case !transient(err):
			return err
		}
		pause := backoff(attempt)
		if time.Since(start)+pause > db.retryFor {
			return fmt.Errorf("%s database %s: tried for %s: %w", db.dialect, db.where, db.retryFor, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// backoff is about 10 ms, then doubles up to half a second. The random factor keeps two transactions that
// deadlocked from meeting again.
func backoff(attempt int) time.Duration {
	pause := min(10*time.Millisecond<<min(attempt, 6), 500*time.Millisecond)
	return time.Duration(float64(pause) * (0.5 + rand.Float64()))
}
