package cmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"postrider/internal/tasks"
)

// taskFake is a queue of dead tasks with any ID; requeue is what trying one anew does.
type taskFake struct {
	tasks.Queue
	requeue func(id int64) (int, error)
}

func (f taskFake) Get(_ context.Context, id int64) (tasks.Task, error) {
	return tasks.Task{ID: id, Status: tasks.Dead}, nil
}

func (f taskFake) Requeue(ctx context.Context, _ string, ids ...int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return f.requeue(ids[0])
}

// TestChangeHalfWay are changes of five tasks that do not come to their end, or not as they should.
func TestChangeHalfWay(t *testing.T) {
	for _, c := range []struct {
		name    string
		json    bool
		requeue func(id int64, stop func()) (int, error)
		code    int
		stdout  string
		stderr  string
	}{
		{
			name: "stopped while the second is changed",
			requeue: func(id int64, stop func()) (int, error) {
				if id == 2 {
					stop()
				}
				return 1, nil
			},
			code: exitRetry, stderr: "stopped: 2 of 5 tasks were changed, 3 were not come to and are as they were",
		},
		{
			name: "stopped, as JSON", json: true,
			requeue: func(_ int64, stop func()) (int, error) { stop(); return 1, nil },
			code:    exitRetry, stdout: `{"dry_run":false,"changed":1,"not_changed":[],"left":4}` + "\n",
			stderr: "stopped: 1 of 5 tasks were changed, 4 were not come to and are as they were",
		},
		{
			name: "the database fails at the third",
			requeue: func(id int64, _ func()) (int, error) {
				if id == 3 {
					return 0, errors.New("change tasks: the disk is full")
				}
				return 1, nil
			},
			code: exitFailed, stderr: "change tasks: the disk is full; 2 of 5 tasks had been changed before that",
		},
		{
			name: "others were faster at the fourth",
			requeue: func(id int64, _ func()) (int, error) {
				if id == 4 {
					return 0, nil
				}
				return 1, nil
			},
			code:   exitRetry,
			stdout: "task 4: not changed, it was changed by others at this moment; see `postrider task show 4`\n4 changed, 1 not.\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out bytes.Buffer
			j := job{
				app: &app{out: &out}, how: retry(), ids: []int64{1, 2, 3, 4, 5}, filtered: true, opts: changeOptions{json: c.json},
				queue: taskFake{requeue: func(id int64) (int, error) { return c.requeue(id, stop) }},
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
