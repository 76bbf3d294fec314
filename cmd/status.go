package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"postrider/internal/inbox"
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
}

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [--json]",
		Short: "Show where each inbox stands: backlog, counts by state, last scan, oldest waiting",
		Long: `status shows what is known of each inbox, without connecting to it. Backlog are the tasks that are not finished: those due, which the
next run takes up, and those waiting for their time, to be tried again or in progress.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.status(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) status(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.List(ctx, false)
		if err != nil {
			return err
		}
		report := struct {
			Inboxes []inboxStatus `json:"inboxes"`
		}{[]inboxStatus{}}
		for _, in := range boxes {
			stats, err := s.queue.Stats(ctx, in.ID)
			if err != nil {
				return err
			}
			report.Inboxes = append(report.Inboxes, statusOf(in, stats))
		}
		if asJSON {
			return a.printJSON(report)
		}
		a.statusTable(report.Inboxes)
		return nil
	})
}

func statusOf(in inbox.Inbox, stats tasks.Stats) inboxStatus {
	st := inboxStatus{
		Email: in.Address, Active: in.Active, Backlog: count(stats, live), Due: stats.Due, Counts: map[tasks.Status]int{},
		LastScannedAt: utc(in.LastScannedAt), LastError: in.LastError, OldestWaitingAt: utc(stats.Oldest),
	}
	for _, s := range tasks.Statuses {
		st.Counts[s] = stats.ByStatus[s]
	}
	return st
}

func (a *app) statusTable(boxes []inboxStatus) {
	t := newTable(a.out, "inbox", "active", "backlog", "due", "messages", "oldest waiting", "last scan", "last error")
	for _, b := range boxes {
		oldest := ""
		if b.OldestWaitingAt != nil {
			oldest = a.when(b.OldestWaitingAt)
		}
		t.AppendRow(table.Row{
			b.Email, yesNo(b.Active), b.Backlog, b.Due, b.messages(), oldest, a.when(b.LastScannedAt), shorten(printable(b.LastError), 60),
		})
	}
	t.Render()
}

// messages are the states that there are messages in, and how many.
func (b inboxStatus) messages() string {
	var parts []string
	for _, s := range tasks.Statuses {
		if n := b.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(s), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
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
