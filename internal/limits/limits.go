// Package limits keeps postrider within the limits of a provider: a number of recipients in any
// minute, hour and day, over all passes and hosts.
//
// Before a transaction with the relay its recipients are reserved in the database, under the lock
// of one row and by the clock of the database. A reservation counts in each window from when it is
// made until one window after the end of its transaction, so it does not matter when in between the
// provider counts. The end is recorded with the next reservation, or by Flush: one short
// transaction each time, and none when nothing is limited.
//
// When a process dies, its reservations are no longer renewed, and then count as used: that may
// waste a part of the limit, but never exceeds it. Windows move by a sixtieth of their length, so a
// recipient counts for up to that much longer.
//
// A relay is identified by its host, port and user. Two accounts do not share their limits.
package limits

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"postrider/internal/db"
)

// Limits are how many recipients may be named to the relay in any window of that length; 0 is no
// limit.
type Limits struct {
	PerMinute, PerHour, PerDay int
}

// Config says whose limits are kept, and how.
type Config struct {
	Host   string // the relay's
	Port   int
	User   string // empty without a login
	Limits Limits
	Lease  time.Duration // of a reservation, at most a day; Renew it in time
	Now    func() time.Time
}

// Quota is what is left of the limits. It is safe for concurrent use, by any number of processes.
type Quota struct {
	db    *db.DB
	cfg   Config
	relay string

	mu    sync.Mutex
	open  map[string]bool // the tokens of reservations in use
	ended []ended         // not noted yet
}

// ended is a reservation whose transaction is over.
type ended struct {
	token string
	used  int
	at    time.Time // by the host's clock
}

// New returns the quota that a database keeps of a relay.
func New(d *db.DB, cfg Config) *Quota {
	relay := strings.ToLower(net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if cfg.User != "" {
		relay = cfg.User + "@" + relay // a host has no @
	}
	return &Quota{db: d, cfg: cfg, relay: relay, open: map[string]bool{}}
}

// Reached is a limit that is used up. It is temporary, and not an error of anybody.
type Reached struct {
	Key   string        // such as smtp.limits.per_hour
	Limit int           // recipients
	Until time.Time     // by the database's clock; transactions under way may delay it
	Wait  time.Duration // until then
}

// Error is one line, with the minute in which the next recipient may go.
func (r *Reached) Error() string {
	until, layout := r.Until.Add(time.Minute-1).UTC().Truncate(time.Minute), "15:04 UTC"
	if now := r.Until.Add(-r.Wait).UTC(); now.YearDay() != until.YearDay() {
		layout = "2006-01-02 15:04 UTC"
	}
	return fmt.Sprintf("%s (%d) is used up until %s", r.Key, r.Limit, until.Format(layout))
}

// Limited reports whether there is any limit.
func (q *Quota) Limited() bool { return q.cfg.Limits != Limits{} }

// Reserve asks for one transaction with up to n recipients, and grants some of them: at least one,
// or it fails with *Reached. After the transaction, done gets the number of recipients that were
// named to the relay.
func (q *Quota) Reserve(ctx context.Context, n int) (granted int, done func(used int), err error) {
	if !q.Limited() {
		return n, func(int) {}, nil
	}
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	token := rand.Text()
	var why *Reached
	err = q.settle(ctx, func(u *usage, now int64) {
		// An earlier try may have been committed although its reply was lost.
		if granted = u.Open[token].N; granted > 0 {
			return
		}
		if granted, why = u.left(q.cfg.Limits, now); why == nil {
			granted = min(granted, n)
			u.Open[token] = reservation{granted, now + q.cfg.Lease.Microseconds()}
		}
	})
	switch {
	case err != nil:
		return 0, nil, err
	case why != nil:
		return 0, nil, why
	}
	q.mu.Lock()
	q.open[token] = true
	q.mu.Unlock()
	return granted, func(used int) { q.end(token, used) }, nil
}

func (q *Quota) end(token string, used int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, token)
	q.ended = append(q.ended, ended{token, used, q.cfg.Now()})
}

// Left is how many recipients could be reserved now. When it is none, why is the limit that is used
// up.
func (q *Quota) Left(ctx context.Context) (n int, why *Reached, err error) {
	if !q.Limited() {
		return math.MaxInt, nil, nil
	}
	local := q.cfg.Now()
	u, now, err := q.look(ctx)
	if err != nil {
		return 0, nil, err
	}
	q.mu.Lock()
	u.note(q.ended, now, local)
	q.mu.Unlock()
	n, why = u.left(q.cfg.Limits, now)
	return max(n, 0), why, nil
}

// Tidy stores the usage as of now, which writes only if that changes it. What was recorded while
// the clock was ahead counts from then on: whoever only looks counts it as of now each time.
func (q *Quota) Tidy(ctx context.Context) error {
	if !q.Limited() {
		return nil
	}
	return q.settle(ctx, func(*usage, int64) {})
}

// Renew keeps the reservations of transactions that are under way.
func (q *Quota) Renew(ctx context.Context) error {
	q.mu.Lock()
	idle := len(q.open) == 0
	q.mu.Unlock()
	if idle {
		return nil
	}
	return q.settle(ctx, func(*usage, int64) {})
}

// Flush records what ended. Call it before the process ends; otherwise its last transactions count
// for longer.
func (q *Quota) Flush(ctx context.Context) error {
	q.mu.Lock()
	idle := len(q.ended) == 0
	q.mu.Unlock()
	if idle {
		return nil
	}
	return q.settle(ctx, func(*usage, int64) {})
}

// settle records what ended, renews what is under way, and makes a change.
func (q *Quota) settle(ctx context.Context, change func(u *usage, now int64)) error {
	q.mu.Lock()
	over := q.ended
	q.ended = nil
	q.mu.Unlock()
	err := q.update(context.WithoutCancel(ctx), func(u *usage, now int64, local time.Time) {
		u.note(over, now, local)
		q.mu.Lock()
		for token := range q.open {
			u.renew(token, now+q.cfg.Lease.Microseconds())
		}
		q.mu.Unlock()
		change(u, now)
	})
	if err != nil {
		q.mu.Lock()
		q.ended = append(q.ended, over...)
		q.mu.Unlock()
	}
	return err
}
