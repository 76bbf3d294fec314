// Package sqlqueue is the queue of package tasks on MySQL, MariaDB and SQLite, from one code path.
//
// Fixed SQL is in queries.go, queries_read.go and queries_arrivals.go, with the index that serves
// it; read.go and texts.go build the conditions of filters. Every change is one transaction.
// Visibility and leases go by the database's clock.
//
// Several database nodes (Galera) may share the work. A lock holds on one node only; two nodes
// conflict only on a row that both write. An operation that must be exclusive therefore starts with
// an UPDATE that changes the row, and checks how many rows it matched, or with an INSERT under a
// unique key. SELECT ... FOR UPDATE is used only for rows that the same transaction then changes;
// correctness does not depend on it. LOCK IN SHARE MODE keeps reads that belong together
// consistent, also on a cluster: a change from another node aborts the transaction that holds the
// lock, and it runs again.
//
// Package db repeats a transaction whose commit succeeded but whose answer was lost. Each
// transaction therefore recognises its own work: a registration by its UIDs, a claim or a finish by
// the receipt, which stays with a task until something else changes it. Only the number of tasks
// that an operator's command reports as changed may then be too low.
package sqlqueue

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// Queue implements tasks.Queue.
type Queue struct {
	db       *db.DB
	journal  *db.Group[*change]
	follows  map[outbox.Kind]bool
	woken    func()        // when something is noted
	patience time.Duration // how long Receive waits while others have locked all that is due
	page     int           // rows of the ledger that are read, or deleted, at once
}

var _ tasks.Queue = (*Queue)(nil)

// New returns the queue in an open database.
func New(d *db.DB) *Queue {
	q := &Queue{db: d, patience: 100 * time.Millisecond, page: 1000}
	q.journal = db.NewGroup(q.commit)
	return q
}

// errChanged is a transaction that read what has been changed concurrently.
var errChanged = fmt.Errorf("the registry was %w", db.ErrChanged)

// update runs an UPDATE or DELETE and reports whether it matched a row.
func update(tx *gorm.DB, sql string, args ...any) (bool, error) {
	matched, err := db.Exec(tx, sql, args...)
	return matched > 0, err
}

// first is the first row of a query; the zero value when there is none.
func first[R any](tx *gorm.DB, into func(*R) []any, sql string, args ...any) (row R, _ error) {
	rows, err := db.Query(tx, into, sql, args...)
	if len(rows) > 0 {
		row = rows[0]
	}
	return row, err
}

// one is the value of a query that has one, in a View of its own; the zero value when there is no
// row.
func one[V any](ctx context.Context, q *Queue, sql string, args ...any) (v V, _ error) {
	rows, err := db.Read(ctx, q.db, db.Value[V], sql, args...)
	if len(rows) > 0 {
		v = rows[0]
	}
	return v, err
}

// touched are the arguments of a statement that begins with touch.
func touched(now time.Time, args ...any) []any {
	return append([]any{now, now.Add(time.Microsecond), now}, args...)
}

func event(tx *gorm.DB, at time.Time, taskID int64, worker, name, detail string) error {
	return db.Run(tx, sqlEvent, taskID, at, db.Cut(worker, 255), name, cut(detail))
}

// noteOnce adds a line to the trail of a task, unless it is there already.
func noteOnce(tx *gorm.DB, at time.Time, taskID int64, worker string, n tasks.Note) error {
	noted, err := first(tx, db.Value[int], sqlEventLike, taskID, n.Event, cut(n.Detail))
	if err != nil || noted > 0 {
		return err
	}
	return event(tx, at, taskID, worker, n.Event, n.Detail)
}

// cut shortens a text to well below what a TEXT column holds (65,535 octets).
func cut(text string) string { return db.Cut(text, 4000) }

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
