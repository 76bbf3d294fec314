package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/outbox"
	"postrider/internal/text"
)

func (a *app) eventCommand() *cobra.Command {
	return group("event", "Show, retry and skip events and actions on the server",
		a.eventListCommand(), a.eventShowCommand(),
		a.eventChangeCommand(retryEvents()), a.eventChangeCommand(skipEvents()), a.eventChangeCommand(purgeEvents()),
		a.eventEnableCommand())
}

// eventFilter are the flags that select events.
type eventFilter struct {
	destination, kind, since string
	statuses                 []string
	task                     int64
	given                    func(flag string) bool
}

func (f *eventFilter) register(c *cobra.Command) {
	c.Flags().StringVar(&f.destination, "destination", "", "only events for the destination `NAME`")
	c.Flags().StringSliceVar(&f.statuses, "status", nil, "only events in this `STATE`; may be repeated")
	c.Flags().StringVar(&f.kind, "kind", "", "only events of this `KIND`, such as forwarded")
	c.Flags().Int64Var(&f.task, "task", 0, "only events of the task with this `ID`")
	c.Flags().StringVar(&f.since, "since", "", "only events since `WHEN`: 2d or 36h ago, or a day such as 2026-11-20")
	f.given = c.Flags().Changed
	values(c, "status", outbox.Statuses...)
	values(c, "kind", config.EventKinds...)
}

// any reports whether one of the flags was given.
func (f *eventFilter) any() bool {
	return slices.ContainsFunc([]string{"destination", "status", "kind", "task", "since"}, f.given)
}

func (f *eventFilter) parse() (out outbox.Filter, err error) {
	if f.given("task") && f.task < 1 {
		return out, usage(fmt.Errorf("--task is %d; give the ID of a task, or leave it out", f.task))
	}
	out = outbox.Filter{Destination: f.destination, Kind: outbox.Kind(f.kind), TaskID: f.task}
	if out.Statuses, err = among("state", f.statuses, outbox.Statuses); err != nil {
		return out, err
	}
	if f.kind != "" {
		if _, err := among("kind", []string{f.kind}, config.EventKinds); err != nil {
			return out, err
		}
	}
	if f.since != "" {
		out.Within, err = parseSince(f.since, time.Now())
	}
	return out, err
}

