package db

import (
	"context"
	"sync"
	"time"
)

const (
	// stoppedPatience is for an outage after StopWaiting: enough to connect again, and longer than
	// another process of postrider holds an SQLite file. For that it begins with StopWaiting.
	stoppedPatience = 5 * time.Second
	probeFor        = 2 * time.Second // how long a probe may take
	probeEvery      = time.Second     // pause between two probes
)

// outages is what all transactions of one DB know about an outage. They share one budget: the first
// failure starts its clock, and the first success ends the outage.
type outages struct {
	mu       sync.Mutex
	since    time.Time // the first failure; zero while there is no outage
	failedAt time.Time // the last failure
	reads    bool      // reading works: it neither waits nor ends the outage
	spent    bool      // a transaction gave up
	last     error
	probing  bool
	probed   time.Time // the end of the last probe, or of the last transaction that was given up

	stop      sync.Once
	stoppedAt time.Time     // set before stopped is closed
	stopped   chan struct{} // closed by StopWaiting
}

// StopWaiting ends all waiting for an unavailable database, now and from now on: call it when a
// signal asks the process to end. A running statement is not interrupted, a connection that breaks
// is still replaced within 5 s, transactions still wait 5 s for a locked SQLite file, and are still
// run again after deadlocks.
func (db *DB) StopWaiting() {
	db.outage.stop.Do(func() {
		db.outage.stoppedAt = time.Now()
		close(db.outage.stopped)
	})
}

func (o *outages) isStopped() bool {
	select {
	case <-o.stopped:
		return true
	default:
		return false
	}
}

// forgetAfter is longer than the time between two tries of a transaction: nobody waits any more.
const forgetAfter = 2 * time.Minute

// failed notes a failure, and returns when the outage began.
func (o *outages) failed(err error, reads bool) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.since.IsZero() || !o.spent && now.Sub(o.failedAt) > forgetAfter {
		o.since = now
	}
	o.failedAt = now
	o.last, o.reads = err, reads
	return o.since
}

// answered notes that the database works.
func (o *outages) answered(writes bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if writes || !o.reads {
		o.since, o.spent = time.Time{}, false
	}
}

// admit lets a transaction begin, unless the budget is spent and the database is still unavailable:
// then one transaction a second probes it, and all others fail at once.
func (o *outages) admit(ctx context.Context, writes bool, probe func(context.Context) error) error {
	o.mu.Lock()
	if !o.spent || o.reads && !writes {
		o.mu.Unlock()
		return nil
	}
	if o.probing || time.Since(o.probed) < probeEvery {
		defer o.mu.Unlock()
		return o.last
	}
	o.probing = true
	o.mu.Unlock()

	limited, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	err := probe(limited)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probing = false
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	o.probed = time.Now()
	return o.last // the probe may say only that its time was up
}

// gaveUp notes that a transaction waited long enough. The budget of an outage that began later than
// that transaction is not spent yet.
func (o *outages) gaveUp(since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spent = o.spent || !o.since.After(since)
	o.probed = time.Now()
}
