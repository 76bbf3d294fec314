package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/health"
	"postrider/internal/pass"
	"postrider/internal/text"
)

type runOptions struct {
	chosen  inboxChoice
	dryRun  bool
	json    bool
	timeout time.Duration
}

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	c := &cobra.Command{
		Use:   "run [--inbox ADDR]... [--label L]... [--dry-run] [--json]",
		Short: "Do one pass over the active inboxes; cron runs this",
		Long: `run does one pass: it works off what earlier passes left, registers what is new
in the active inboxes, decides who gets it and forwards it. Passes may overlap:
one run scans an inbox at a time, and all of them forward what is due. run is
silent on success unless on a terminal. It prints alerts for what is past a threshold of the configuration (alerts)
afterwards, and ends with 75 then. Last it reports failures to notify and hook;
an error in that is logged and does not change the exit code.

When the configuration has errors, run prints all of them, does nothing and exits with 2. New
mail waits on its server until the configuration is fixed.

SIGTERM, SIGINT and --timeout end it cleanly: messages in flight are finished,
the rest waits for the next pass, exit code 75. A second signal ends it at once;
that loses nothing either.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.runPass(c.Context(), opts) },
	}
	opts.chosen.register(a, c)
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
	signalled := ctx // without --timeout: passes that always use it up would report nothing
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
	if err := s.checkTextFile(); err != nil {
		return err
	}
	if err := s.db.Exposed(); err != nil {
		s.log.Warn("other users can read the database", "error", err)
	}
	defer context.AfterFunc(ctx, s.db.StopWaiting)() // else a database that is gone outlasts a signal
	boxes, err := s.inboxes.ActiveOf(ctx, opts.chosen.Selection)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	if len(boxes) == 0 {
		all, err := s.inboxes.List(ctx, false)
		if err != nil {
			return beforeItBegan(ctx, err)
		}
		s.log.Warn("there is no active inbox; " + activate(len(all)))
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
	if !opts.dryRun && s.quota.Limited() { // else endless mail would use up the limits before each notice
		s.report(signalled, notices, true)
	}
	report := passReport{Report: p.Run(ctx, boxes)}
	s.logCommits(ctx, time.Duration(report.DurationMS)*time.Millisecond)
	if !opts.dryRun {
		s.report(signalled, notices, report.RelayError == "")
		s.keepMeasures(ctx, report.Report)
	}
	var unknown error
	report.Alerts, unknown = s.alertsAfter(ctx, boxes, opts)
	if err := errors.Join(watch.close(), a.printReport(report, watch, opts)); err != nil {
		return err
	}
	if unknown == nil && (!report.Clean() || len(report.Alerts) > 0) {
		return errRetry
	}
	return unknown
}

// logCommits says how long commits took: with -v when that was most of the time, as on a slow disk.
func (s *services) logCommits(ctx context.Context, whole time.Duration) {
	n, took := s.db.Commits()
	level := slog.LevelDebug
	if took > max(whole/2, time.Second) {
		level = slog.LevelInfo
	}
	s.log.Log(ctx, level, "commits to the database", "number", n, "took", took.Round(time.Millisecond), "of", whole)
}

// untilSignal ends with the first SIGINT or SIGTERM; a second one is not caught any more.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// beforeItBegan is the error of a run that a signal or --timeout ended before it did anything: the
// next run does the work.
func beforeItBegan(ctx context.Context, err error) error {
	if ctx.Err() != nil && exitCode(err) == exitFailed {
		return &exitError{exitRetry, errors.New("stopped before it began")}
	}
	return err
}

// passReport is what `run --json` prints.
type passReport struct {
	pass.Report
	Alerts []health.Alert `json:"alerts"`
}

// printReport prints JSON when asked to, a table on a terminal, and otherwise only what needs
// attention: cron mails it.
func (a *app) printReport(r passReport, watch *observer, opts runOptions) error {
	switch {
	case opts.dryRun && opts.json:
		return watch.printDryRun(r)
	case opts.json:
		return json.NewEncoder(a.out).Encode(r)
	case opts.dryRun && watch.found == 0 && r.Clean():
		return a.tell("There is nothing new and nothing due: a run would forward nothing.\n")
	case opts.dryRun:
		return nil
	case isTerminal(a.out):
		return errors.Join(a.reportTable(r.Report), printAlerts(a.out, r.Alerts))
	}
	return errors.Join(a.reportTrouble(r.Report), printAlerts(a.err, r.Alerts))
}

func (a *app) reportTable(r pass.Report) error {
	if quiet(r) {
		return a.tell("Nothing new and nothing due.\n")
	}
	g := a.table("inbox", "registered", "forwarded", "no match", "skipped", "retry", "dead", "uncertain", "waiting", "backlog", "note")
	row := func(name string, c pass.Counters, note string) []any {
		return []any{name, c.Registered, c.Forwarded, c.SkippedNoMatch, c.Skipped, c.Retry, c.Dead, c.Uncertain, c.Waiting, c.Backlog, note}
	}
	for _, in := range r.Inboxes {
		note := text.Cut(in.Busy, 80)
		if in.Error != "" {
			note = "failed, see above" // the log has the whole error
		}
		g.Add(row(in.Email, in.Counters, note)...)
	}
	if len(r.Inboxes) > 1 {
		g.Total = row("total", r.Totals, "")
	}
	if g.Len() > 0 {
		if err := g.Print(a.out); err != nil {
			return err
		}
	}
	if err := a.limitReached(r.LimitReached); err != nil {
		return err
	}
	if r.RelayError != "" {
		if _, err := fmt.Fprintln(a.out, "Forwarding stopped:", r.RelayError); err != nil {
			return err
		}
	}
	return a.whatToDo(r.Totals)
}

// quiet reports whether a pass found nothing to do, and nothing to tell.
func quiet(r pass.Report) bool {
	return len(r.Inboxes) > 0 && r.Clean() && r.LimitReached == "" && r.Totals == pass.Counters{} &&
		!slices.ContainsFunc(r.Inboxes, func(in pass.InboxReport) bool { return in.Busy != "" })
}

// whatToDo names the commands that show what needs an operator, or is tried again.
func (a *app) whatToDo(c pass.Counters) error {
	for _, it := range []struct {
		n            int
		what, filter string
	}{
		{c.Dead, "dead", "--status dead"},
		{c.Uncertain, "uncertain", "--status uncertain"},
		{c.Retry, "to be retried", "--status error --status received"},
	} {
		if it.n == 0 {
			continue
		}
		if _, err := fmt.Fprintf(a.out, "%d %s: postrider task list %s\n", it.n, it.what, it.filter); err != nil {
			return err
		}
	}
	return nil
}

// reportTrouble prints a line for each inbox with something to look at. The errors of inboxes and
// of the relay have been logged when they occurred.
func (a *app) reportTrouble(r pass.Report) error {
	for _, in := range r.Inboxes {
		var parts []string
		add := func(n int, what string) {
			if n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, what))
			}
		}
		add(in.Counters.Retry, "to be retried")
		add(in.Counters.Dead, "dead (see `postrider task list --status dead`)")
		add(in.Counters.Uncertain, "uncertain (see `postrider task list --status uncertain`)")
		add(in.Counters.Backlog, "not registered yet")
		if len(parts) == 0 {
			continue
		}
		add(in.Counters.Waiting, "waiting for smtp.limits") // which alone is not an error
		if _, err := fmt.Fprintf(a.err, "%s: %s\n", in.Email, strings.Join(parts, ", ")); err != nil {
			return err
		}
	}
	return nil
}
