package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/pass"
)

// left is how many recipients smtp.limits allow now, nil for any number. When that is none, why is the limit that is used up.
func (s *services) left(ctx context.Context) (n *int, why *limits.Reached) {
	if !s.quota.Limited() {
		return nil, nil
	}
	left, why, err := s.quota.Left(ctx)
	if err != nil {
		s.log.Warn("it is not known whether mail waits for a limit of the relay's provider", "error", err)
		return nil, nil
	}
	return &left, why
}

// watch tells what is known of the inboxes that concern somebody who named these; left is what smtp.limits allow now.
func (s *services) watch(ctx context.Context, named []string, left *int, each func(health.Facts)) error {
	boxes, err := s.inboxes.List(ctx, false)
	if err != nil {
		return err
	}
	for _, in := range boxes {
		if !health.Concerns(named, in.Address) {
			continue
		}
		stats, err := s.queue.Stats(ctx, in.ID)
		if err != nil {
			return err
		}
		each(health.Facts{
			Inbox: in.Address, Active: in.Active, CreatedAt: in.CreatedAt, LastScannedAt: in.LastScannedAt, LastError: in.LastError,
			Stats: stats, Left: left,
		})
	}
	return nil
}

// alertsAfter are the alerts after a pass over the boxes. They are told also when the pass was stopped, but not for long.
func (s *services) alertsAfter(ctx context.Context, boxes []inbox.Inbox, opts runOptions) ([]health.Alert, error) {
	alerts := []health.Alert{}
	if !s.cfg.Alerts.Set() || opts.dryRun {
		return alerts, nil
	}
	var named []string
	if len(opts.inboxes) > 0 {
		for _, in := range boxes { // as they are registered
			named = append(named, in.Address)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	left, _ := s.left(ctx)
	err := s.watch(ctx, named, left, func(f health.Facts) { alerts = append(alerts, health.Check(f, s.cfg.Alerts)...) })
	if err != nil {
		return alerts, &exitError{
			exitRetry,
			fmt.Errorf("the pass is over, but what it left could not be compared with the alerts; see `postrider status`: %w", err),
		}
	}
	return alerts, nil
}

// passReport is what `run --json` prints.
type passReport struct {
	pass.Report
	Alerts []health.Alert `json:"alerts"`
}

func printAlerts(w io.Writer, alerts []health.Alert) error {
	for _, alert := range alerts {
		if _, err := fmt.Fprintln(w, printable(alert.Message)); err != nil {
			return err
		}
	}
	return nil
}
