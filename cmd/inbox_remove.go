package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

func (a *app) inboxRemoveCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "remove ADDR [--yes]",
		Short: "Delete an inbox, its tasks and the record of its messages",
		Long: `remove deletes an inbox, its folders, its tasks and the record of what it has
forwarded: added again, it starts over. To pause it use
` + "`postrider inbox disable ADDR`" + `.

Other inboxes continue meanwhile. Stopped half-way, remove leaves the inbox
disabled and without its waiting messages; the same command removes the rest.
While one of its messages is being sent, remove only disables the inbox, and
exits with 75: try again.
` + exitHelp,
		Args:              takes(1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			return a.inboxRemove(c.Context(), args[0], yes)
		},
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
		stats, err := s.queue.Stats(ctx, []int64{in.ID})
		if err != nil {
			return err
		}
		what := in.Address + " with its " + tasksOf(stats[in.ID])
		if err := a.confirm(yes, "Remove inbox "+what+"?"); err != nil {
			return err
		}
		ctx, stop := s.untilSignal(ctx)
		defer stop()
		err = s.underLease(ctx, in, func(inbox.Scan) error {
			return s.queue.Remove(ctx, a.who(s.host()), in.ID)
		})
		if errors.Is(err, tasks.ErrSending) {
			return &exitError{exitRetry, fmt.Errorf("a message of %s is being sent; "+
				"the inbox is disabled now, and not removed: try again", in.Address)}
		}
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("stopped: %s may be half removed, and is disabled then; "+
				"`postrider inbox remove %s` continues", in.Address, text.Arg(in.Address))
		}
		if err != nil {
			return err
		}
		a.tell("Removed %s.\n", what)
		return nil
	})
}

// tasksOf is like "5 tasks, 2 of them unfinished, 1 dead or uncertain".
func tasksOf(stats tasks.Stats) string {
	all := 0
	for _, n := range stats.ByStatus {
		all += n
	}
	n := health.Count(health.Facts{Stats: stats})
	return fmt.Sprintf("%s, %d of them unfinished, %d dead or uncertain",
		text.Count(all, "task"), n.Backlog, n.Dead+n.Uncertain)
}
