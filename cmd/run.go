package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/after"
	"postrider/internal/forward"
	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/said"
	"postrider/internal/text"
)

type runOptions struct {
	chosen  inbox.Selection
	dryRun  bool
	json    bool
	quiet   bool
	timeout time.Duration
}

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	c := &cobra.Command{
		Use:   "run [--inbox ADDR]... [--label L]... [--dry-run] [--json]",
		Short: "Do one pass over the active inboxes; cron runs this",
		Long: `run does one pass. It registers new messages in the active inboxes, and forwards
what is due, also from earlier passes. Passes may overlap: one of them scans an
inbox, and all of them forward.

On a terminal it prints a summary. Elsewhere it prints only what changed since
earlier passes, such as an inbox that begins to fail; report.remind repeats that
while it lasts, and --quiet omits it. If a value is above a threshold of alerts,
run prints the alert and exits with 75. At the end it sends failure notices
(notify, hook), for up to 10 seconds after --timeout; if that fails, it logs the
error, and the exit code does not change.

When the configuration has errors, run prints all of them, does nothing and
exits with 2. New mail waits on its server until the configuration is fixed.

SIGTERM, SIGINT, SIGHUP (its terminal is closed) and --timeout end it cleanly:
messages in flight are finished, the rest waits for the next pass, exit code 75.
A second SIGTERM or SIGINT ends it at once: no message is lost, but one that is
being sent may arrive twice.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.runPass(c.Context(), opts) },
	}
	a.chooseInboxes(c, &opts.chosen)
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "register nothing, send nothing, print what would happen")
	c.Flags().BoolVar(&opts.json, "json", false, "print the report as one JSON object")
	c.Flags().BoolVarP(&opts.quiet, "quiet", "q", false,
		"print nothing about inboxes, the relay and messages; metrics and notices have it")
	c.Flags().DurationVar(&opts.timeout, "timeout", 0, "end cleanly after the duration `D`, such as 10m")
	return c
}

func (a *app) runPass(ctx context.Context, opts runOptions) error {
	if opts.timeout < 0 {
		return usage(errors.New("--timeout is negative"))
	}
	if !opts.dryRun {
		withoutReader()
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		// A terminal that is closed sends more than one: none of them ends it at once.
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	signalled := ctx // without --timeout
	if opts.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.timeout)
		defer cancel()
	}
	defer a.garbage(garbageOfRun)()
	s, err := a.open(ctx, checkTextFile)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	defer s.close()
	defer context.AfterFunc(ctx, s.db.StopWaiting)() // else a database that is gone outlasts a signal
	boxes, err := a.toRun(ctx, s, opts)
	if err != nil {
		return err
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
	p.Config.Quiet = opts.quiet || !a.watched(opts)
	var report passReport
	if opts.dryRun {
		report, err = a.preview(ctx, s, p, boxes, opts, watch)
	} else {
		report, err = a.wholePass(ctx, signalled, s, p, boxes, opts, relay)
	}
	if err != nil {
		return err
	}
	a.printed(watch.close())
	a.printReport(report, watch, opts)
	err = errors.Join(a.sayChanges(ctx, s, report, opts), report.unknown)
	if err == nil && (!report.Clean() || len(report.Alerts) > 0) {
		return errRetry
	}
	return err
}

// toRun are the inboxes to work on. Before anything is done, it looks at the database, and warns.
func (a *app) toRun(ctx context.Context, s *services, opts runOptions) ([]inbox.Inbox, error) {
	if !opts.dryRun {
		if err := s.db.FileWritable(); err != nil {
			return nil, err
		}
	}
	s.heard.unwatched, s.heard.quiet = !a.watched(opts), opts.quiet
	if err := s.db.Exposed(); err != nil && s.news(ctx, "exposed") {
		s.log.Warn("other users can read the database", "error", err)
	}
	boxes, err := s.inboxes.ActiveOf(ctx, opts.chosen)
	if err == nil && len(boxes) == 0 && (a.watched(opts) || !opts.chosen.Empty()) && !opts.quiet {
		err = s.warnNoInbox(ctx)
	}
	return boxes, beforeItBegan(ctx, err)
}

// wholePass does a pass and what goes with it, in this order: times that a wrong clock has set are
// corrected; events go out beside the pass; actions on the servers follow it, and then notices and
// alerts about it.
func (a *app) wholePass(ctx, signalled context.Context, s *services, p *pass.Pass, boxes []inbox.Inbox, opts runOptions,
	relay *forward.Relay,
) (passReport, error) {
	notices := a.notifier(s, p.Composer, relay)
	mailed := s.reportFirst(ctx, notices)
	s.repairTimes(ctx, boxes)
	events, closeEvents, err := s.dispatcher()
	if err != nil {
		return passReport{}, err
	}
	endEvents := s.publish(ctx, events, closeEvents)
	report := s.passOver(ctx, p, boxes, opts)
	endEvents(true)
	s.actAfter(ctx, signalled, boxes)
	s.logCommits(ctx, time.Duration(report.DurationMS)*time.Millisecond)
	s.reportLast(ctx, signalled, notices, mailed && report.RelayError == "")
	s.keepPass(ctx, report.Report)
	report.Alerts, report.unknown = s.alertsAfter(ctx, opts.chosen)
	return report, nil
}

// preview is a dry run.
func (a *app) preview(
	ctx context.Context, s *services, p *pass.Pass, boxes []inbox.Inbox, opts runOptions, watch *observer,
) (passReport, error) {
	var err error
	if watch.then, err = a.thenDeleted(ctx, s); err != nil {
		return passReport{}, err
	}
	report := s.passOver(ctx, p, boxes, opts)
	report.Alerts = []health.Alert{}
	s.logCommits(ctx, time.Duration(report.DurationMS)*time.Millisecond)
	report.WouldDelete, err = s.actor().Deletions(ctx, boxes)
	return report, err
}

// passOver is the pass itself. If the bounce inbox is not read, a pass over all inboxes reports it.
func (s *services) passOver(ctx context.Context, p *pass.Pass, boxes []inbox.Inbox, opts runOptions) passReport {
	report := passReport{Report: p.Run(ctx, boxes)}
	if opts.chosen.Empty() {
		report.Inboxes = s.withBounces(ctx, report.Inboxes, boxes, p.Config.Quiet)
	}
	return report
}

// logCommits says how long commits took: with -v when that was most of the time, as on a slow disk.
func (s *services) logCommits(ctx context.Context, whole time.Duration) {
	n, took := s.db.Commits()
	level := slog.LevelDebug
	if took > max(whole/2, time.Second) {
		level = slog.LevelInfo
	}
	s.log.Log(ctx, level, "commits to the database", "commits", n, "took", took.Round(time.Millisecond), "pass", whole)
}

// untilSignal ends with the first SIGINT or SIGTERM; a second one is not caught any more.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// withoutReader lets the process go on when its output is not read any more, as when Ctrl-C ends a
// `| tee` as well: a write fails then. Caught, SIGPIPE, which closed connections send too, ends
// nothing.
func withoutReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// untilSignal is untilSignal for what uses the database: a signal also ends the waiting for that.
func (s *services) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := untilSignal(ctx)
	context.AfterFunc(ctx, s.db.StopWaiting) // also at the end, where nothing waits
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
	Alerts      []health.Alert   `json:"alerts"`
	WouldDelete []after.Deletion `json:"would_delete,omitempty"` // of --dry-run: on the server

	unknown error // why Alerts are not known
}

// printReport prints JSON when asked to, and a table on a terminal. Elsewhere sayChanges prints
// what needs attention: cron mails it.
func (a *app) printReport(r passReport, watch *observer, opts runOptions) {
	switch {
	case opts.dryRun && opts.json:
		a.printed(watch.printDryRun(r))
	case opts.json:
		a.printJSON(r)
	case opts.dryRun && watch.found == 0 && len(r.WouldDelete) == 0 && r.Clean():
		a.tell("There is nothing new and nothing due: a run would forward nothing.\n")
	case opts.dryRun:
		a.printDeletions(r.WouldDelete)
	case opts.quiet:
	case isTerminal(a.out):
		a.reportTable(r.Report)
		a.printAlerts(r.Alerts)
	case a.watched(opts):
		a.printTroubles(said.Troubles(r.Report, r.Alerts))
	}
}

// reportTable prints what is not plain, and ends with a sentence and with what to do.
func (a *app) reportTable(r pass.Report) {
	if quiet(r) {
		a.tell("Nothing new and nothing due.\n")
		return
	}
	g := a.table("inbox", "registered", "forwarded", "no match", "skipped", "retry", "dead", "uncertain",
		"waiting", "backlog", "note")
	for _, in := range r.Inboxes {
		if in.Plain() {
			continue
		}
		note := text.Cut(in.Busy, 80)
		switch {
		case in.Left != "": // a line of the log is about the server, and may not name all its inboxes
			note = "cannot reach " + text.Line(in.Left)
		case in.Error != "":
			note = "failed, see above" // the log has the whole error
		}
		c := in.Counters
		g.Add(in.Email, c.Registered, c.Forwarded, c.SkippedNoMatch, c.Skipped, c.Retry, c.Dead, c.Uncertain,
			c.Waiting, c.Backlog, note)
	}
	if g.Len() > 0 {
		a.printed(g.Print(a.out))
	}
	a.limitReached(r.LimitReached)
	if r.RelayError != "" {
		a.print("Forwarding stopped: %s\n", r.RelayError)
	}
	if len(r.Inboxes) > 0 {
		a.tell("%s\n", r.Sentence())
	}
	a.whatToDo(r.Totals)
}

// quiet reports whether a pass found nothing to do, and nothing to tell.
func quiet(r pass.Report) bool {
	return len(r.Inboxes) > 0 && r.Clean() && r.LimitReached == "" && r.Totals == pass.Counters{} &&
		!slices.ContainsFunc(r.Inboxes, func(in pass.InboxReport) bool { return in.Busy != "" })
}

// whatToDo names the commands that show what needs an operator, or is tried again.
func (a *app) whatToDo(c pass.Counters) {
	for _, it := range []struct {
		n            int
		what, filter string
	}{
		{c.Dead, "dead", "--status dead"},
		{c.Uncertain, "uncertain", "--status uncertain"},
		{c.Retry, "to be retried", "--status error --status received"},
	} {
		if it.n > 0 {
			a.print("%d %s: postrider task list %s\n", it.n, it.what, it.filter)
		}
	}
}
