package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/outbox"
	"postrider/internal/text"
)

// eventChange is a command for events.
type eventChange struct {
	name, short string
	ask, done   string
	from        []outbox.Status // it is for events in these states
	more        string          // of the help
	deliberate  outbox.Status   // filters leave events in this state out unless --status names it
	sends       bool            // it is for destinations that are in the configuration
	do          func(_ *outbox.Store, _ context.Context, who string, ids ...int64) (int, error)
}

func retryEvents() eventChange {
	return eventChange{
		name: "retry", short: "Send failed and skipped events again, and waiting ones now",
		ask: "Retry", done: "requeued", from: outbox.Retryable,
		more: `
They are sent at once, without waiting for the pause of their destination; one
that answered 410 Gone needs ` + "`postrider event enable`" + `, too. Filters leave out
what was skipped, unless there is --status skipped. It is not for events whose
destination is no longer in the configuration.
`, deliberate: outbox.Dropped, sends: true,
		do: (*outbox.Store).Retry,
	}
}

func skipEvents() eventChange {
	return eventChange{
		name: "skip", short: "Do not send events", ask: "Skip", done: "skipped", from: outbox.Skippable,
		do: (*outbox.Store).Skip,
	}
}

func purgeEvents() eventChange {
	return eventChange{
		name: "purge", short: "Delete events that have ended", ask: "Delete", done: "deleted", from: outbox.Purgeable,
		do: (*outbox.Store).Purge,
	}
}

func (a *app) eventChangeCommand(how eventChange) *cobra.Command {
	var f eventFilter
	var yes, dryRun bool
	states := how.states()
	c := &cobra.Command{
		Use:   how.name + " {ID... | FILTER...}",
		Short: how.short,
		Long: how.short + `.

It applies to events that are ` + states + `. Give their IDs, or
filters, which all have to match. With filters it counts the events and asks;
--yes answers for a script, --dry-run only counts. The trail of the task, or of
the inbox, records who did it.
` + how.more + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			ids, err := parseEventIDs(args)
			if err != nil {
				return err
			}
			if len(args) > 0 == f.any() {
				return usage(fmt.Errorf("`%s` needs either the IDs of events, or a filter such as "+
					"--destination NAME; see `%[1]s --help`", c.CommandPath()))
			}
			filter, err := f.parse()
			if err != nil {
				return err
			}
			for _, s := range filter.Statuses {
				if !slices.Contains(how.from, s) {
					return usage(fmt.Errorf("`%s` is not for events that are %s, but for %s",
						c.CommandPath(), s, states))
				}
			}
			if len(filter.Statuses) == 0 {
				filter.Statuses = slices.DeleteFunc(slices.Clone(how.from), func(s outbox.Status) bool {
					return s == how.deliberate
				})
			}
			return a.with(c.Context(), func(s *services) error {
				return a.changeEvents(c.Context(), s, how, ids, filter, yes, dryRun)
			})
		},
	}
	f.register(c)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only count what would be changed")
	return c
}

func (a *app) changeEvents(
	ctx context.Context, s *services, how eventChange, ids []int64, f outbox.Filter, yes, dryRun bool,
) error {
	filtered, named := len(ids) == 0, len(ids)
	var err error
	if filtered {
		ids, err = s.matching(ctx, how, f)
	} else {
		ids, err = a.fit(ctx, s, how, ids)
	}
	switch {
	case err != nil:
		return err
	case dryRun:
		a.print("%s would be %s.\n", text.Count(len(ids), "event"), how.done)
		return outcome(max(0, named-len(ids)), named)
	case filtered && len(ids) == 0:
		a.tell("No event matches; nothing was changed.\n")
		return nil
	case filtered:
		if err := a.confirm(yes, fmt.Sprintf("%s %s?", how.ask, text.Count(len(ids), "event"))); err != nil {
			return err
		}
	}
	changed := 0
	for some := range slices.Chunk(ids, 500) {
		n, err := how.do(s.outbox, ctx, a.who(s.host()), some...)
		changed += n
		if err != nil {
			return fmt.Errorf("%w; %d of %d events had been changed before that", err, changed, len(ids))
		}
	}
	if n := len(ids) - changed; n > 0 && !filtered {
		a.print("%s changed concurrently; see `postrider event list`\n", text.Count(n, "event"))
	}
	if changed > 0 || filtered {
		a.tell("%s %s.\n", text.Count(changed, "event"), how.done)
	}
	return outcome(max(0, named-changed), named)
}

// matching are the IDs of the events that the filter selects, and that the command is for.
func (s *services) matching(ctx context.Context, how eventChange, f outbox.Filter) (ids []int64, _ error) {
	known := s.knows
	if how.sends {
		known = s.sendsTo
	}
	if err := known(ctx, f.Destination); err != nil {
		return nil, err
	}
	entries, err := s.outbox.List(ctx, f)
	for _, e := range entries {
		if !how.sends || s.configured(e.Destination) {
			ids = append(ids, e.ID)
		}
	}
	return ids, err
}

// fit returns those of the events whose state the command may change, and prints why not the
// others.
func (a *app) fit(ctx context.Context, s *services, how eventChange, ids []int64) (out []int64, _ error) {
	for _, id := range ids {
		e, err := s.outbox.Get(ctx, id)
		why := fmt.Sprintf("it is %s; this is for events that are %s", e.Status, how.states())
		switch {
		case errors.Is(err, outbox.ErrNotFound):
			why = "there is no such event"
		case err != nil:
			return nil, err
		case how.sends && !s.configured(e.Destination):
			why = fmt.Sprintf("the destination %s %s", e.Destination, outbox.RemovedHelp(e.Destination))
		case slices.Contains(how.from, e.Status):
			out = append(out, id)
			continue
		}
		a.print("event %d: not changed, %s\n", id, why)
	}
	return out, nil
}

// states are the states of from in words.
func (how eventChange) states() string {
	names := text.Strings(how.from)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (a *app) eventEnableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "enable NAME",
		Short: "Send events to a destination again, without waiting for its pause",
		Long: `enable ends the pause of a destination that failed. One that answered
410 Gone gets events again.
` + exitHelp,
		Args: takes(1, "the name of one destination"),
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.destinations(c.Context()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(s *services) error {
				if err := s.sendsTo(c.Context(), args[0]); err != nil {
					return err
				}
				if _, ok := s.cfg.Events[args[0]]; !ok { // no name, or the one of the IMAP servers
					return usage(fmt.Errorf("there is no destination %q in the section events of the configuration",
						args[0]))
				}
				news, err := s.outbox.Works(c.Context(), args[0])
				if err != nil {
					return err
				}
				if !news {
					a.tell("%s had not failed.\n", args[0])
					return nil
				}
				s.log.Info("an operator enabled the destination", "destination", args[0], "by", a.who(s.host()))
				a.tell("%s gets events again.\n", args[0])
				return nil
			})
		},
	}
}

// destinations are their names.
func (a *app) destinations(ctx context.Context) []string {
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(cfg.Events))
}
