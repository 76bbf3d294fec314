package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/text"
)

type replayOptions struct {
	since, inbox, route string
	limit               int
	json                bool
}

func (a *app) routeReplayCommand() *cobra.Command {
	var opts replayOptions
	c := &cobra.Command{
		Use:   "replay [--since WHEN] [--inbox ADDR] [--route NAME]",
		Short: "Show which messages the current routes send elsewhere",
		Long: `replay runs the current routes over the messages registered in the last 30 days,
or since --since. It shows those that would now go to other recipients than
before. It sends nothing and changes nothing, neither in the database nor on
a server. It fetches a message, its header first, only when a route asks for
what the registry does not have.

It compares only what routes decide. Duplicates, loops, reports of the bounce
inbox, messages that are too large, those that an operator skipped, and those
that no run has decided yet are counted apart. If a route needs a message that
can no longer be read, because it is gone from the server or the UIDVALIDITY of
its folder has changed, the message is counted with the reason. Purged tasks
cannot be compared either; replay prints an upper limit for their number,
because the registry does not keep when they were registered.

The table has the first ` + strconv.Itoa(tableLimit) + `, or as many as --limit says. --json prints all, one
object a line, and the counts in the last.

Exit codes:
  0   everything was compared that still can be, whether or not a message would
      go elsewhere
  1   failed
  2   bad usage or configuration, nothing touched
  75  an inbox or a folder could not be read`,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.routeReplay(c.Context(), opts) },
	}
	c.Flags().StringVar(&opts.since, "since", "30d",
		"messages registered since `WHEN`: 30d or 36h ago, or a day such as 2026-11-20")
	c.Flags().StringVar(&opts.inbox, "inbox", "", "only messages of the inbox `ADDR`")
	c.Flags().StringVar(&opts.route, "route", "", "only messages that the route `NAME` decided, or helped to decide")
	c.Flags().IntVar(&opts.limit, "limit", tableLimit, "a table of at most `N` messages")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a line")
	complete(c, "inbox", a.addresses)
	complete(c, "route", a.routeNames)
	return c
}

func (a *app) routeReplay(ctx context.Context, opts replayOptions) error {
	within, err := parseSince(opts.since, time.Now())
	switch {
	case err != nil:
		return err
	case opts.limit < 0:
		return usage(errors.New("--limit is negative"))
	}
	choose := func(ctx context.Context, s *services) ([]inbox.Inbox, error) { return toReplay(ctx, s, opts) }
	replay := func(ctx context.Context, _ *services, p *pass.Pass, boxes []inbox.Inbox) (clean bool) {
		out := &replayOutput{app: a, opts: opts, lines: bufio.NewWriter(a.out), whys: map[string]int{}}
		report := p.Replay(ctx, boxes, pass.ReplayOptions{
			Within: within, Route: opts.route, Named: opts.inbox != "", Each: out.add,
		})
		a.bar.Close()
		out.finish(report)
		return report.Whole()
	}
	return a.compare(ctx, opts.json, choose, replay)
}

// toReplay are all inboxes, disabled ones too, or the one that was named.
func toReplay(ctx context.Context, s *services, opts replayOptions) ([]inbox.Inbox, error) {
	if opts.route != "" {
		if err := s.knownRoute(ctx, opts.route); err != nil {
			return nil, err
		}
	}
	if opts.inbox != "" {
		return s.inboxes.Named(ctx, []string{opts.inbox})
	}
	return s.inboxes.List(ctx)
}

// replayOutput prints lines at once, and collects no more rows than the table shows.
type replayOutput struct {
	*app
	opts replayOptions

	mu    sync.Mutex
	lines *bufio.Writer
	rows  []pass.Replayed
	whys  map[string]int // why messages could not be compared
}

// maxWhys is how many reasons are counted apart: some quote what a server says of each message.
const maxWhys = 10

func (o *replayOutput) add(m pass.Replayed) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.opts.json:
		return printJSON(o.lines, m)
	case m.Now == nil:
		if _, known := o.whys[m.Why]; !known && len(o.whys) == maxWhys {
			m.Why = "other reasons, which --json prints"
		}
		o.whys[m.Why]++
	case len(o.rows) < o.opts.limit:
		o.rows = append(o.rows, m)
	}
	return nil
}

func (o *replayOutput) finish(r pass.ReplayReport) {
	if o.opts.json {
		_ = printJSON(o.lines, r) // Flush returns the first error
		o.printed(o.lines.Flush())
		return
	}
	slices.SortFunc(o.rows, func(x, y pass.Replayed) int { return cmp.Compare(x.TaskID, y.TaskID) })
	g := o.table("task", "inbox", "folder", "subject", "went", "would go")
	for _, m := range o.rows {
		g.Add(m.TaskID, m.Inbox, m.Folder, g.Short(m.Subject, 40), m.Before, m.Now)
	}
	if g.Len() > 0 {
		o.printed(g.Print(o.out))
	}
	if more := r.Totals.Elsewhere - len(o.rows); more > 0 {
		o.print("And %d more; --limit N shows more, --json all.\n", more)
	}
	o.sum(r)
}

func (o *replayOutput) sum(r pass.ReplayReport) {
	n, of := r.Totals, "of the last "+o.opts.since
	if _, err := time.Parse(time.DateOnly, o.opts.since); err == nil {
		of = "registered since " + o.opts.since
	}
	messages := text.Count(n.Messages, "message")
	o.print("%s %s: %d would go elsewhere, %d unchanged.\n", messages, of, n.Elsewhere, n.Unchanged)
	for _, line := range []struct {
		n    int
		what string
	}{
		{n.Waiting, "Not decided yet: %d; the next run decides, by the current routes.\n"},
		{n.NotByRoute, "Not decided by a route: %d (duplicates, loops, reports of the bounce inbox, " +
			"messages that are too large or gone, or that an operator skipped).\n"},
	} {
		if line.n > 0 {
			o.print(line.what, line.n)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(o.whys)) {
		o.print("%d not compared: %s\n", o.whys[why], text.Line(why))
	}
	if n.Purged > 0 {
		o.print("Purged, and not among these: at most %s of that time, by whatever route.\n",
			text.Count(n.Purged, "message"))
	}
	if r.Interrupted {
		o.print("Stopped before everything was compared.\n")
	}
}
