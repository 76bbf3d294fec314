package cmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/notify"
	"postrider/internal/pass"
	"postrider/internal/status"
	"postrider/internal/tasks"
	"postrider/internal/terminal"
	"postrider/internal/text"
)

type statusOptions struct {
	chosen inbox.Selection
	overview
	json bool
}

func (a *app) statusCommand() *cobra.Command {
	var opts statusOptions
	c := &cobra.Command{
		Use:   "status [--inbox ADDR]... [--label L]... [--all|--failing]",
		Short: "Show the state of each inbox: backlog, states, last scan",
		Long: `status shows what is known of each inbox, without connecting to it. The backlog
is the number of unfinished tasks. Due tasks are those of the backlog that the
next run claims; the others wait for a retry or for smtp.limits, or are in
progress. "Last day" has the recipients whose message bounced after the relay
had accepted it, the conflicts (a worker lost its lease to another) and the
share of messages that took more than one attempt. Columns that are 0 everywhere
are left out.

When a limit of the relay's provider (smtp.limits) is used up and tasks wait for
it, a line below the table shows how long.

With more than ` + many + ` inboxes it shows a summary and the inboxes with trouble: the
last scan failed, the last complete scan is older than alerts.last_scan (an hour
if that is not set), a login is needed, messages are dead or uncertain, or
bounced in the last day, or there is an alert. --all shows all inboxes.

Below the table are the alerts: values above a threshold of the configuration
(alerts), for the inboxes that --inbox and --label choose. They make the exit
code 75. Below them are the failures that could not be reported yet (notify,
hook).
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.status(c.Context(), opts) },
	}
	a.chooseInboxes(c, &opts.chosen)
	opts.register(c)
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object")
	return c
}

func (a *app) status(ctx context.Context, opts statusOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		sources := s.status()
		sources.Only = opts.chosen
		report, err := sources.Read(ctx)
		if err != nil {
			return err
		}
		switch {
		case len(report.Inboxes) == 0 && !opts.json:
			a.print("%s\n", noInbox)
		case opts.json:
			report.Inboxes = toShow(opts.ofJSON(), report.Inboxes, status.Inbox.Troubled)
			a.printJSON(report)
		default:
			a.statusOverview(report.Inboxes, opts.overview)
			a.relayTrouble(report)
			a.limitReached(report.LimitReached)
			a.printAlerts(report.Alerts)
			a.printWaiting(report.Notices)
			a.printStandings(report.Events)
			a.needOperator(report.Inboxes)
		}
		if len(report.Alerts) > 0 {
			return errRetry
		}
		return nil
	})
}

// statusOverview is the table of the inboxes that are shown, and the errors of their last scans.
func (a *app) statusOverview(boxes []status.Inbox, o overview) {
	n := countInboxes(boxes, status.Inbox.Troubled, func(b status.Inbox) bool { return b.Active })
	a.overview(o, n, func() {
		boxes := toShow(o, boxes, status.Inbox.Troubled)
		a.printed(a.statusTable(boxes).Print(a.out))
		for _, b := range boxes {
			a.lastError(b.Email, scanError(b.Email, b.LastError, b.NeedsLogin))
		}
	})
}

// needOperator names the commands that show the tasks that need one, on a terminal.
func (a *app) needOperator(boxes []status.Inbox) {
	if !isTerminal(a.out) {
		return
	}
	var all pass.Counters
	bounced := 0
	for _, b := range boxes {
		all.Dead += b.Dead
		all.Uncertain += b.Uncertain
		bounced += b.Bounced
	}
	a.whatToDo(all)
	if bounced > 0 {
		a.print("%s bounced after the relay had accepted them: "+
			"`postrider task list --bounced`, then `postrider task retry --bounced`\n",
			text.Count(bounced, "message"))
	}
}

func (s *services) status() status.Sources {
	return status.Sources{
		Inboxes: s.inboxes, Queue: s.queue, Quota: s.quota, Alerts: s.cfg.Alerts, Log: s.log,
		Notices: s.waitingNotices, Logins: s.logins, Measures: s.measured, Events: s.standings,
	}
}

// alertsAfter are the alerts after a pass. A pass that was stopped has them, too, within ten
// seconds.
func (s *services) alertsAfter(ctx context.Context, chosen inbox.Selection) ([]health.Alert, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	sources := s.status()
	sources.Only = chosen
	alerts, err := sources.Check(ctx)
	if err != nil {
		err = fmt.Errorf("the pass is over, but the alerts could not be checked; see `postrider status`: %w", err)
		err = &exitError{exitRetry, err}
	}
	return alerts, err
}

func (a *app) statusTable(boxes []status.Inbox) *terminal.Table {
	g := a.table("inbox", "active", "backlog", "messages", "last day", "oldest", "last scan")
	g = a.painted(g, "messages", paintStates)
	for _, b := range boxes {
		backlog, oldest, scan := strconv.Itoa(b.Backlog), a.whenKnown(b.OldestWaitingAt), a.when(b.LastScannedAt)
		if b.Due > 0 {
			backlog += fmt.Sprintf(" (%d due)", b.Due)
		}
		if g.Width > 0 && b.OldestWaitingAt != nil {
			oldest = text.Span(b.Numbers.OldestWaiting)
		}
		if g.Width > 0 && b.LastScannedAt != nil {
			scan = text.Ago(b.Numbers.SinceScan)
		}
		g.Add(b.Email, yesNo(b.Active), backlog, messages(b), lastDay(b), oldest, scan)
	}
	return g
}

// states is like "3 received, 1 dead".
func states(counts map[tasks.Status]int) string {
	var parts []string
	for _, s := range tasks.Statuses {
		if n := counts[s]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+stateName(s))
		}
	}
	return strings.Join(parts, ", ")
}

// messages are the states, and how many of the forwarded ones bounced.
func messages(b status.Inbox) string {
	out := states(b.Counts)
	if b.Bounced > 0 {
		out += ", " + strconv.Itoa(b.Bounced) + " of them bounced"
	}
	return out
}

func stateName(s tasks.Status) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(s), "skipped_"), "_", " ")
}

func lastDay(b status.Inbox) string {
	var parts []string
	if b.BouncedLately > 0 {
		parts = append(parts, strconv.Itoa(b.BouncedLately)+" bounced")
	}
	if b.Conflicts > 0 {
		parts = append(parts, text.Count(b.Conflicts, "conflict"))
	}
	if b.RetryRate > 0 {
		parts = append(parts, b.RetryRate.String()+" retried")
	}
	return strings.Join(parts, ", ")
}

// scanError is why the next scan fails if nothing is done: a person has to log in, or what the last
// one met.
func scanError(email, lastError, needsLogin string) string {
	if needsLogin == "" {
		return lastError
	}
	return "needs login: " + needsLogin + "; log in with `postrider inbox login " + text.Arg(email) + "`"
}

// lastError is the error of the last scan of an inbox, if there was one. The fix is at its end.
func (a *app) lastError(inbox, what string) {
	if what != "" {
		a.print("%s: last error: %s\n", inbox, text.Line(what))
	}
}

// relayTrouble says why nothing goes out.
func (a *app) relayTrouble(r status.Report) {
	switch {
	case r.RelayNeedsLogin != "":
		a.print("relay: needs login: %s; log in with `postrider smtp login`\n", text.Line(r.RelayNeedsLogin))
	case r.RelayUp != nil && !*r.RelayUp:
		a.print("relay: refused or failed at the last attempt; test it with `postrider check`\n")
	}
}

// limitReached says which of smtp.limits due tasks wait for.
func (a *app) limitReached(limit string) {
	if limit != "" {
		a.print("Mail waits: %s\n", limit)
	}
}

func (a *app) printAlerts(alerts []health.Alert) {
	for _, alert := range alerts {
		a.print("%s\n", text.Line(alert.Message))
	}
}

func (a *app) printWaiting(all []notify.Waiting) {
	for _, w := range all {
		line := fmt.Sprintf("notices: %d waiting for %s", w.Waiting, strings.TrimPrefix(w.Channel, "mail:"))
		if w.LastError != "" {
			line += "; the last attempt failed: " + text.Cut(w.LastError, 300)
		}
		a.print("%s\n", text.Line(line))
	}
}
