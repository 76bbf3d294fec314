package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
)

type replayOptions struct {
	since, inbox, route string
	limit               int
	json                bool
}

func (a *app) routeReplayCommand() *cobra.Command {
	var opts replayOptions
	c := &cobra.Command{
		Use:   "replay [--since D] [--inbox ADDR] [--route NAME] [--limit N] [--json]",
		Short: "Show which registered messages would go to others by the routes of today",
		Long: `replay runs the routes of today over the messages registered in the last 30 days, or --since,
and shows those that would go to others than they went, or were to go. It sends nothing and
changes nothing, neither in the database nor on a server. A message is fetched, its header
first, only when a route asks for what the registry does not know.

Only what routes decide is compared: duplicates, loops, messages that are too large and what a
person has skipped are counted apart, and so is what no run has decided yet. A message that
routes ask for and that cannot be read any more, because it is no longer on the server or its
folder's UIDVALIDITY has changed, is not compared, and counted with the reason. Purged tasks
cannot be compared either: how many of that time there may be is counted; the registry does not
keep when they were registered.

The table has the first ` + strconv.Itoa(tableLimit) + `, or as many as --limit says; --json prints all, one object a line, and
the counts in the last.

Exit code 0: all was compared that still can be, whether or not something would go elsewhere.
75: an inbox or a folder could not be read.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.routeReplay(c.Context(), opts) },
	}
	c.Flags().StringVar(&opts.since, "since", "30d", "messages registered at most `D` ago, such as 30d or 36h")
	c.Flags().StringVar(&opts.inbox, "inbox", "", "only messages of the inbox `ADDR`")
	c.Flags().StringVar(&opts.route, "route", "", "only messages that the route `NAME` decided, or helped to decide")
	c.Flags().IntVar(&opts.limit, "limit", tableLimit, "a table of at most `N` messages")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a line")
	complete(c, "inbox", a.addresses)
	complete(c, "route", a.routeNames)
	return c
}

func (a *app) routeReplay(ctx context.Context, opts replayOptions) error {
	within, err := parseAge("--since", opts.since)
	switch {
	case err != nil:
		return err
	case within == 0:
		return usage(errors.New("--since is 0; write it like 30d or 36h"))
	case opts.limit < 0:
		return usage(errors.New("--limit is negative"))
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := a.open(ctx)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	defer s.close()
	boxes, err := toReplay(ctx, s, opts)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	watch := a.observer("comparing", runOptions{json: opts.json})
	p, err := s.pass(ctx, nil, watch, false)
	if err != nil {
		return err
	}
	out := &replayOutput{app: a, opts: opts, lines: bufio.NewWriter(a.out), whys: map[string]int{}}
	out.table = newTable(a.out, "task", "inbox", "folder", "subject", "went", "would go")
	out.table.SetColumnConfigs([]table.ColumnConfig{wrapped("went"), wrapped("would go")})
	report := p.Replay(ctx, boxes, pass.ReplayOptions{Within: within, Route: opts.route, Named: opts.inbox != "", Each: out.add})
	if err := errors.Join(watch.close(), out.finish(report)); err != nil {
		return err
	}
	if !report.Whole() {
		return errRetry
	}
	return nil
}

// toReplay are all inboxes, disabled ones too, or the one that was named.
func toReplay(ctx context.Context, s *services, opts replayOptions) ([]inbox.Inbox, error) {
	if opts.route != "" {
		if err := s.knownRoute(ctx, opts.route); err != nil {
			return nil, err
		}
	}
	if opts.inbox != "" {
		return s.all(ctx, []string{opts.inbox})
	}
	return s.inboxes.List(ctx, false)
}

// replayOutput collects what is shown: lines at once, and of a table no more than is to be seen.
type replayOutput struct {
	*app
	opts replayOptions

	mu    sync.Mutex
	lines *bufio.Writer
	table table.Writer
	whys  map[string]int // why messages could not be compared
}

// maxWhys is how many reasons are told apart: some quote what a server says of each message.
const maxWhys = 10

func (o *replayOutput) add(m pass.Replayed) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.opts.json:
		return (&app{out: o.lines}).printJSON(m)
	case m.Now == nil:
		if _, known := o.whys[m.Why]; !known && len(o.whys) == maxWhys {
			m.Why = "other reasons, which --json tells"
		}
		o.whys[m.Why]++
	case o.table.Length() < o.opts.limit:
		o.table.AppendRow(table.Row{
			m.TaskID, m.Inbox, printable(m.Folder), shorten(printable(m.Subject), 40), whither(m.Before), whither(*m.Now),
		})
	}
	return nil
}

// whither is to whom a message goes, and by which route.
func whither(f pass.ReplayFate) string {
	const enough = 5
	to := f.Recipients
	switch {
	case len(to) == 0:
		return "nobody: " + shorten(printable(f.Reason), 80)
	case len(to) > enough:
		to = append(slices.Clone(to[:enough]), fmt.Sprintf("and %d more", len(to)-enough))
	}
	return printable(f.Route + ": " + strings.Join(to, ", ") + leftOut(f.LeftOut))
}

func (o *replayOutput) finish(r pass.ReplayReport) error {
	if o.opts.json {
		err := (&app{out: o.lines}).printJSON(r)
		return errors.Join(err, o.lines.Flush())
	}
	if o.table.Length() > 0 {
		o.table.SortBy([]table.SortBy{{Name: "task", Mode: table.AscNumeric}})
		o.table.Render()
	}
	if more := r.Totals.Elsewhere - o.table.Length(); more > 0 {
		_, _ = fmt.Fprintf(o.lines, "And %d more; --limit N shows more, --json all.\n", more) // Flush keeps the error
	}
	o.sum(o.lines, r)
	return o.lines.Flush()
}

func (o *replayOutput) sum(out io.Writer, r pass.ReplayReport) {
	n := r.Totals
	_, _ = fmt.Fprintf(out, "%d messages of the last %s: %d would go elsewhere, %d unchanged.\n", n.Messages, o.opts.since, n.Elsewhere, n.Unchanged)
	for _, line := range []struct {
		n    int
		what string
	}{
		{n.Waiting, "Not decided yet: %d; the next run decides, by the routes of today.\n"},
		{n.NotByRoute, "Not decided by a route: %d duplicates, loops, messages that are too large or have gone, or that a person has skipped.\n"},
	} {
		if line.n > 0 {
			_, _ = fmt.Fprintf(out, line.what, line.n)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(o.whys)) {
		_, _ = fmt.Fprintf(out, "Not compared: %d: %s\n", o.whys[why], printable(why))
	}
	if n.Purged > 0 {
		_, _ = fmt.Fprintf(out, "Purged, and not among these: at most %d messages of that time, by whatever route.\n", n.Purged)
	}
	if r.Interrupted {
		_, _ = fmt.Fprintln(out, "Stopped before all of it was compared.")
	}
}
