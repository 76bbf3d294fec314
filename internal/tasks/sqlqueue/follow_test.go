package sqlqueue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/outbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/taskstest"
)

// everything is what can happen to tasks.
var everything = []outbox.Kind{
	outbox.Registered, outbox.Forwarded, outbox.SkippedNoMatch, outbox.Skipped, outbox.Dead, outbox.Uncertain,
}

// TestFollow plays random operations. Each registration and each end is noted once, in order, and
// nothing else is.
func TestFollow(t *testing.T) {
	for kind, n := range map[string]int{"sqlite": 20, "mariadb": 5} {
		t.Run(kind, func(t *testing.T) {
			taskstest.Model(t, n, func(t *testing.T) taskstest.Fixture {
				r := newRegistry(t, kind)
				f := r.fixture(t)
				f.Queue.(*Queue).Follow(func() {}, everything...)
				f.Other.(*Queue).Follow(func() {}, everything...)
				f.Queue = &followed{Queue: f.Queue, t: t, r: r, stood: map[int64]tasks.Status{}}
				return f
			})
		})
	}
}

// followed compares after each change what was noted with how tasks stood before it.
type followed struct {
	tasks.Queue
	t     *testing.T
	r     registry
	stood map[int64]tasks.Status
}

// check takes what was noted.
func (f *followed) check() {
	f.t.Helper()
	var want []string
	stands := map[int64]tasks.Status{}
	for _, task := range f.list() {
		stands[task.ID] = task.Status
		before, known := f.stood[task.ID]
		if !known {
			want = append(want, fmt.Sprint(task.ID, " ", outbox.Registered))
		}
		if task.Status.Ended() && task.Status != before {
			want = append(want, fmt.Sprint(task.ID, " ", task.Status))
		}
	}
	got := f.taken()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.t.Fatalf("noted are %q, want %q", got, want)
	}
	f.stood = stands
}

func (f *followed) list() (all []tasks.Task) {
	f.t.Helper()
	err := f.List(f.t.Context(), tasks.Filter{}, func(t tasks.Task) error {
		all = append(all, t)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// taken are the occurrences, which are deleted.
func (f *followed) taken() (out []string) {
	f.t.Helper()
	err := f.r.Tx(f.t.Context(), func(tx *gorm.DB) error {
		var rows []struct {
			TaskID int64
			Kind   string
		}
		if err := tx.Raw(`SELECT task_id, kind FROM monitored_occurrences`).Scan(&rows).Error; err != nil {
			return err
		}
		out = nil
		for _, r := range rows {
			out = append(out, fmt.Sprint(r.TaskID, " ", r.Kind))
		}
		return tx.Exec(`DELETE FROM monitored_occurrences`).Error
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *followed) Register(ctx context.Context, page tasks.Page) ([]tasks.Registration, error) {
	defer f.check()
	return f.Queue.Register(ctx, page)
}

func (f *followed) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	defer f.check()
	return f.Queue.Receive(ctx, want)
}

func (f *followed) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	defer f.check()
	return f.Queue.Finish(ctx, r, res)
}

func (f *followed) Release(
	ctx context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery,
) error {
	defer f.check()
	return f.Queue.Release(ctx, c, reason, delay, ds)
}

func (f *followed) Requeue(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	defer f.check()
	return f.Queue.Requeue(ctx, by, ids...)
}

func (f *followed) Skip(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	defer f.check()
	return f.Queue.Skip(ctx, by, ids...)
}

func (f *followed) Resolve(ctx context.Context, by tasks.By, ids ...int64) (int, error) {
	defer f.check()
	return f.Queue.Resolve(ctx, by, ids...)
}
