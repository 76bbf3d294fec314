package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// watch tells what is known of all inboxes, or of those only.
func (s *services) watch(ctx context.Context, only []int64, each func(health.Facts)) error {
	boxes, err := s.inboxes.List(ctx, false)
	if err != nil {
		return err
	}
	for _, in := range boxes {
		if only != nil && !slices.Contains(only, in.ID) {
			continue
		}
		stats, err := s.queue.Stats(ctx, in.ID)
		if err != nil {
			return err
		}
		each(health.Facts{
			Inbox: in.Address, Active: in.Active, CreatedAt: in.CreatedAt, LastScannedAt: in.LastScannedAt, LastError: in.LastError,
			Stats: stats,
		})
	}
	return nil
}

// alertsAfter are the alerts after a pass over the boxes: of all inboxes, unless only some were named. They are told also
// when the pass was stopped, but not for long.
func (s *services) alertsAfter(ctx context.Context, boxes []inbox.Inbox, opts runOptions) ([]health.Alert, error) {
	alerts := []health.Alert{}
	if !s.cfg.Alerts.Set() || opts.dryRun {
		return alerts, nil
	}
	var only []int64
	if len(opts.inboxes) > 0 {
		for _, in := range boxes {
			only = append(only, in.ID)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.watch(ctx, only, func(f health.Facts) { alerts = append(alerts, health.Check(f, s.cfg.Alerts)...) })
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
