package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"postrider/internal/tasks"
)

// portion changes tasks in one transaction.
func (j *job) portion(ctx context.Context, ids []int64) error {
	var fit []int64
	var last tasks.Task
	for _, id := range ids {
		t, why, err := j.look(ctx, id)
		switch {
		case err != nil:
			return err
		case why != "":
			err = j.refuse(id, why)
		case j.opts.dryRun:
			j.result.Changed++
			err = j.line(id, fmt.Sprintf("%s (%s, %s, %q)", j.how.would(t), t.Status, t.Inbox, shorten(printable(t.Subject), 60)))
		default:
			fit, last = append(fit, id), t
		}
		if err != nil {
			return err
		}
	}
	if len(fit) == 0 {
		return nil
	}
	changed, err := j.how.do(j.queue, ctx, j.who, fit...)
	if err != nil {
		return err
	}
	j.result.Changed += changed
	switch {
	case changed < len(fit):
		return j.explain(ctx, fit, len(fit)-changed)
	case j.filtered:
		return nil
	}
	return j.line(last.ID, j.how.done(last))
}

// look reads a task, and says why it cannot be changed.
func (j *job) look(ctx context.Context, id int64) (t tasks.Task, why string, err error) {
	t, err = j.queue.Get(ctx, id)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return t, "there is no such task", nil
	case err != nil:
		return t, "", err
	case t.Status == tasks.InProgress:
		return t, "it is being worked on by " + printable(t.Worker) + "; try again when that is over", nil
	case !slices.Contains(j.how.From, t.Status):
		return t, fmt.Sprintf("it is %s; this is for tasks that are %s", t.Status, list(j.how.From)), nil
	}
	return t, "", nil
}

// explain finds out about a portion of which so many were not changed. Which of those that stand elsewhere now did not get there by
// this change cannot be told from it.
func (j *job) explain(ctx context.Context, ids []int64, missing int) error {
	for _, id := range ids {
		_, elsewhere, err := j.look(ctx, id)
		if err == nil && elsewhere == "" && missing > 0 {
			missing--
			err = j.refuse(id, cmp.Or(j.how.kept, "others changed it at the same moment; try again"))
		}
		if err != nil {
			return err
		}
	}
	j.result.MovedOn += missing
	if j.filtered || missing == 0 {
		return nil
	}
	return j.line(ids[0], fmt.Sprintf("not changed, others were faster; see `postrider task show %d`", ids[0]))
}

func (j *job) refuse(id int64, why string) error {
	j.result.NotChanged = append(j.result.NotChanged, notChanged{id, why})
	return j.line(id, "not changed, "+why)
}

func (j *job) line(id int64, text string) error {
	if j.opts.json {
		return nil
	}
	_, err := fmt.Fprintf(j.out, "task %d: %s\n", id, text)
	return err
}
