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
	if p.Registration.Fate != tasks.New {
		return
	}
	id := p.Entry.Identity
	o.found("%s %s UID %d from %s %q: %s\n", p.Inbox, p.Folder, p.Entry.UID,
		text.Line(id.Sender), text.Cut(text.Line(id.Subject), 60), preview(p))
}

func preview(p pass.Preview) string {
	d := p.Entry.Decision
	switch {
	case p.Registration.Skip == tasks.SkipDuplicate:
		return "would be registered and skipped: duplicate"
	case p.Registration.Skip == tasks.SkipTooLarge:
		return "would be registered and skipped: " + d.Reason
	case d == nil:
		return "would be registered, and decided on when it can be read"
	case p.Registration.Status.Ended():
		return "would not be forwarded: " + d.Reason
	}
	what := fmt.Sprintf("would be forwarded to %s by route %s", strings.Join(d.Recipients, ", "), d.Route)
	for _, n := range d.Notes {
		what += " (" + text.Line(n.Detail) + ")"
	}
	return what
}

// Due implements pass.Observer.
func (o *observer) Due(t tasks.Task) {
	o.found("%s %s UID %d from %s %q: task %d (%s) would be processed\n",
		t.Inbox, t.Folder, t.UID, text.Line(t.Identity.Sender), text.Cut(text.Line(t.Identity.Subject), 60), t.ID, t.Status)
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

// leftOut stands behind recipients: the address that is not among them, if there is one.
func leftOut(own string) string {
	if own == "" {
		return ""
	}
	return " (left out: " + own + ", the inbox's own address)"
}
