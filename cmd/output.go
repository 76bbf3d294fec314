package cmd

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"postrider/internal/pass"
	"postrider/internal/tasks"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// newTable is a table in the one style that all commands use.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateRows = false
	t.AppendHeader(header)
	return t
}

// show prints a table. A person is told what to do next instead of being shown an empty one.
func (a *app) show(t table.Writer, next string) error {
	if t.Length() == 0 && isTerminal(a.out) {
		_, err := fmt.Fprintln(a.err, next)
		return err
	}
	t.Render()
	return nil
}

func (a *app) reportTable(r pass.Report) error {
	t := newTable(a.out, "inbox", "registered", "forwarded", "no match", "skipped", "retry", "dead", "uncertain", "waiting", "backlog", "")
	row := func(name string, c pass.Counters, note string) {
		t.AppendRow(table.Row{name, c.Registered, c.Forwarded, c.SkippedNoMatch, c.Skipped, c.Retry, c.Dead, c.Uncertain, c.Waiting, c.Backlog, note})
	}
	for _, in := range r.Inboxes {
		note := printable(strings.ReplaceAll(in.Error, "\n", "; "))
		if in.Busy != "" {
			note = "stepped aside: " + in.Busy
		}
		row(in.Email, in.Counters, shorten(note, 80))
	}
	t.AppendSeparator()
	row("total", r.Totals, "")
	t.Render()
	if err := a.limitReached(r.LimitReached); err != nil {
		return err
	}
	if r.RelayError != "" {
		_, err := fmt.Fprintln(a.out, "Forwarding stopped:", r.RelayError)
		return err
	}
	return nil
}

// limitReached tells for which of smtp.limits mail waits.
func (a *app) limitReached(limit string) error {
	if limit == "" {
		return nil
	}
	_, err := fmt.Fprintln(a.out, "Mail waits:", limit)
	return err
}

// reportTrouble prints a line for each inbox with something that a person should know. Errors of inboxes and of the relay
// have been logged when they happened.
func (a *app) reportTrouble(r pass.Report) error {
	for _, in := range r.Inboxes {
		var parts []string
		add := func(n int, what string) {
			if n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, what))
			}
		}
		add(in.Retry, "to be retried")
		add(in.Dead, "dead (see `postrider task list --status dead`)")
		add(in.Uncertain, "uncertain (see `postrider task list --status uncertain`)")
		add(in.Backlog, "not registered yet")
		if len(parts) > 0 { // alone it is no trouble
			add(in.Waiting, "waiting for smtp.limits")
		}
		if len(parts) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(a.err, "%s: %s\n", in.Email, strings.Join(parts, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// observer shows how a pass comes along: a progress bar on a terminal, the findings of a dry run anywhere.
type observer struct {
	out io.Writer
	mu  sync.Mutex
	bar *progressbar.ProgressBar
	err error
}

// observer watches a pass that is doing that.
func (a *app) observer(doing string, opts runOptions) *observer {
	o := &observer{out: a.out}
	if isTerminal(a.err) && isTerminal(a.out) && !opts.json && !opts.dryRun {
		o.bar = progressbar.NewOptions(0, progressbar.OptionSetWriter(a.err), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription(doing))
	}
	if opts.json {
		o.out = io.Discard
	}
	return o
}

// Expect implements pass.Observer.
func (o *observer) Expect(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil && n > 0 {
		o.bar.ChangeMax(o.bar.GetMax() + n)
	}
}

// Done implements pass.Observer.
func (o *observer) Done(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil && o.bar.GetMax() > 0 {
		o.err = cmp.Or(o.err, o.bar.Add(n))
	}
}

// Preview implements pass.Observer.
func (o *observer) Preview(p pass.Preview) {
	what := "would be registered and skipped: " + p.Skip
	switch {
	case p.Fate == tasks.Known || p.Fate == tasks.Moved:
		return
	case p.Fate == tasks.Duplicate:
		what = "would be registered and skipped: duplicate"
	case p.Skip != "":
	case p.Route == "":
		what = "would not be forwarded: " + p.Why
	default:
		what = fmt.Sprintf("would be forwarded to %s by route %s%s", strings.Join(p.To, ", "), p.Route, leftOut(p.LeftOut))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.print("%s %s UID %d from %s %q: %s\n", p.Inbox, p.Folder, p.UID, printable(p.Sender), shorten(printable(p.Subject), 60), what)
}

// leftOut stands behind recipients: who is none of them, if anybody.
func leftOut(own string) string {
	if own == "" {
		return ""
	}
	return " (left out: " + own + ", the inbox's own address)"
}

// Due implements pass.Observer.
func (o *observer) Due(t tasks.Task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.print("%s %s UID %d from %s %q: task %d (%s) would be worked off\n",
		t.Inbox, t.Folder, t.UID, printable(t.Sender), shorten(printable(t.Subject), 60), t.ID, t.Status)
}

// close takes the progress bar away.
func (o *observer) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil {
		o.err = cmp.Or(o.err, o.bar.Finish())
	}
	return o.err
}

// print keeps the first error.
func (o *observer) print(format string, args ...any) {
	_, err := fmt.Fprintf(o.out, format, args...)
	o.err = cmp.Or(o.err, err)
}
