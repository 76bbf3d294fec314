// Package ahead repairs times that were written while the database's clock was ahead.
//
// Due times, leases and pauses go by the database's clock. A time that is written while that clock
// is ahead lies in the future once the clock is right again. A message that failed in between would
// wait until then, and so would an inbox whose run died, although nothing looks wrong. Repair
// recognises such a time because it is further ahead than the longest wait of its kind.
//
// Repair sets it to Config.Lease from now, and not to now: a process that still works under the
// lease renews it before that. Receipts and holders stay. A time that is less far ahead may be a
// real pause; it is left alone, and passes within the longest pause of its kind.
//
// Actions on the IMAP server are left alone, too: one may be planned for next month.
package ahead

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Config says what is looked at, and how long it may wait.
type Config struct {
	Inboxes      []int64       // whose tasks are looked at
	Destinations []string      // whose events are looked at
	Lease        time.Duration // no lease is longer
	Retry        time.Duration // no task pauses longer
}

// How long the rest pauses at most.
const (
	longestBackOff     = time.Hour        // of an inbox, see pass
	longestRetryAfter  = 24 * time.Hour   // of a destination, see webhook
	longestRetryEvents = 15 * time.Minute // see outbox
)

// kind is one kind of thing that waits: rows with a time in microseconds.
type kind struct {
	name          string
	table, column string
	which         string        // rows, by an index
	arg           any           // of which
	longest       time.Duration // beside Config.Lease
}

// inboxesAtOnce is how many inboxes one list has. MariaDB turns a list of 1,000 into a join.
const inboxesAtOnce = 512

func (c Config) kinds() []kind {
	all := []kind{ // a row for each inbox, account, destination, and thing that is wrong
		{"scans", "monitored_emails", "scan_until", "", nil, longestBackOff},
		{"tokens", "oauth_tokens", "held_until", "", nil, 0},
		{"destinations", "monitored_destinations", "retry_at", "", nil, longestRetryAfter},
		{"reminders", "monitored_said", "said_at", "", nil, 0},
	}
	if len(c.Destinations) > 0 {
		all = append(all, kind{
			"events", "monitored_outbox /*! FORCE INDEX (monitored_outbox_claim) */", "visible_at", "destination IN ? AND ", c.Destinations, longestRetryEvents,
		})
	}
	for ids := range slices.Chunk(c.Inboxes, inboxesAtOnce) {
		all = append(all, kind{
			"tasks", "monitored_emails_tasks /*! FORCE INDEX (monitored_emails_tasks_claim) */", "visible_at", "inbox_id IN ? AND priority IN (0, 1) AND ", ids, c.Retry,
		})
	}
	return all
}

// tooFar is the condition for what is too far ahead of now, with its arguments.
func (c Config) tooFar(k kind, now int64) (where string, args []any) {
	if k.arg != nil {
		args = []any{k.arg}
	}
	return " WHERE " + k.which + k.column + " > ?", append(args, now+max(k.longest, c.Lease).Microseconds())
}

// Repair brings back what is too far ahead, and returns what that was, such as "scans: 1, tasks: 3";
// "" for nothing. Then it costs one query, whatever there is.
func Repair(ctx context.Context, d *db.DB, c Config) (what string, err error) {
	kinds, found := c.kinds(), false
	err = d.View(ctx, func(tx *gorm.DB) error {
		now, err := d.Now(tx)
		if err == nil {
			found, err = c.any(tx, kinds, now)
		}
		return err
	})
	if err == nil && found {
		err = d.Tx(ctx, func(tx *gorm.DB) error {
			now, err := d.Now(tx)
			if err == nil {
				what, err = c.repair(tx, kinds, now)
			}
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("look for times that are too far ahead: %w", err)
	}
	return what, nil
}

// any reports whether something is too far ahead.
func (c Config) any(tx *gorm.DB, kinds []kind, now int64) (bool, error) {
	var each []string
	var all []any
	for _, k := range kinds {
		where, args := c.tooFar(k, now)
		each, all = append(each, "EXISTS (SELECT 1 FROM "+k.table+where+")"), append(all, args...)
	}
	found, err := db.Query(tx, db.Value[bool], "SELECT "+strings.Join(each, " OR "), all...)
	return err == nil && found[0], err
}

func (c Config) repair(tx *gorm.DB, kinds []kind, now int64) (what string, _ error) {
	var repaired []string
	for _, k := range kinds {
		where, args := c.tooFar(k, now)
		n, err := db.Exec(tx, "UPDATE "+k.table+" SET "+k.column+" = ?"+where, append([]any{now + c.Lease.Microseconds()}, args...)...)
		if err != nil {
			return "", err
		}
		if n > 0 {
			repaired = append(repaired, fmt.Sprintf("%s: %d", k.name, n))
		}
	}
	return strings.Join(repaired, ", "), nil
}
