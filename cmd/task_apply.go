package cmd

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"postrider/internal/tasks"
)

// changeTasks makes a change to the tasks named by their IDs, or to those that the filter selects.
func (a *app) changeTasks(c *cobra.Command, args []string, how change, opts changeOptions) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	filter, err := opts.forChange(c, args, how)
	if err != nil {
		return err
	}
	return a.with(c.Context(), func(s *services) error {
		j := job{app: a, queue: s.queue, how: how, opts: opts, ids: ids, who: a.who()}
		if len(ids) > 0 {
			return j.run(c.Context())
		}
		if err := opts.lookUp(c.Context(), s, &filter); err != nil {
			return err
		}
		if err := j.choose(c.Context(), filter); err != nil {
			return err
		}
		return j.run(c.Context())
	})
}

// job is one change on its way.
type job struct {
	*app
	queue tasks.Queue
	how   change
	opts  changeOptions
	who   string
	ids   []int64

	filtered bool // they were chosen by a filter, and there may be very many
	result   changeResult
}

// changeResult is what came of a change, as JSON.
type changeResult struct {
	DryRun     bool         `json:"dry_run"`
	Changed    int          `json:"changed"`
	NotChanged []notChanged `json:"not_changed"`
	Left       int          `json:"left"` // not come to, because it was stopped
}

type notChanged struct {
	ID  int64  `json:"id"`
	Why string `json:"why"`
}

// run makes the change task by task, so that transactions are short, and stops in between at a signal.
func (j *job) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal is not caught any more
	j.result = changeResult{DryRun: j.opts.dryRun, NotChanged: []notChanged{}}
	for i, id := range j.ids {
		if ctx.Err() != nil {
			j.result.Left = len(j.ids) - i
			break
		}
		if err := j.one(context.WithoutCancel(ctx), id); err != nil {
			return fmt.Errorf("%w; %d of %d tasks had been changed before that", err, j.result.Changed, len(j.ids))
		}
	}
	return j.conclude()
}

// one changes a task, or notes why not.
func (j *job) one(ctx context.Context, id int64) error {
	t, why, err := j.apply(ctx, id)
	if err != nil {
		return err
	}
	text := j.how.done
	switch {
	case why != "":
		j.result.NotChanged = append(j.result.NotChanged, notChanged{id, why})
		text = "not changed, " + why
	case j.opts.dryRun:
		text = fmt.Sprintf("%s (%s, %s, %q)", j.how.would, t.Status, t.Inbox, shorten(printable(t.Subject), 60))
		fallthrough
	default:
		j.result.Changed++
	}
	if j.opts.json || j.filtered && why == "" && !j.opts.dryRun {
		return nil
	}
	_, err = fmt.Fprintf(j.out, "task %d: %s\n", id, text)
	return err
}

// apply changes a task, or says why not. A dry run only looks.
func (j *job) apply(ctx context.Context, id int64) (t tasks.Task, why string, err error) {
	t, err = j.queue.Get(ctx, id)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return t, "there is no such task", nil
	case err != nil:
		return t, "", err
	case t.Status == tasks.InProgress:
		return t, "it is being worked on by " + printable(t.Worker) + "; try again when that is over", nil
	case !slices.Contains(j.how.states, t.Status):
		return t, fmt.Sprintf("it is %s; this is for tasks that are %s", t.Status, list(j.how.states)), nil
	case j.opts.dryRun:
		return t, "", nil
	}
	changed, err := j.how.do(j.queue, ctx, j.who, id)
	if err != nil || changed > 0 {
		return t, "", err
	}
	now, err := j.queue.Get(ctx, id)
	if err == nil && now.Status == t.Status && j.how.kept != "" {
		return t, j.how.kept, nil
	}
	return t, fmt.Sprintf("it was changed by others at this moment; see `postrider task show %d`", id), nil
}

// conclude tells how it went.
func (j *job) conclude() error {
	r := j.result
	if err := j.summary(); err != nil {
		return err
	}
	end := outcome(len(r.NotChanged)+r.Left, len(j.ids))
	if r.Left > 0 {
		return &exitError{exitCode(end), fmt.Errorf("stopped: %d of %d tasks were changed, %d were not come to and are as they were", r.Changed, len(j.ids), r.Left)}
	}
	return end
}

func (j *job) summary() error {
	r := j.result
	var err error
	switch {
	case j.opts.json:
		return j.printJSON(r)
	case !j.filtered:
	case j.opts.dryRun:
		_, err = fmt.Fprintf(j.out, "%s would be changed.\n", countTasks(len(j.ids)))
	case len(r.NotChanged) > 0:
		_, err = fmt.Fprintf(j.out, "%d changed, %d not.\n", r.Changed, len(r.NotChanged))
	default:
		err = j.tell("%s changed.\n", countTasks(r.Changed))
	}
	return err
}
