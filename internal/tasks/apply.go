package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Changer is what Apply needs of a queue.
type Changer interface {
	Get(ctx context.Context, id int64) (Task, error)
	Requeue(ctx context.Context, by By, ids ...int64) (int, error)
	Skip(ctx context.Context, by By, ids ...int64) (int, error)
	Resolve(ctx context.Context, by By, ids ...int64) (int, error)
	Purge(ctx context.Context, by By, ids ...int64) (int, error)
}

// Job is one command for some tasks.
type Job struct {
	Queue Changer
	Command
	By     By
	IDs    []int64
	Bulk   bool // a filter chose the tasks: they are changed in batches, and Each is called for those not changed
	DryRun bool // change nothing; call Each for all tasks

	// Each is called with the outcome of a task: why it was not changed, or empty. The task is as
	// it was before.
	Each func(t Task, why string) error
}

// Applied is the outcome of a job. Its JSON is what the command line prints.
type Applied struct {
	DryRun     bool         `json:"dry_run"`
	Changed    int          `json:"changed"`
	NotChanged []NotChanged `json:"not_changed"`
	MovedOn    int          `json:"moved_on"` // changed concurrently
	Left       int          `json:"left"`     // not reached, because the job was stopped
}

// NotChanged is a task that a command left as it was.
type NotChanged struct {
	ID  int64  `json:"id"`
	Why string `json:"why"`
}

const batch = 100 // tasks changed in one transaction

// Apply does the job in short transactions. When ctx ends, it finishes the current one and stops.
func (j *Job) Apply(ctx context.Context) (Applied, error) {
	r := Applied{DryRun: j.DryRun, NotChanged: []NotChanged{}, Left: len(j.IDs)}
	size := 1 // so that each task that was named has its own answer
	if j.Bulk {
		size = batch
	}
	for ids := range slices.Chunk(j.IDs, size) {
		if ctx.Err() != nil {
			break
		}
		if err := j.batch(context.WithoutCancel(ctx), ids, &r); err != nil {
			return r, fmt.Errorf("%w; %d of %d tasks had been changed before that", err, r.Changed, len(j.IDs))
		}
		r.Left -= len(ids)
	}
	return r, nil
}

// batch changes tasks in one transaction.
func (j *Job) batch(ctx context.Context, ids []int64, r *Applied) error {
	var fit []int64
	var last Task
	for _, id := range ids {
		t, why, err := j.look(ctx, id)
		switch {
		case err != nil:
		case why != "":
			err = j.refuse(t, why, r)
		case j.DryRun:
			r.Changed++
			err = j.Each(t, "")
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
	by := j.By
	by.From = j.From // somebody else may have changed them since
	changed, err := j.do(j.Queue, ctx, by, fit...)
	if err != nil {
		return err
	}
	r.Changed += changed
	switch {
	case changed < len(fit):
		return j.explain(ctx, fit, len(fit)-changed, r)
	case j.Bulk:
		return nil
	}
	return j.Each(last, "")
}

// look reads a task, and says why it cannot be changed.
func (j *Job) look(ctx context.Context, id int64) (t Task, why string, err error) {
	t, err = j.Queue.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Task{ID: id}, "there is no such task", nil
	case err != nil:
		return t, "", err
	case t.Status == InProgress:
		return t, "it is being processed by " + cmp.Or(t.Worker, "a worker") + "; try again when that is over", nil
	case !slices.Contains(j.From, t.Status):
		return t, fmt.Sprintf("it is %s; this is for tasks that are %s", t.Status, j.states()), nil
	case j.arrived(t):
		return t, fmt.Sprintf("it is %s, and no recipient bounced", t.Status), nil
	}
	return t, "", nil
}

// explain finds the reasons for a batch in which some tasks were not changed. If a task is in
// another state now, it cannot tell whether this change moved it or it was changed concurrently.
func (j *Job) explain(ctx context.Context, ids []int64, missing int, r *Applied) error {
	for _, id := range ids {
		t, moved, err := j.look(ctx, id)
		if err == nil && moved == "" && missing > 0 {
			missing--
			err = j.refuse(t, "it was changed concurrently; try again", r)
		}
		if err != nil {
			return err
		}
	}
	r.MovedOn += missing
	if j.Bulk || missing == 0 {
		return nil
	}
	return j.Each(Task{ID: ids[0]}, fmt.Sprintf("it was changed concurrently; see `postrider task show %d`", ids[0]))
}

func (j *Job) refuse(t Task, why string, r *Applied) error {
	r.NotChanged = append(r.NotChanged, NotChanged{t.ID, why})
	return j.Each(t, why)
}
