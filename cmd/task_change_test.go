package cmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// taskFake is a queue of dead tasks with any ID. Requeue first calls meanwhile with the first ID of
// the portion. It leaves out those in keep.
type taskFake struct {
	tasks.Queue
	status    map[int64]tasks.Status // where it is not dead
	keep      map[int64]bool
	meanwhile func(f taskFake, first int64) error
}

func (f taskFake) Get(_ context.Context, id int64) (tasks.Task, error) {
	if s, ok := f.status[id]; ok {
		return tasks.Task{ID: id, Status: s}, nil
	}
	return tasks.Task{ID: id, Status: tasks.Dead}, nil
}

func (f taskFake) Requeue(ctx context.Context, by tasks.By, ids ...int64) (n int, err error) {
	if f.meanwhile != nil {
		err = f.meanwhile(f, ids[0])
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if t, _ := f.Get(ctx, id); by.Means(t.Status) && !f.keep[id] {
			f.status[id] = tasks.Received
			n++
		}
	}
	return n, nil
}

// TestChangeHalfWay are changes of 250 tasks that do not come to their end, or not as they should.
func TestChangeHalfWay(t *testing.T) {
	for _, c := range []struct {
		name      string
		json      bool
		keep      map[int64]bool
		meanwhile func(f taskFake, first int64) error
		stopAt    int64
		code      int
		stdout    string
		stderr    string
	}{
		{
			name: "stopped while a portion is changed", stopAt: 101,
			code: exitRetry, stderr: "stopped: 200 of 250 tasks were changed, 50 were not reached and are unchanged",
		},
		{
			name: "stopped, as JSON", json: true, stopAt: 1,
			code: exitRetry, stdout: `{"dry_run":false,"changed":100,"not_changed":[],"moved_on":0,"left":150}` + "\n",
			stderr: "stopped: 100 of 250 tasks were changed, 150 were not reached and are unchanged",
		},
		{
			name: "the database fails",
			meanwhile: func(_ taskFake, first int64) error {
				if first == 101 {
					return errors.New("change tasks: the disk is full")
				}
				return nil
			},
			code: exitFailed, stderr: "change tasks: the disk is full; 100 of 250 tasks had been changed before that",
		},
		{
			name: "the queue keeps one", keep: map[int64]bool{150: true},
			code:   exitRetry,
			stdout: "task 150: not changed, it was changed concurrently; try again\n249 changed, 1 not.\n",
		},
		{
			name: "one of a batch, and one of the next, are changed concurrently",
			meanwhile: func(f taskFake, first int64) error {
				f.status[10], f.status[120] = tasks.Skipped, tasks.InProgress
				return nil
			},
			code: exitRetry,
			stdout: "task 120: not changed, it is being processed by a worker; try again when that is over\n" +
				"248 changed, 1 not, 1 changed concurrently.\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			queue := taskFake{status: map[int64]tasks.Status{}, keep: c.keep}
			queue.meanwhile = func(f taskFake, first int64) error {
				if first == c.stopAt {
					stop()
				}
				if c.meanwhile == nil {
					return nil
				}
				return c.meanwhile(f, first)
			}
			var out bytes.Buffer
			j := (&app{out: &out}).job(queue, retry(), changeOptions{json: c.json})
			j.Bulk, j.From = true, []tasks.Status{tasks.Dead}
			for id := range int64(250) {
				j.IDs = append(j.IDs, id+1)
			}
			err := j.run(ctx)
			if code := exitCode(err); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if got := strings.TrimPrefix(errorText(err), "postrider: "); got != c.stderr {
				t.Errorf("the error is %q, want %q", got, c.stderr)
			}
			if out.String() != c.stdout {
				t.Errorf("printed %q, want %q", out.String(), c.stdout)
			}
		})
	}
}

// List are three tasks.
func (f taskFake) List(ctx context.Context, _ tasks.Filter, each func(tasks.Task) error) error {
	for id := range int64(3) {
		t, _ := f.Get(ctx, id+1)
		if err := each(t); err != nil {
			return err
		}
	}
	return nil
}

// TestChangeAfterTheQuestion: while a person thinks, one task is skipped by somebody else, which
// retry is for, too, but which was not asked about.
func TestChangeAfterTheQuestion(t *testing.T) {
	var out bytes.Buffer
	queue := taskFake{status: map[int64]tasks.Status{}}
	j := (&app{out: &out}).job(queue, retry(), changeOptions{yes: true})
	if err := j.choose(t.Context(), queue, tasks.Filter{Statuses: []tasks.Status{tasks.Dead}}); err != nil {
		t.Fatal(err)
	}
	queue.status[2] = tasks.Skipped
	if code := exitCode(j.run(t.Context())); code != exitRetry {
		t.Errorf("exit code %d, want %d", code, exitRetry)
	}
	const want = "task 2: not changed, it is skipped; this is for tasks that are dead\n2 changed, 1 not.\n"
	if out.String() != want || queue.status[2] != tasks.Skipped {
		t.Errorf("printed %q and task 2 is %s, want %q and it stays skipped", out.String(), queue.status[2], want)
	}
}

// TestChangeOfDisabled: what waits for its inbox is not promised for the next run.
func TestChangeOfDisabled(t *testing.T) {
	task := tasks.Task{
		Inbox: "o'brien@firm.example", Disabled: true, Status: tasks.Received, VisibleAt: new(time.Unix(1e9, 0)),
		Deliveries: []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Pending}},
	}
	const enable = `postrider inbox enable 'o'\''brien@firm.example'`
	for what, got := range map[string]string{
		"retry": retry().done(task), "resolve --delivered": delivered().done(task),
	} {
		if !strings.Contains(got, "the next run after `"+enable+"` ") {
			t.Errorf("%s says %q, want that the next run after %s goes on", what, got, enable)
		}
	}
	var out bytes.Buffer
	(&app{out: &out, width: 200}).showTask(task, nil)
	if want := "when its inbox is enabled: " + enable; !strings.Contains(out.String(), want) {
		t.Errorf("task show prints %q, want %q", out.String(), want)
	}
}
