// Package health says of an inbox what to watch, and which of it is past its limit.
//
// It is arithmetic on what the registry tells: it asks nobody and changes nothing. Ages go by the registry's clock, so
// that a host whose clock is wrong raises no alert, and keeps none back.
//
// An alert is raised when a value is above its limit, not when it reaches it. What is not limited raises none. A
// disabled inbox is left to itself by every run: it raises alerts only for messages that wait for a person, the dead
// and the uncertain ones.
package health

import (
	"slices"
	"time"

	"postrider/internal/tasks"
)

// Facts are what is known of an inbox.
type Facts struct {
	Inbox         string // its address
	Active        bool
	CreatedAt     time.Time
	LastScannedAt *time.Time // nil when no scan was completed yet
	LastError     string     // why the last scan did not complete; empty when it did
	Stats         tasks.Stats
	Left          *int // recipients that the relay's provider allows now (smtp.limits); nil for any number
}

// Numbers are what to watch of an inbox.
type Numbers struct {
	Backlog       int // messages that are neither done nor waiting for a person
	Due           int // of these, what a run would take up now
	OldestWaiting time.Duration
	InError       int
	Dead          int
	Uncertain     int
	Conflicts     int           // of the last day: a worker lost its lease to another and wanted to change the task
	RetryRate     Share         // of the last day: messages that took, or take, more than one attempt
	SinceScan     time.Duration // since the last complete scan, or since the inbox was added
}

// Concerns reports whether a pass is to tell the alerts of an inbox: one that was to work on some inboxes by name tells theirs alone, any
// other those of all, the disabled ones too.
func Concerns(named []string, inbox string) bool {
	return len(named) == 0 || slices.Contains(named, inbox)
}

// Count takes the numbers from the facts.
func Count(f Facts) Numbers {
	s := f.Stats
	n := Numbers{
		Due: s.Due, InError: s.ByStatus[tasks.Error], Dead: s.ByStatus[tasks.Dead], Uncertain: s.ByStatus[tasks.Uncertain],
		Conflicts: s.Conflicts,
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
	last := f.CreatedAt
	if f.LastScannedAt != nil {
		last = *f.LastScannedAt
	}
	n.SinceScan = max(0, s.Now.Sub(last))
	return n
}
