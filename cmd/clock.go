package cmd

import (
	"context"
	"maps"
	"slices"
	"time"

	"postrider/internal/ahead"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
)

// longestLease is above all leases that the configuration does not set.
const longestLease = 5 * time.Minute

// repairTimes brings back what was put off by a clock that was ahead, and says what that was.
func (s *services) repairTimes(ctx context.Context, boxes []inbox.Inbox) {
	cfg := ahead.Config{
		Destinations: slices.Collect(maps.Keys(s.cfg.Events)),
		Lease:        max(s.cfg.Concurrency.Lease, longestLease),
		Retry:        2 * s.cfg.Retry.Max, // more than its random part
	}
	for _, in := range boxes {
		cfg.Inboxes = append(cfg.Inboxes, in.ID)
	}
	for _, e := range s.cfg.Events {
		cfg.Lease = max(cfg.Lease, outbox.Lease(e.Timeout))
	}
	what, err := ahead.Repair(ctx, s.db, cfg)
	if err != nil { // whoever works with the database now says so, too
		s.log.Info(err.Error())
	}
	if what != "" {
		s.log.Warn("times in the database were too far ahead, because its clock was wrong or the configuration had longer pauses; they were corrected, and what waits for them is due soon",
			"times", what, "due_in", cfg.Lease)
	}
}
