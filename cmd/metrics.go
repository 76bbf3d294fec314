package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/metrics"
)

func (a *app) metricsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print the state as metrics for Prometheus",
		Long: `metrics prints the state of all inboxes, and what passes measured, as
OpenMetrics text. It reads the database and connects to no server. All hosts
print the same numbers.

To have each pass write them for node_exporter, set metrics.textfile in the
configuration. docs/metrics.md explains each metric.
` + exitHelp,
		Example: `  postrider metrics
  postrider metrics | grep backlog`,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.metrics(c.Context()) },
	}
}

func (a *app) metrics(ctx context.Context) error {
	return a.with(ctx, func(s *services) error {
		report, err := s.status().Read(ctx)
		if err != nil {
			return err
		}
		return metrics.Print(a.out, report, s.metricsOptions())
	})
}

func (s *services) metricsOptions() metrics.Options {
	return metrics.Options{Labels: s.cfg.Metrics.Labels, Version: version()}
}

// checkTextFile fails before a pass begins if there is no directory for its metrics. Mail does not
// wait for anything else that keeps them from being written.
func checkTextFile(cfg *config.Config) error {
	if cfg.Metrics.TextFile == "" {
		return nil
	}
	if err := metrics.CheckDirectory(cfg.Metrics.TextFile); err != nil {
		return usage(fmt.Errorf("metrics.textfile: %w", err))
	}
	return nil
}

// writeTextFile writes the metrics of all inboxes for node_exporter.
func (s *services) writeTextFile(ctx context.Context) error {
	if s.cfg.Metrics.TextFile == "" {
		return nil
	}
	report, err := s.status().Read(ctx)
	if err != nil {
		return err
	}
	return metrics.WriteFile(s.cfg.Metrics.TextFile, report, s.metricsOptions())
}
