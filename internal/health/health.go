// Package health computes the numbers by which an inbox is monitored, and raises an alert for each
// number above its limit.
//
// It only computes: it reads no database and changes nothing. Ages are measured by the database's
// clock, so that a wrong clock of this host neither raises nor hides an alert.
//
// An alert is raised when a number is greater than its limit, not when it is equal. A number
// without a limit raises none. Runs do not work on a disabled inbox; it raises alerts only for
// messages that wait for an operator: dead, uncertain and bounced ones.
package health

import (
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// Facts are the data about an inbox that Count and Check use.
type Facts struct {
	Inbox inbox.Inbox
	Stats tasks.Stats
	Left  *int // how many recipients smtp.limits allows now; nil for no limit
}

// Numbers are the numbers to monitor of an inbox.
type Numbers struct {
	Backlog       int // messages that have not ended: received, in_progress or error
	Due           int // those of Backlog that a run would claim now; 0 for a disabled inbox
	OldestWaiting time.Duration
	InError       int
	Dead          int
	Uncertain     int
	Bounced       int           // deliveries that bounced in the last day, after the relay had accepted them
	Conflicts     int           // changes in the last day by a worker that had lost its lease
	RetryRate     Share         // messages of the last day that took more than one attempt
	SinceScan     time.Duration // since the last complete scan, or since the inbox was added
}

// Count computes the numbers.
func Count(f Facts) Numbers {
	s := f.Stats
	n := Numbers{
		InError: s.ByStatus[tasks.Error], Dead: s.ByStatus[tasks.Dead],
		Uncertain: s.ByStatus[tasks.Uncertain], Bounced: s.Bounces,
		Conflicts: s.Conflicts,
	}
	if f.Inbox.Active {
		n.Due = s.Due
	}
	for status, count := range s.ByStatus {
		if !status.Ended() {
			n.Backlog += count
		}
	}
	if s.Oldest != nil {
		n.OldestWaiting = max(0, s.Now.Sub(*s.Oldest))
	}
	if tried := s.Ended + n.InError; tried > 0 {
		n.RetryRate = Share(float64(s.Retried+n.InError) / float64(tried))
	}
	last := f.Inbox.CreatedAt
	if f.Inbox.LastScannedAt != nil {
		last = *f.Inbox.LastScannedAt
	}
	n.SinceScan = max(0, s.Now.Sub(last))
	return n
}
