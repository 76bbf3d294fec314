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

// Would implements pass.Observer. It prints a finding at once, since there may be any number, and
// keeps the first error. If the message may be deleted on its server, then says whether it would.
func (o *observer) Would(w *pass.Would, t tasks.Task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := w.String()
	if o.then != nil && after.MayBeDeleted(t) {
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
