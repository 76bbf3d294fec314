package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) taskCommand() *cobra.Command {
	return group("task", "Show registered messages; retry, skip or resolve failed ones",
		a.taskListCommand(), a.taskShowCommand(), a.taskRetryCommand(), a.taskSkipCommand(),
		a.taskResolveCommand(), a.taskPurgeCommand())
}

// tableLimit is how many tasks a table shows by default; it is held in memory.
const tableLimit = 100

type taskListOptions struct {
	taskFilter
	from, to, subject, messageID string
	since                        string
	limit                        int
	json                         bool
}

func (a *app) taskListCommand() *cobra.Command {
	var opts taskListOptions
	c := &cobra.Command{
		Use:   "list [--status S]... [--from TEXT] [--to TEXT]",
		Short: "List registered messages and their states",
		Long: `list shows registered messages. The table has the newest ` + strconv.Itoa(tableLimit) + `, or as many as
--limit says; a line below it says when there are more. --json prints all,
oldest first, one object a line; with --limit the newest.

--from, --to, --subject and --message-id take a part of the text; case is
ignored. On a terminal the table fits the width; "task show ID" shows everything
about a message.

States: received, in_progress, error, uncertain, dead, forwarded,
skipped_no_match, skipped

A task stays forwarded if it bounces for a recipient after the relay had
accepted it; on a terminal its state is "forwarded, bounced". --bounced shows
only these.
` + exitHelp,
		Example: `  postrider task list --from clerk@court.example --since 2d
  postrider task list --to ann@firm.example --subject hearing
  postrider task list --status dead --status uncertain`,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.taskList(c.Context(), opts) },
	}
	opts.register(a, c, tasks.Statuses, registeredAge)
	opts.registerBounced(c)
	c.Flags().StringVar(&opts.from, "from", "", "only messages from a sender with `TEXT` in its address")
	c.Flags().StringVar(&opts.to, "to", "", "only messages to a recipient with `TEXT` in its address")
	c.Flags().StringVar(&opts.subject, "subject", "", "only messages with `TEXT` in the subject")
	c.Flags().StringVar(&opts.messageID, "message-id", "", "only messages with `TEXT` in the Message-ID")
	c.Flags().StringVar(&opts.since, "since", "",
		"only tasks registered since `WHEN`: 2d or 36h ago, or a day such as 2026-11-20")
	c.Flags().IntVar(&opts.limit, "limit", 0, "at most the newest `N`; 0 is as without it")
	c.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a line")
	return c
}

func (a *app) taskList(ctx context.Context, opts taskListOptions) error {
	if opts.limit < 0 {
		return usage(errors.New("--limit is negative"))
	}
	filter, err := opts.parse()
	if err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		if err := opts.lookUp(ctx, s, &filter); err != nil {
			return err
		}
		if opts.json {
			return a.taskLines(ctx, s, filter)
		}
		next := "No message is registered; `postrider run` registers new ones."
		if opts.any() || opts.searches() {
			next = "No message matches; `postrider task list` without filters shows all."
		}
		return a.taskTable(ctx, s.queue, filter, next)
	})
}

// taskLines prints tasks as JSON, with the labels of their inboxes.
func (a *app) taskLines(ctx context.Context, s *services, filter tasks.Filter) error {
	boxes, err := s.inboxes.List(ctx)
	if err != nil {
		return err
	}
	labels := map[string]inbox.Labels{}
	for _, in := range boxes {
		labels[in.Address] = in.Labels
	}
	out := bufio.NewWriter(a.out)
	err = s.queue.List(ctx, filter, func(t tasks.Task) error {
		line := tasks.ViewOf(t)
		line.Labels = labels[t.Inbox]
		return printJSON(out, line)
	})
	return errors.Join(err, out.Flush())
}

// searches reports whether one of the flags that only list has was given.
func (o *taskListOptions) searches() bool {
	return slices.ContainsFunc([]string{"from", "to", "subject", "message-id", "since"}, o.given)
}

func (o *taskListOptions) parse() (tasks.Filter, error) {
	f, err := o.taskFilter.parse()
	if err == nil && o.given("since") {
		f.Within, err = parseSince(o.since, time.Now())
	}
	f.Sender, f.Recipient, f.Subject, f.MessageID, f.Limit = o.from, o.to, o.subject, o.messageID, o.limit
	return f, err
}

func (a *app) taskShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID [--json]",
		Short: "Show a message: its UID, the relay's replies, the audit trail",
		Long: `show shows a message: its UID, the relay's replies, and the audit trail.
` + exitHelp,
		Args: takes(1, "the ID of one task"),

		ValidArgsFunction: a.taskIDs(),
		RunE:              func(c *cobra.Command, args []string) error { return a.taskShow(c.Context(), args, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) taskShow(ctx context.Context, args []string, asJSON bool) error {
	ids, err := parseTaskIDs(args)
	if err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		t, err := s.queue.Get(ctx, ids[0])
		gone := errors.Is(err, tasks.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		events, err := s.queue.Events(ctx, ids[0])
		switch {
		case err != nil:
			return err
		case gone && len(events) == 0:
			return noTask(ids[0])
		case gone:
			a.showGone(ids[0], events, asJSON)
			return nil
		case asJSON:
			return a.taskDetails(ctx, s, t, events)
		}
		a.showTask(t, events)
		return nil
	})
}

