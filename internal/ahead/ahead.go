// Package ahead repairs times that were written while the database's clock was ahead.
//
// Due times, leases and pauses go by the database's clock. A time that is written while that clock
// is ahead lies in the future once the clock is right again. A message that failed in between would
// wait until then, and so would an inbox whose run died, although nothing looks wrong. Repair
// recognises such a time because it is further ahead than the longest wait of its kind. Hosts may
// have different pauses and leases for tasks, so a task must also have been changed in the future.
//
// After the repair, what waits is due now. What a process may still hold is due after the length of
// a lease, within which the process renews it. Receipts and holders stay. A time that is less far
// ahead may be a real pause: it is left alone, and is over within the longest pause of its kind.
//
// The due times of actions on the IMAP server are left alone, too: an action may be planned for
// next month.
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

// Config says what is looked at, and how long it waits at most.
type Config struct {
	Inboxes      []int64  // whose tasks are looked at
	Destinations []string // whose events are looked at
	Longest      Waits
}

// Waits has the longest wait of each kind.
type Waits struct {
	Task, TaskLease   time.Duration
	Inbox, ScanLease  time.Duration // a server that asked to be left alone, and a scan
	TokenLease        time.Duration
	Destination       time.Duration
	Event, EventLease time.Duration
}

// slack is how much further ahead a time is before it is repaired: the clocks of the nodes of a
// cluster differ.
const slack = time.Minute

// kind is one kind of thing that waits: rows with a time in microseconds.
type kind struct {
	name          string
	table, column string
	which         string        // the rows, by an index
	arg           any           // of which
	longest       time.Duration // the longest wait
	lease         time.Duration // in how long it is due then
	held          string        // which rows have a lease: the others are due now; empty: all have
	changed       string        // the column that says when a row was changed; empty: none does
}

// inboxesAtOnce is how many inboxes one list has. MariaDB turns a list of 1,000 into a join.
const inboxesAtOnce = 512

func (c Config) kinds() []kind {
	w := c.Longest
	all := []kind{ // a row for each inbox, account, destination, and thing that is wrong
		{"scans", "monitored_emails", "scan_until", "", nil, max(w.Inbox, w.ScanLease), w.ScanLease, "", ""},
		{"pauses of actions", "monitored_emails", "actions_at", "", nil, w.Inbox, 0, "", ""},
		{"tokens", "oauth_tokens", "held_until", "", nil, w.TokenLease, w.TokenLease, "", ""},
		{"destinations", "monitored_destinations", "retry_at", "", nil, w.Destination, 0, "", ""},
		{"reminders", "monitored_said", "said_at", "", nil, 0, 0, "", ""},
	}
	if len(c.Destinations) > 0 {
		all = append(all, kind{
			"events", "monitored_outbox /*! FORCE INDEX (monitored_outbox_claim) */", "visible_at",
			"destination IN ? AND ", c.Destinations, max(w.Event, w.EventLease), w.EventLease, "", "",
		})
	}
	for ids := range slices.Chunk(c.Inboxes, inboxesAtOnce) {
		all = append(all, kind{
			"tasks", "monitored_emails_tasks /*! FORCE INDEX (monitored_emails_tasks_claim) */", "visible_at",
			"inbox_id IN ? AND priority IN (0, 1) AND ", ids,
			max(w.Task, w.TaskLease), w.TaskLease, "status = 'in_progress'", "updated_at",
		})
	}
	return all
}

// tooFar is the condition for what is too far ahead of now, with its arguments.
func (k kind) tooFar(now time.Time) (where string, args []any) {
	if k.arg != nil {
		args = []any{k.arg}
	}
	where, args = " WHERE "+k.which+k.column+" > ?", append(args, now.Add(k.longest+slack).UnixMicro())
	if k.changed != "" {
		where, args = where+" AND "+k.changed+" > ?", append(args, now.Add(slack))
	}
	return where, args
}

// repair is the statement that brings back what is too far ahead, with its arguments.
func (k kind) repair(now time.Time) (update string, args []any) {
	where, args := k.tooFar(now)
	set, due := k.column+" = ?", []any{now.Add(k.lease).UnixMicro()}
	if k.held != "" {
		set, due = k.column+" = CASE WHEN "+k.held+" THEN ? ELSE ? END", append(due, now.UnixMicro())
	}
	return "UPDATE " + k.table + " SET " + set + where, append(due, args...)
}

// Repair brings back what is too far ahead, and returns what that was, such as "scans: 1, tasks:
// 3"; "" for nothing. Then it has asked for the time, and whether there is anything, by indexes.
func Repair(ctx context.Context, d *db.DB, c Config) (what string, err error) {
	kinds, found := c.kinds(), false
	err = d.View(ctx, func(tx *gorm.DB) error {
		now, err := d.Now(tx)
		if err == nil {
			found, err = anyTooFar(tx, kinds, now)
		}
		return err
	})
	if err == nil && found {
		err = d.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
			what, err = repair(tx, kinds, now)
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("look for times that are too far ahead: %w", err)
	}
	return what, nil
}

func anyTooFar(tx *gorm.DB, kinds []kind, now time.Time) (bool, error) {
	var each []string
	var all []any
	for _, k := range kinds {
		where, args := k.tooFar(now)
		each, all = append(each, "EXISTS (SELECT 1 FROM "+k.table+where+")"), append(all, args...)
	}
	found, err := db.Query(tx, db.Value[bool], "SELECT "+strings.Join(each, " OR "), all...)
	return err == nil && found[0], err
}

func repair(tx *gorm.DB, kinds []kind, now time.Time) (what string, _ error) {
	var repaired []string
	for _, k := range kinds {
		update, args := k.repair(now)
		n, err := db.Exec(tx, update, args...)
		if err != nil {
			return "", err
		}
		if n > 0 {
			repaired = append(repaired, fmt.Sprintf("%s: %d", k.name, n))
		}
	}
	return strings.Join(repaired, ", "), nil
}
