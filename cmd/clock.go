package cmd

import (
	"context"
	"errors"
	"log/slog"

	"postrider/internal/ahead"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/outbox/webhook"
	"postrider/internal/pass"
	"postrider/internal/tokens"
)

// repairTimes brings back what was put off by a clock that was ahead, and says what that was.
func (s *services) repairTimes(ctx context.Context, boxes []inbox.Inbox) {
	cfg := ahead.Config{Inboxes: inbox.IDs(boxes), Longest: ahead.Waits{
		Task:      2 * s.cfg.Retry.Max, // more than its random part
		TaskLease: s.cfg.Concurrency.Lease, Inbox: imapsrc.LongestBackOff,
		ScanLease: pass.LongestScanLease, TokenLease: tokens.Lease,
		Destination: max(outbox.LongestPause, webhook.LongestLater), Event: outbox.LongestPause,
	}}
	for name, e := range s.cfg.Events {
		cfg.Destinations = append(cfg.Destinations, name)
		cfg.Longest.EventLease = max(cfg.Longest.EventLease, outbox.Lease(e.Timeout))
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
	s.log.Log(ctx, level,
		"the clock of the database was ahead for a while; what was put off by that was corrected, and is due soon",
		"times", what)
}
