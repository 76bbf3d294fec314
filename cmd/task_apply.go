package cmd

import (
	"context"
	"fmt"
	"slices"

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
		j := job{app: a, queue: s.queue, how: how, opts: opts, ids: ids, who: a.who(s.host())}
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
	MovedOn    int          `json:"moved_on"` // changed by somebody else in the very moment of the change
	Left       int          `json:"left"`     // not come to, because it was stopped
}

type notChanged struct {
	ID  int64  `json:"id"`
	Why string `json:"why"`
}

// run makes the change in portions, so that transactions are short, and stops in between at a signal. Tasks named by their IDs
// are changed one by one, so that each has its own answer.
func (j *job) run(ctx context.Context) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	j.result = changeResult{DryRun: j.opts.dryRun, NotChanged: []notChanged{}, Left: len(j.ids)}
	size := 1
	if j.filtered {
		size = 100
	}
	for ids := range slices.Chunk(j.ids, size) {
		if ctx.Err() != nil {
			break
		}
		if err := j.portion(context.WithoutCancel(ctx), ids); err != nil {
			return fmt.Errorf("%w; %d of %d tasks had been changed before that", err, j.result.Changed, len(j.ids))
		}
		j.result.Left -= len(ids)
	}
	return j.conclude()
}

// conclude tells how it went.
func (j *job) conclude() error {
	r := j.result
	if err := j.summary(); err != nil {
		return err
	}
	end := outcome(len(j.ids)-r.Changed, len(j.ids))
	if r.Left > 0 {
		return &exitError{
			exitCode(end),
			fmt.Errorf("stopped: %d of %d tasks were changed, %d were not come to and are as they were", r.Changed, len(j.ids), r.Left),
		}
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
		_, err = fmt.Fprintf(j.out, "%s would be changed.\n", countTasks(r.Changed))
	case r.MovedOn > 0:
		_, err = fmt.Fprintf(j.out, "%d changed, %d not, %d changed by others at the same moment.\n", r.Changed, len(r.NotChanged), r.MovedOn)
	case len(r.NotChanged) > 0:
		_, err = fmt.Fprintf(j.out, "%d changed, %d not.\n", r.Changed, len(r.NotChanged))
	default:
		err = j.tell("%s changed.\n", countTasks(r.Changed))
	}
	return err
}
