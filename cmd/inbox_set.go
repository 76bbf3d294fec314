package cmd

import (
	"context"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

func (a *app) inboxSetCommand() *cobra.Command {
	var f inboxFlags
	c := &cobra.Command{
		Use:   "set ADDR [--host HOST] [--folder NAME]...",
		Short: "Change the settings of an inbox",
		Long: `set changes what is given and leaves the rest as it is. --folder gives the whole list: other
folders are no longer watched, but keep their registry and their cursor. --start is for folders
that were never scanned.
` + exitHelp,
		Args:              takes(1, 1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.inboxSet(c.Context(), args[0], f.changes(c), &f.password)
		},
	}
	f.register(c)
	return c
}

func (a *app) inboxSet(ctx context.Context, address string, changes inbox.Changes, password *passwordFlags) error {
	return a.with(ctx, func(s *services) error {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return err
		}
		p, err := password.get(a, in.Address)
		if err != nil {
			return err
		}
		if p != "" {
			changes.Password = &p
		}
		if reflect.ValueOf(changes).IsZero() {
			return usage(fmt.Errorf("there is nothing to change in inbox %s; see `postrider inbox set --help`", in.Address))
		}
		if _, err := s.inboxes.Set(ctx, in.Address, changes); err != nil {
			return err
		}
		return a.tell("Changed %s. See whether it works: postrider inbox check %s\n", in.Address, in.Address)
	})
}

func (a *app) inboxEnableCommand() *cobra.Command {
	return a.switchCommand("enable", "Work on inboxes again", "Enabled", func(ctx context.Context, s *services, in inbox.Inbox) error {
		return s.inboxes.Enable(ctx, in.Address)
	})
}

func (a *app) inboxDisableCommand() *cobra.Command {
	return a.switchCommand("disable", "Leave inboxes alone; their registry and cursors stay", "Disabled", func(ctx context.Context, s *services, in inbox.Inbox) error {
		return s.queue.Disable(ctx, a.who(s.host()), in.ID)
	})
}

func (a *app) switchCommand(name, short, done string, f func(context.Context, *services, inbox.Inbox) error) *cobra.Command {
	return &cobra.Command{
		Use:               name + " ADDR...",
		Short:             short,
		Args:              takes(1, 0, "the ADDR of an inbox, or several"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(s *services) error {
				boxes, err := s.all(c.Context(), args)
				if err != nil {
					return err
				}
				for _, in := range boxes {
					if err := f(c.Context(), s, in); err != nil {
						return err
					}
					if err := a.tell("%s %s.\n", done, in.Address); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) inboxRemoveCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "remove ADDR [--yes]",
		Short: "Forget an inbox with its tasks and all that is known of its messages",
		Long: `remove forgets an inbox, its folders, its tasks and what it has forwarded: added again, it
starts over. To pause it use ` + "`postrider inbox disable ADDR`" + `.

Other inboxes go on beside it. When it is stopped in the middle, the inbox is disabled and its
waiting messages are gone; the same command removes the rest.
` + exitHelp,
		Args:              takes(1, 1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE:              func(c *cobra.Command, args []string) error { return a.inboxRemove(c.Context(), args[0], yes) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) inboxRemove(ctx context.Context, address string, yes bool) error {
	return a.with(ctx, func(s *services) error {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return err
		}
		stats, err := s.queue.Stats(ctx, in.ID)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s with its %d tasks, %d of them unfinished, %d dead or uncertain", in.Address,
			count(stats, func(tasks.Status) bool { return true }), count(stats, live), stats.ByStatus[tasks.Dead]+stats.ByStatus[tasks.Uncertain])
		if err := a.confirm(yes, "Remove inbox "+what+"?"); err != nil {
			return err
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		err = s.underLease(ctx, in, func(inbox.Scan) error {
			return s.queue.Remove(ctx, a.who(s.host()), in.ID)
		})
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("stopped: %s may be half removed, and is disabled then; `postrider inbox remove %s` goes on", in.Address, in.Address)
		}
		if err != nil {
			return err
		}
		return a.tell("Removed %s.\n", what)
	})
}

// live are the states of a task that is not finished, nor waits for a person.
func live(s tasks.Status) bool { return !s.Ended() }

// count adds up the tasks in the states that are wanted.
func count(stats tasks.Stats, wanted func(tasks.Status) bool) int {
	sum := 0
	for status, n := range stats.ByStatus {
		if wanted(status) {
			sum += n
		}
	}
	return sum
}
