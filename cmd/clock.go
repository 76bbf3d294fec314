package cmd

import (
	"context"
	"errors"
	"log/slog"

	"postrider/internal/ahead"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
)

// repairTimes brings back what was put off by a clock that was ahead, and says what that was.
func (s *services) repairTimes(ctx context.Context, boxes []inbox.Inbox) {
	cfg := ahead.Config{
		Inboxes: inbox.IDs(boxes),
		Pause:   2 * s.cfg.Retry.Max, // more than its random part
		Lease:   s.cfg.Concurrency.Lease,
	}
	for name, e := range s.cfg.Events {
		cfg.Destinations = append(cfg.Destinations, name)
		cfg.EventLease = max(cfg.EventLease, outbox.Lease(e.Timeout))
	}
	what, err := ahead.Repair(ctx, s.db, cfg)
	if err = errors.Join(err, s.quota.Tidy(ctx)); err != nil { // whoever works with the database now says so, too
		s.log.Info(err.Error())
	}
	if what == "" {
		return
	}
	level := slog.LevelWarn
	if s.heard.quiet {
		level = slog.LevelInfo
	}
	s.log.Log(ctx, level, "the clock of the database was ahead for a while; what was put off by that was corrected, and is due soon", "times", what)
}
