package cmd

import (
	"cmp"
	"fmt"
	"io"
	"sync"

	"postrider/internal/pass"
	"postrider/internal/tasks"
	"postrider/internal/terminal"
	"postrider/internal/text"
)

// observer shows the progress of a pass: a bar on a terminal, and the findings of a dry run
// anywhere.
type observer struct {
	*terminal.Bar // Expect and Done

	out io.Writer
	mu  sync.Mutex
	err error
}

// observer watches a pass that is doing that.
func (a *app) observer(doing string, opts runOptions) *observer {
	a.bar = terminal.Bar{Doing: doing}
	if isTerminal(a.err) && isTerminal(a.out) && !opts.json && !opts.dryRun {
		a.bar.To = a.err
	}
	o := &observer{Bar: &a.bar, out: a.out}
	if opts.json {
		o.out = io.Discard
	}
	return o
}

// Preview implements pass.Observer.
func (o *observer) Preview(p pass.Preview) {
	what := p.Outcome()
	if what == "" {
		return
	}
	id := p.Entry.Identity
	o.found("%s %s UID %d from %s %q: %s\n", p.Inbox, p.Folder, p.Entry.UID,
		text.Line(id.Sender), text.Cut(text.Line(id.Subject), 60), what)
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

// close takes the bar away.
func (o *observer) close() error {
	o.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