func (a *app) eventListCommand() *cobra.Command {
	var f eventFilter
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [--destination NAME] [--status S]...",
		Short: "List events and their states",
		Long: `list shows events for other systems (section events of the configuration), and
actions on messages on their server (section after), whose destination is imap.
The table has the newest ` + strconv.Itoa(tableLimit) + `, or as many as --limit says. --json prints all,
oldest first, one object a line; with --limit the newest.

States: waiting, in_progress, dead, done, skipped
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage(errors.New("--limit is negative"))
			}
			filter, err := f.parse()
			if err != nil {
				return err
			}
			filter.Limit = limit
			return a.with(c.Context(), func(s *services) error { return a.listEvents(c.Context(), s, filter, asJSON) })
		},
	}
	f.register(c)
	c.Flags().IntVar(&limit, "limit", 0, "at most the newest `N`; 0 is as without it")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// eventView is the JSON of an event.
type eventView struct {
	ID          int64           `json:"id"`
	EventID     string          `json:"event_id"`
	Destination string          `json:"destination"`
	Kind        outbox.Kind     `json:"kind"`
	Action      string          `json:"action,omitempty"` // for imap: seen, flag:FLAG, move:FOLDER, delete
	TaskID      int64           `json:"task_id,omitempty"`
	Inbox       string          `json:"inbox"`
	Status      outbox.Status   `json:"status"`
	Attempts    int             `json:"attempt_count"`
	Error       string          `json:"error_message"`
	Worker      string          `json:"worker"`
	CreatedAt   time.Time       `json:"created_at"`
	VisibleAt   *time.Time      `json:"visible_at"`
	FinishedAt  *time.Time      `json:"finished_at"`
	Event       json.RawMessage `json:"event,omitempty"` // of show
}

func viewOfEvent(e outbox.Entry, addresses map[int64]string) eventView {
	return eventView{
		ID: e.ID, EventID: e.EventID, Destination: e.Destination, Kind: e.Kind, Action: e.Action,
		TaskID: e.TaskID, Inbox: addresses[e.InboxID],
		Status: e.Status, Attempts: e.Attempts, Error: e.Error, Worker: e.Worker,
		CreatedAt: e.CreatedAt.UTC(), VisibleAt: text.UTC(e.VisibleAt), FinishedAt: text.UTC(e.FinishedAt),
	}
}

func (s *services) addresses(ctx context.Context) (map[int64]string, error) {
	boxes, err := s.inboxes.List(ctx)
	out := map[int64]string{}
	for _, in := range boxes {
		out[in.ID] = in.Address
	}
	return out, err
}

// sendsTo returns an error if nothing is sent to a destination, because it is not in the
// configuration.
func (s *services) sendsTo(ctx context.Context, destination string) error {
	if err := s.knows(ctx, destination); err != nil || destination == "" || s.configured(destination) {
		return err
	}
	return usage(fmt.Errorf("the destination %s %s", destination, outbox.RemovedHelp(destination)))
}

func (s *services) configured(destination string) bool {
	_, ok := s.cfg.Events[destination]
	return ok || destination == outbox.Server
}

// knows returns an error if a destination is neither in the configuration nor that of any event.
func (s *services) knows(ctx context.Context, destination string) error {
	if destination == "" || s.configured(destination) {
		return nil
	}
	old, err := s.outbox.List(ctx, outbox.Filter{Destination: destination, Limit: 1})
	if err != nil || len(old) > 0 {
		return err
	}
	return usage(fmt.Errorf("there is no destination %q, neither in the configuration nor among the events",
		destination))
}

func (a *app) listEvents(ctx context.Context, s *services, f outbox.Filter, asJSON bool) error {
	if err := s.knows(ctx, f.Destination); err != nil {
		return err
	}
	addresses, err := s.addresses(ctx)
	if err != nil {
		return err
	}
	limit := f.Limit
	if limit == 0 && !asJSON {
		limit, f.Limit = tableLimit, tableLimit+1
	}
	entries, err := s.outbox.List(ctx, f)
	if err != nil {
		return err
	}
	if asJSON {
		out := bufio.NewWriter(a.out)
		for _, e := range entries {
			if err := printJSON(out, viewOfEvent(e, addresses)); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	g := a.table("id", "destination", "kind", "about", "state", "tries", "made", "error")
	for _, e := range entries[:min(limit, len(entries))] {
		about := addresses[e.InboxID]
		if e.TaskID != 0 {
			about = fmt.Sprint("task ", e.TaskID)
		}
		kind := string(e.Kind)
		if e.Action != "" {
			kind += ", " + text.Line(e.Action)
		}
		g.Add(e.ID, e.Destination, kind, about, e.Status, e.Attempts, a.whenKnown(&e.CreatedAt), g.Short(e.Error, 60))
	}
	a.show(g, "There are no events. The sections events and after of the configuration define them.")
	if len(entries) > limit {
		a.tell("There are more; --limit shows more of them.\n")
	}
	return nil
}

func (a *app) eventShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID [--json]",
		Short: "Show an event: its state, and what is sent",
		Long: `show shows an event: its state, and what is sent.
` + exitHelp,
		Args: takes(1, "the ID of one event"),
		RunE: func(c *cobra.Command, args []string) error {
			ids, err := parseEventIDs(args)
			if err != nil {
				return err
			}
			return a.with(c.Context(), func(s *services) error { return a.showEvent(c.Context(), s, ids[0], asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) showEvent(ctx context.Context, s *services, id int64, asJSON bool) error {
	e, err := s.outbox.Get(ctx, id)
	if errors.Is(err, outbox.ErrNotFound) {
		return fmt.Errorf("there is no event %d; `postrider event list` shows them", id)
	}
	if err != nil {
		return err
	}
	addresses, err := s.addresses(ctx)
	if err != nil {
		return err
	}
	v := viewOfEvent(e, addresses)
	v.Event = e.Body
	if asJSON {
		a.printJSON(v)
	} else {
		a.printEvent(e, v.Inbox)
	}
	return nil
}

func (a *app) printEvent(e outbox.Entry, inboxAddress string) {
	task := ""
	if e.TaskID != 0 {
		task = strconv.FormatInt(e.TaskID, 10)
	}
	a.fields(
		"event", e.EventID, "destination", e.Destination, "kind", string(e.Kind), "action", e.Action,
		"task", task, "inbox", inboxAddress,
		"status", string(e.Status), "tries", strconv.Itoa(e.Attempts), "error", e.Error,
		"made", a.whenKnown(&e.CreatedAt),
		"not before", a.whenKnown(e.VisibleAt), "ended", a.whenKnown(e.FinishedAt), "by", e.Worker,
	)
	if len(e.Body) > 0 {
		a.print("\n%s\n", text.Line(string(e.Body)))
	}
}