// taskDetails prints a task as JSON, with the labels of its inbox.
func (a *app) taskDetails(ctx context.Context, s *services, t tasks.Task, events []tasks.Event) error {
	boxes, err := s.inboxes.ByID(ctx, []int64{t.InboxID})
	if err != nil {
		return err
	}
	details := tasks.DetailsOf(t, events)
	details.Labels = boxes[t.InboxID].Labels
	a.printJSON(details)
	return nil
}

func noTask(id int64) error {
	return fmt.Errorf("there is no task %d; it may have been purged, or removed with its inbox "+
		"(`postrider task list` shows the existing ones)", id)
}

// parseIDs reads the IDs of tasks or events, each once. The command list shows them.
func parseIDs(args []string, what, list string) ([]int64, error) {
	var ids []int64
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 1 {
			return nil, usage(fmt.Errorf("%q is not the ID of %s; `%s` shows them in its first column",
				arg, what, list))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func parseTaskIDs(args []string) ([]int64, error) {
	return parseIDs(args, "a task", "postrider task list")
}

func parseEventIDs(args []string) ([]int64, error) {
	return parseIDs(args, "an event", "postrider event list")
}

// taskFilter are the flags that select tasks, the same for all commands of tasks.
type taskFilter struct {
	statuses         []string
	route, olderThan string
	bounced          bool
	chosen           inbox.Selection
	given            func(flag string) bool
}

// What --older-than counts from.
const (
	registeredAge = "were registered"
	endedAge      = "ended"
)

// register adds the flags to a command that is for tasks in these states; age says what
// --older-than counts from.
func (f *taskFilter) register(a *app, c *cobra.Command, states []tasks.Status, age string) {
	flags := c.Flags()
	flags.StringArrayVar(&f.statuses, "status", nil, "only tasks in this `STATE`; may be repeated")
	flags.StringVar(&f.route, "route", "", "only tasks that the route `NAME` decided, or helped to decide")
	flags.StringVar(&f.olderThan, "older-than", "", "only tasks that "+age+" at least `D` ago, such as 90d or 36h")
	a.chooseInboxes(c, &f.chosen)
	f.given = flags.Changed
	values(c, "status", states...)
	complete(c, "route", a.routeNames)
}

// registerBounced adds the flag --bounced.
func (f *taskFilter) registerBounced(c *cobra.Command) {
	c.Flags().BoolVar(&f.bounced, "bounced", false,
		"only tasks that the relay accepted and that bounced for a recipient")
}

// any reports whether one of the flags was given.
func (f *taskFilter) any() bool {
	return slices.ContainsFunc([]string{"status", "inbox", "label", "route", "older-than", "bounced"}, f.given)
}

// parse reads what needs no database.
func (f *taskFilter) parse() (tasks.Filter, error) {
	states, err := among("state", f.statuses, tasks.Statuses)
	if err != nil {
		return tasks.Filter{}, err
	}
	out := tasks.Filter{Statuses: states, Bounced: f.bounced}
	if f.given("older-than") {
		out.Registered, err = parseAge("--older-than", f.olderThan)
	}
	return out, err
}

// lookUp adds what the registry and the configuration know by name.
func (f *taskFilter) lookUp(ctx context.Context, s *services, filter *tasks.Filter) error {
	if !f.chosen.Empty() {
		boxes, err := s.inboxes.Chosen(ctx, f.chosen)
		if err != nil {
			return err
		}
		filter.Inboxes = inbox.IDs(boxes)
	}
	if f.given("route") {
		filter.Route = f.route
		return s.knownRoute(ctx, f.route)
	}
	return nil
}

// knownRoute fails for a route that neither the configuration nor an older task names.
func (s *services) knownRoute(ctx context.Context, name string) error {
	known := s.routeNames()
	found := slices.Contains(known, name)
	if !found && name != "" {
		err := s.queue.List(ctx, tasks.Filter{Route: name, Limit: 1}, func(tasks.Task) error {
			found = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	quoted := make([]string, len(known))
	for i, k := range known {
		quoted[i] = strconv.Quote(k)
	}
	return usage(fmt.Errorf("there is no route %q, and no task that names it; the routes are %s%s",
		name, strings.Join(quoted, ", "), text.DidYouMean(name, known)))
}

func (s *services) routeNames() []string {
	var out []string
	for _, r := range s.cfg.Routes {
		out = append(out, r.Name)
	}
	return out
}
