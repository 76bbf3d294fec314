package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/tasks"
)

// change is what a person does to tasks: the method of the queue, and the state it leads to.
type change struct {
	do   func(q tasks.Queue, ctx context.Context, who string, ids ...int64) (int, error)
	to   tasks.Status
	only []tasks.Status // when set, the states it is for
	done string
}

func retry() change {
	return change{do: tasks.Queue.Requeue, to: tasks.Received, done: "the next run tries it anew"}
}

func (a *app) taskRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID...",
		Short: "Let tasks begin anew; recipients that got the message do not get it again",
		Args:  takes(1, 0, "the ID of a task, or several"),
		RunE:  func(c *cobra.Command, args []string) error { return a.changeTasks(c.Context(), args, retry()) },
	}
}

func (a *app) taskSkipCommand() *cobra.Command {
	skip := change{do: tasks.Queue.Skip, to: tasks.Skipped, done: "skipped"}
	return &cobra.Command{
		Use:   "skip ID...",
		Short: "End tasks without forwarding the message",
		Args:  takes(1, 0, "the ID of a task, or several"),
		RunE:  func(c *cobra.Command, args []string) error { return a.changeTasks(c.Context(), args, skip) },
	}
}

func (a *app) taskResolveCommand() *cobra.Command {
	var delivered, again bool
	c := &cobra.Command{
		Use:   "resolve ID... --delivered | --retry",
		Short: "Decide on uncertain tasks: the message arrived, or is to be sent again",
		Args:  takes(1, 0, "the ID of a task, or several"),
		RunE: func(c *cobra.Command, args []string) error {
			if delivered == again {
				return usage(errors.New("say what became of the message: --delivered (it arrived) or --retry (send it again)"))
			}
			how := change{do: tasks.Queue.Resolve, to: tasks.Forwarded, done: "counts as forwarded"}
			if again {
				how = retry()
				how.only = []tasks.Status{tasks.Uncertain}
			}
			return a.changeTasks(c.Context(), args, how)
		},
	}
	c.Flags().BoolVar(&delivered, "delivered", false, "the message arrived: the tasks count as forwarded")
	c.Flags().BoolVar(&again, "retry", false, "the message did not arrive: the next run sends it again")
	return c
}

// changeTasks does it to one task after the other and tells of each what became of it.
func (a *app) changeTasks(ctx context.Context, args []string, how change) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		failed := 0
		for _, id := range ids {
			why, err := how.apply(ctx, s.queue, id)
			if err != nil {
				return err
			}
			line := fmt.Sprintf("task %d: %s", id, how.done)
			if why != "" {
				failed++
				line = fmt.Sprintf("task %d: not changed, %s", id, why)
			}
			if _, err := fmt.Fprintln(a.out, line); err != nil {
				return err
			}
		}
		return outcome(failed, len(ids))
	})
}

// apply changes one task, or says why not.
func (how change) apply(ctx context.Context, q tasks.Queue, id int64) (why string, err error) {
	t, err := q.Get(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) {
		return "there is no such task", nil
	}
	if err != nil {
		return "", err
	}
	if how.only == nil || slices.Contains(how.only, t.Status) {
		changed, err := how.do(q, ctx, who(), id)
		if err != nil || changed > 0 {
			return "", err
		}
		how.only = slices.DeleteFunc(tasks.From(how.to), func(s tasks.Status) bool { return s == tasks.InProgress })
	}
	if t.Status == tasks.InProgress {
		return "it is being worked on by " + t.Worker + "; try again when that is over", nil
	}
	var names []string
	for _, s := range how.only {
		names = append(names, string(s))
	}
	return fmt.Sprintf("it is %s; this is for tasks that are %s", t.Status, strings.Join(names, ", ")), nil
}

// who is the person at this command, for the audit trail.
func who() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

func (a *app) taskPurgeCommand() *cobra.Command {
	var age string
	var yes bool
	c := &cobra.Command{
		Use:   "purge --older-than D [--yes]",
		Short: "Delete forwarded tasks that ended long ago; their messages stay known and are not forwarded again",
		Args:  takesNone,
		RunE:  func(c *cobra.Command, _ []string) error { return a.taskPurge(c.Context(), age, yes) },
	}
	c.Flags().StringVar(&age, "older-than", "", "how long ago they ended, such as 90d or 36h")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) taskPurge(ctx context.Context, age string, yes bool) error {
	d, err := parseAge(age)
	if err != nil {
		return err
	}
	return a.with(ctx, func(s *services) error {
		var ids []int64
		filter := tasks.Filter{Statuses: []tasks.Status{tasks.Forwarded}, Ended: d}
		if err := s.queue.List(ctx, filter, func(t tasks.Task) error { ids = append(ids, t.ID); return nil }); err != nil {
			return err
		}
		if err := a.confirm(yes, fmt.Sprintf("Delete %d tasks that were forwarded longer than %s ago?", len(ids), age)); err != nil {
			return err
		}
		total := 0
		for part := range slices.Chunk(ids, 100) { // short transactions, so that runs go on meanwhile
			n, err := s.queue.Purge(ctx, who(), part...)
			if err != nil {
				return err
			}
			total += n
		}
		return a.tell("Deleted %d tasks. Their messages stay known and are not forwarded again.\n", total)
	})
}

// parseAge reads a duration that may be in days.
func parseAge(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return 0, usage(fmt.Errorf("--older-than is %q; write it like 90d or 36h", s))
	}
	return d, nil
}
