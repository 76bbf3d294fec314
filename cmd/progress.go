package cmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/schollz/progressbar/v3"

	"postrider/internal/pass"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// observer shows the progress of a pass: a bar on a terminal, and the findings of a dry run anywhere.
type observer struct {
	out   io.Writer
	doing string
	to    io.Writer // where the bar is drawn; nil for nowhere

	mu  sync.Mutex
	bar *progressbar.ProgressBar // nil until there is something to do
	err error
}

// observer watches a pass that is doing that.
func (a *app) observer(doing string, opts runOptions) *observer {
	o := &observer{out: a.out, doing: doing}
	if isTerminal(a.err) && isTerminal(a.out) && !opts.json && !opts.dryRun {
		o.to = a.err
	}
	if opts.json {
		o.out = io.Discard
	}
	a.progress = o
	return o
}

// Expect implements pass.Observer.
func (o *observer) Expect(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.to == nil || n <= 0:
	case o.bar != nil:
		o.bar.ChangeMax(o.bar.GetMax() + n)
	default: // the library refuses a bar of nothing
		o.bar = progressbar.NewOptions(n, progressbar.OptionSetWriter(o.to), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("messages"), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription(o.doing))
	}
}

// Done implements pass.Observer.
func (o *observer) Done(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil {
		_ = o.bar.Add(n) // a bar that cannot be drawn is no reason to fail
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
	o.found("%s %s UID %d from %s %q: %s\n", p.Inbox, p.Folder, p.UID, text.Line(p.Sender), text.Cut(text.Line(p.Subject), 60), what)
}

// leftOut stands behind recipients: the address that is not among them, if there is one.
func leftOut(own string) string {
	if own == "" {
		return ""
	}
	return " (left out: " + own + ", the inbox's own address)"
}

// Due implements pass.Observer.
func (o *observer) Due(t tasks.Task) {
	o.found("%s %s UID %d from %s %q: task %d (%s) would be processed\n",
		t.Inbox, t.Folder, t.UID, text.Line(t.Sender), text.Cut(text.Line(t.Subject), 60), t.ID, t.Status)
}

// found prints, and keeps the first error.
func (o *observer) found(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := fmt.Fprintf(o.out, format, args...)
	o.err = cmp.Or(o.err, err)
}

// clear makes room for a line on the terminal. The bar is drawn again with the next message.
func (o *observer) clear() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil {
		_ = o.bar.Clear()
	}
}

// close takes the bar away.
func (o *observer) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil {
		_ = o.bar.Finish()
		o.bar = nil
	}
	return o.err
}
