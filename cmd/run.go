package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

type runOptions struct {
	inboxes []string
	dryRun  bool
	json    bool
	timeout time.Duration
}

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	c := &cobra.Command{
		Use:   "run [--inbox ADDR]... [--dry-run] [--json] [--timeout D]",
		Short: "Do one pass over the active inboxes: this is what cron runs",
		Long: `run does one pass: it works off what earlier passes left, registers what is new in the active
inboxes, decides who gets it and forwards it. Passes may overlap; one that finds an inbox being
worked on steps aside, or helps when another host is at it. It is silent on success unless on a
terminal. What is past a threshold of the configuration (alerts) afterwards is told, and makes
the exit code 75. Then whom notify and hook name is told what failed; what goes wrong with that
is logged, and does not change the exit code.

When the configuration has errors, run prints all of them, does nothing and exits with 2. New
mail waits on its server until the configuration is fixed.

SIGTERM, SIGINT and --timeout end it cleanly: what is on the wire finishes, the rest waits for
the next pass, exit code 75. A second signal ends it at once; nothing is lost by that either.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.runPass(c.Context(), opts) },
	}
	c.Flags().StringArrayVar(&opts.inboxes, "inbox", nil, "only this `ADDR`, may be repeated")
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "register nothing, send nothing, print what would happen")
	c.Flags().BoolVar(&opts.json, "json", false, "print the report as one JSON object")
	c.Flags().DurationVar(&opts.timeout, "timeout", 0, "end cleanly after the duration `D`, such as 10m")
	return c
}

func (a *app) runPass(ctx context.Context, opts runOptions) error {
	if opts.timeout < 0 {
		return usage(errors.New("--timeout is negative"))
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	signalled := ctx
	if opts.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.timeout)
		defer cancel()
	}
	s, err := a.open(ctx)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	defer s.close()
	boxes, err := chosen(ctx, s.inboxes, opts.inboxes)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	if len(boxes) == 0 {
		s.log.Warn("there is no active inbox; add one with `postrider inbox add ADDR --host HOST`")
	}
	relay, err := s.relay()
	if err != nil {
		return err
	}
	defer func() { _ = relay.Close() }()
	watch := a.observer("forwarding", opts)
	p, err := s.pass(ctx, relay, watch, opts.dryRun)
	if err != nil {
		return err
	}
	notices := a.notifier(s, p.Composer, relay)
	if !opts.dryRun && s.quota.Limited() { // else mail that never ends would use up the limits before each notice
		s.tell(signalled, notices, true)
	}
	report := passReport{Report: p.Run(ctx, boxes)}
	if !opts.dryRun { // --timeout is the pass's: were it this one's, too, passes that always need more would never tell
		s.tell(signalled, notices, report.RelayError == "")
	}
	var unknown error
	report.Alerts, unknown = s.alertsAfter(ctx, boxes, opts)
	if err := errors.Join(watch.close(), a.printReport(report, opts)); err != nil {
		return err
	}
	if unknown == nil && (!report.Clean() || len(report.Alerts) > 0) {
		return errRetry
	}
	return unknown
}

// untilSignal ends with the first SIGINT or SIGTERM; a second one is not caught any more.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// beforeItBegan tells a failure that a signal or --timeout brought about from any other: the next pass does the work then.
func beforeItBegan(ctx context.Context, err error) error {
	if ctx.Err() != nil && exitCode(err) == exitFailed {
		return &exitError{exitRetry, errors.New("stopped before it began")}
	}
	return err
}

// chosen are the active inboxes, or those of them that were named.
func chosen(ctx context.Context, store *inbox.Store, names []string) ([]inbox.Inbox, error) {
	if len(names) == 0 {
		return store.List(ctx, true)
	}
	var out []inbox.Inbox
	seen := map[int64]bool{}
	for _, name := range names {
		in, err := store.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if !in.Active {
			return nil, usage(fmt.Errorf("inbox %s is disabled; enable it with `postrider inbox enable %s`", in.Address, in.Address))
		}
		if !seen[in.ID] {
			out = append(out, in)
		}
		seen[in.ID] = true
	}
	return out, nil
}

// printReport prints JSON when asked to, a table on a terminal, and otherwise only what needs attention: cron mails it.
func (a *app) printReport(r passReport, opts runOptions) error {
	switch {
	case opts.json:
		return json.NewEncoder(a.out).Encode(r)
	case opts.dryRun:
		return nil
	case isTerminal(a.out):
		return errors.Join(a.reportTable(r.Report), printAlerts(a.out, r.Alerts))
	}
	return errors.Join(a.reportTrouble(r.Report), printAlerts(a.err, r.Alerts))
}
