// Package sqlqueue is the queue of package tasks on MySQL, MariaDB and SQLite, from one code path.
//
// All its SQL stands in queries.go, with the index that serves it. Every change is one transaction; visibility and
// leases go by the database's clock. A transaction whose commit went through unnoticed is run again by package db, so
// each of them recognises its own work: registering by UID, claiming and finishing by the receipt, which stays with
// a task until somebody else changes it. Only the count of what a person changed may then be too low; the change is made
// once, and in the trail once.
package sqlqueue

import (
	"sync"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Queue implements tasks.Queue.
type Queue struct {
	db       *db.DB
	bell     bell
	patience time.Duration
	page     int // rows of the ledger that are read, or deleted, at once
}

var _ tasks.Queue = (*Queue)(nil)

// New returns the queue in an open database.
func New(d *db.DB) *Queue { return &Queue{db: d, patience: defaultPatience, page: defaultPage} }

const defaultPage = 1000

// bell wakes those who wait in this process for a task to become due.
type bell struct {
	mu   sync.Mutex
	news chan struct{}
}

// listen returns a channel that is closed when the bell rings next.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news == nil {
		b.news = make(chan struct{})
	}
	return b.news
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
}

// now is the database's clock, as a number for SQL to compare and as a time for people to read.
func (q *Queue) now(tx *gorm.DB) (int64, time.Time, error) {
	micros, err := q.db.Now(tx)
	return micros, time.UnixMicro(micros).UTC(), err
}

func event(tx *gorm.DB, at time.Time, taskID int64, worker, name, detail string) error {
	return tx.Exec(sqlEvent, taskID, at, db.Cut(worker, 255), name, db.Cut(detail, maxText)).Error
}

// maxText keeps what a TEXT column holds (65,535 octets) well out of reach.
const maxText = 4000
