package cmd

import (
	"cmp"
	"io"
	"strings"
	"sync"

	"postrider/internal/after"
	"postrider/internal/pass"
	"postrider/internal/tasks"
	"postrider/internal/terminal"
)

// observer shows the progress of a pass: a bar on a terminal, and the findings of a dry run
// anywhere.
type observer struct {
	*terminal.Bar // Expect and Done

	out   io.Writer
	json  bool                       // the findings are the beginning of one JSON object: {"would":[...
	then  func(w *pass.Would) string // of a dry run: what follows on the server, in words; also in w
	mu    sync.Mutex
	found int
	err   error
}

// observer watches a pass that is doing that.
func (a *app) observer(doing string, opts runOptions) *observer {
	a.bar = terminal.Bar{Doing: doing}
	if isTerminal(a.err) && isTerminal(a.out) && !opts.json && !opts.dryRun && a.verbose == 0 {
		a.bar.To = a.err
	}
	return &observer{Bar: &a.bar, out: a.out, json: opts.json}
}

// Preview implements pass.Observer.
func (o *observer) Preview(p pass.Preview) {
	if w := p.Would(); w != nil {
		o.find(w, after.MayBeDeleted(tasks.Task{Keep: w.Keep, Form: tasks.Form{Mode: p.Entry.Mode}, Deliveries: p.Deliveries}))
	}
}

// Due implements pass.Observer.
func (o *observer) Due(t tasks.Task) { o.find(pass.WouldProcess(t), after.MayBeDeleted(t)) }

// find prints a finding at once, since there may be any number, and keeps the first error. If the
// message may be deleted on its server, then says whether it would.
func (o *observer) find(w *pass.Would, deletable bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := w.String()
	if o.then != nil && deletable {
		line += o.then(w)
	}
	line += "\n"
	if o.json {
		before := ","
		if o.found == 0 {
			before = wouldBegins
		}
		var b strings.Builder
		o.err = cmp.Or(o.err, printJSON(&b, w))
		line = before + strings.TrimSuffix(b.String(), "\n")
	}
	o.found++
	_, err := io.WriteString(o.out, line)
	o.err = cmp.Or(o.err, err)
}

const wouldBegins = `{"would":[`

// printDryRun ends what the findings have begun.
func (o *observer) printDryRun(r passReport) error {
	var b strings.Builder
	if err := printJSON(&b, r); err != nil {
		return err
	}
	before := "],"
	if o.found == 0 {
		before = wouldBegins + before
	}
	_, err := io.WriteString(o.out, before+strings.TrimPrefix(b.String(), "{"))
	return err
}

// close takes the bar away.
func (o *observer) close() error {
	o.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
