package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"postrider/internal/health"
	"postrider/internal/notify"
	"postrider/internal/tasks"
)

// inboxStatus is where one inbox stands, as JSON.
type inboxStatus struct {
	Email           string               `json:"email"`
	Active          bool                 `json:"active"`
	Backlog         int                  `json:"backlog"` // unfinished tasks
	Due             int                  `json:"due"`     // of these, what the next run takes up; the rest waits for its time
	Counts          map[tasks.Status]int `json:"counts"`  // of all states
	LastScannedAt   *time.Time           `json:"last_scanned_at"`
	LastError       string               `json:"last_error"`
	OldestWaitingAt *time.Time           `json:"oldest_waiting_at"`
	InError         int                  `json:"in_error"`
	Dead            int                  `json:"dead"`
	Uncertain       int                  `json:"uncertain"`
	Conflicts       int                  `json:"conflicts"`  // of the last day
	RetryRate       health.Share         `json:"retry_rate"` // of the last day, from 0 to 1

	numbers health.Numbers
}

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [--json]",
		Short: "Show where each inbox stands: backlog, counts by state, last scan, oldest waiting",
		Long: `status shows what is known of each inbox, without connecting to it. Backlog are the tasks that
are not finished: those due, which the next run takes up, and those waiting for their time, to
be tried again or in progress. Under "last day" stand conflicts (a worker lost its lease to
another) and the share of messages that took more than one attempt. What is 0 is left out.

When a limit of the relay's provider (smtp.limits) is used up and something is due, a line below
the table says until when that waits.

What is past a threshold of the configuration (alerts) is told below the table, and makes the
exit code 75. What failed and could not be told yet (notify, hook) is counted below that.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.status(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) status(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		report := struct {
			Inboxes []inboxStatus  `json:"inboxes"`
			Alerts  []health.Alert `json:"alerts"`

			Notices      []notify.Waiting `json:"notices,omitempty"`       // that nobody was told of yet
			LimitReached string           `json:"limit_reached,omitempty"` // for which of smtp.limits what is due waits, and until when
		}{Inboxes: []inboxStatus{}, Alerts: []health.Alert{}}
		left, limit := s.left(ctx)
		err := s.watch(ctx, nil, left, func(f health.Facts) {
			report.Inboxes = append(report.Inboxes, statusOf(f))
			report.Alerts = append(report.Alerts, health.Check(f, s.cfg.Alerts)...)
			if limit != nil && f.Stats.Due > 0 {
				report.LimitReached = limit.Error()
			}
		})
		if err == nil {
			report.Notices, err = s.waitingNotices(ctx)
		}
		switch {
		case err != nil:
		case len(report.Inboxes) == 0 && !asJSON:
			_, err = fmt.Fprintln(a.out, noInbox)
		case asJSON:
			err = a.printJSON(report)
		default:
			a.statusTable(report.Inboxes)
			err = errors.Join(a.lastErrors(report.Inboxes), a.limitReached(report.LimitReached), printAlerts(a.out, report.Alerts),
				a.printWaiting(report.Notices))
		}
		if err == nil && len(report.Alerts) > 0 {
			return errRetry
		}
		return err
	})
}

func statusOf(f health.Facts) inboxStatus {
	n := health.Count(f)
	st := inboxStatus{
		Email: f.Inbox, Active: f.Active, Backlog: n.Backlog, Due: n.Due, Counts: map[tasks.Status]int{},
		LastScannedAt: utc(f.LastScannedAt), LastError: f.LastError, OldestWaitingAt: utc(f.Stats.Oldest),
		InError: n.InError, Dead: n.Dead, Uncertain: n.Uncertain, Conflicts: n.Conflicts, RetryRate: n.RetryRate, numbers: n,
	}
	for _, s := range tasks.Statuses {
		st.Counts[s] = f.Stats.ByStatus[s]
	}
	return st
}

// statusTable fits into 100 columns, if the addresses are not too long: what is 0 for all inboxes has no column.
func (a *app) statusTable(boxes []inboxStatus) {
	t := newTable(a.out, "inbox", "active", "backlog", "messages", "last day", "oldest", "last scan")
	t.SuppressEmptyColumns()
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "backlog", Align: text.AlignRight}})
	for _, b := range boxes {
		backlog, oldest, scan := strconv.Itoa(b.Backlog), "", "never"
		if b.Due > 0 {
			backlog += fmt.Sprintf("\n%d due", b.Due)
		}
		if b.OldestWaitingAt != nil {
			oldest = strings.TrimSuffix(ago(b.numbers.OldestWaiting), " ago")
		}
		if b.LastScannedAt != nil {
			scan = ago(b.numbers.SinceScan)
		}
		t.AppendRow(table.Row{b.Email, yesNo(b.Active), backlog, b.messages(), b.lastDay(), oldest, scan})
	}
	t.Render()
}

// messages are the states that there are messages in, and how many.
func (b inboxStatus) messages() string {
	const width = 17
	out, line := "", 0
	for _, s := range tasks.Statuses {
		n := b.Counts[s]
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n, strings.ReplaceAll(strings.TrimPrefix(string(s), "skipped_"), "_", " "))
		switch {
		case line == 0:
		case line+len(", "+part) > width:
			out, line = out+",\n", 0
		default:
			out, line = out+", ", line+2
		}
		out, line = out+part, line+len(part)
	}
	return out
}

func (b inboxStatus) lastDay() string {
	var parts []string
	if b.Conflicts > 0 {
		parts = append(parts, fmt.Sprintf("%d conflicts", b.Conflicts))
	}
	if b.RetryRate > 0 {
		parts = append(parts, b.RetryRate.String()+" retried")
	}
	return strings.Join(parts, "\n")
}

// lastErrors are why inboxes were not worked through, one line each.
func (a *app) lastErrors(boxes []inboxStatus) error {
	for _, b := range boxes {
		if b.LastError == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.out, "%s: last error: %s\n", b.Email, shorten(printable(b.LastError), 200)); err != nil {
			return err
		}
	}
	return nil
}

// when is a time for people: relative and local on a terminal, RFC 3339 in UTC elsewhere.
func (a *app) when(t *time.Time) string {
	switch {
	case t == nil:
		return "never"
	case isTerminal(a.out):
		return ago(time.Since(*t)) + t.Local().Format(" (2006-01-02 15:04:05)")
	}
	return t.UTC().Format(time.RFC3339)
}

// ago is how long something is past, or ahead.
func ago(d time.Duration) string {
	form := "%s ago"
	if d < 0 {
		form, d = "in %s", -d
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf(form, fmt.Sprintf("%d s", int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%d min", int(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%d h", int(d.Hours())))
	}
	return fmt.Sprintf(form, fmt.Sprintf("%d days", int(d.Hours()/24)))
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// printable makes one line of what a stranger wrote, so that no subject can play with the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
