package taskstest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/tasks/taskstest"
)

func TestPrint(t *testing.T) {
	got := taskstest.Print([]taskstest.Op{
		taskstest.Register{
			Folder: 1, Dedupe: tasks.DedupeInbox,
			Messages: []taskstest.Message{
				{UID: 3, Content: 2, Route: "desk", To: []string{"ann@x.example"}}, {UID: 4, Unread: true},
			},
		},
		taskstest.Receive{Max: 2},
		taskstest.Do{
			What: "finish", Of: taskstest.Of{Claim: 1}, Status: tasks.Error, Delay: 90 * time.Second,
			Outcomes: []taskstest.Outcome{{To: 1, Status: tasks.Pending, Code: 451}},
		},
		taskstest.Operate{What: "purge", Tasks: []int{0, 1}},
		taskstest.Again{},
	})
	want := `func TestCounterexample(t *testing.T) {
	taskstest.Replay(t, open(t),
		taskstest.Register{Folder:1, Messages:[]taskstest.Message{` +
		`taskstest.Message{UID:0x3, Content:2, Route:"desk", To:[]string{"ann@x.example"}}, ` +
		`taskstest.Message{UID:0x4, Unread:true}}, Dedupe:"inbox"},
		taskstest.Receive{Max:2},
		taskstest.Do{What:"finish", Of:taskstest.Of{Claim:1}, Status:"error", Delay:90000000000, ` +
		`Outcomes:[]taskstest.Outcome{taskstest.Outcome{To:1, Status:"pending", Code:451}}},
		taskstest.Operate{What:"purge", Tasks:[]int{0, 1}},
		taskstest.Again{},
	)
}
`
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

// mutants are queues that break their promise in one way each.
var mutants = map[string]func(tasks.Queue) tasks.Queue{
	"finishes with any receipt": func(q tasks.Queue) tasks.Queue {
		return &anyReceipt{Queue: q, last: map[int64]tasks.Receipt{}}
	},
	"forgets that leases were lost":   func(q tasks.Queue) tasks.Queue { return fearless{q} },
	"owns nothing when it registers":  func(q tasks.Queue) tasks.Queue { return repeating{q} },
	"owns nothing when it reserves":   func(q tasks.Queue) tasks.Queue { return unreserved{q} },
	"does not learn the content":      func(q tasks.Queue) tasks.Queue { return blind{q} },
	"keeps what is disabled claimed":  func(q tasks.Queue) tasks.Queue { return stubborn{q} },
	"ends nothing abandoned":          func(q tasks.Queue) tasks.Queue { return patient{q} },
	"releases without its deliveries": func(q tasks.Queue) tasks.Queue { return forgetful{q} },
	"takes every report for a bounce": func(q tasks.Queue) tasks.Queue { return gloomy{q} },
}

// anyReceipt finishes a task for whoever claimed it once.
type anyReceipt struct {
	tasks.Queue
	last map[int64]tasks.Receipt
}

func (q *anyReceipt) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	claims, err := q.Queue.Receive(ctx, want)
	for _, c := range claims {
		q.last[c.Task.ID] = c.Receipt
	}
	return claims, err
}

func (q *anyReceipt) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if last, ok := q.last[r.TaskID]; ok {
		r = last
	}
	return q.Queue.Finish(ctx, r, res)
}

// fearless ends no task for its lost leases.
type fearless struct{ tasks.Queue }

func (q fearless) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	want.MaxLostLeases = 1000
	return q.Queue.Receive(ctx, want)
}

// repeating registers equal messages as if they were others.
type repeating struct{ tasks.Queue }

func (q repeating) Register(ctx context.Context, p tasks.Page) ([]tasks.Registration, error) {
	p.Dedupe = tasks.DedupeOff
	return q.Queue.Register(ctx, p)
}

// unreserved reserves equal messages as if they were others.
type unreserved struct{ tasks.Queue }

func (q unreserved) Reserve(ctx context.Context, r tasks.Receipt, res tasks.Reservation) ([]tasks.Delivery, error) {
	res.Dedupe = tasks.DedupeOff
	return q.Queue.Reserve(ctx, r, res)
}

// blind reserves without the identity.
type blind struct{ tasks.Queue }

func (q blind) Reserve(ctx context.Context, r tasks.Receipt, res tasks.Reservation) ([]tasks.Delivery, error) {
	res.Identity = nil
	return q.Queue.Reserve(ctx, r, res)
}

// stubborn disables nothing.
type stubborn struct{ tasks.Queue }

func (stubborn) Disable(context.Context, tasks.By, int64) error { return nil }

// patient waits for workers that do not come back.
type patient struct{ tasks.Queue }

func (patient) EndAbandoned(context.Context) (int, error) { return 0, nil }

// forgetful does not record what a released task had delivered.
type forgetful struct{ tasks.Queue }

func (q forgetful) Release(
	ctx context.Context, c tasks.Claim, reason string, delay time.Duration, _ []tasks.Delivery,
) error {
	return q.Queue.Release(ctx, c, reason, delay, nil)
}

// gloomy takes every report for a bounce.
type gloomy struct{ tasks.Queue }

func (q gloomy) Arrived(ctx context.Context, who string, id int64, to string, a tasks.Arrival) (bool, error) {
	a.Status = tasks.Bounced
	return q.Queue.Arrived(ctx, who, id, to, a)
}

// inMutant is set to the name of a mutant in the process that shows how the model fails on it.
const inMutant = "POSTRIDER_TEST_MUTANT"

// TestMutants: each broken queue is found out, and what is printed is a Go test.
func TestMutants(t *testing.T) {
	if name := os.Getenv(inMutant); name != "" {
		f := taskstest.InMemory(time.Now)
		f.Queue = mutants[name](f.Queue)
		f.Other = f.Queue
		taskstest.Model(t, 500, func(*testing.T) taskstest.Fixture { return f })
		return
	}
	for name := range mutants {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutants$", "-rapid.shrinktime=2s")
			cmd.Env = append(os.Environ(), inMutant+"="+name)
			out, err := cmd.CombinedOutput()
			var failed *exec.ExitError
			if !errors.As(err, &failed) {
				t.Fatalf("the model let a queue pass that %s: %v\n%s", name, err, out)
			}
			if !strings.Contains(string(out), "taskstest.Replay(t, open(t),") ||
				!strings.Contains(string(out), "-rapid.seed=") {
				t.Errorf("want the counterexample as a Go test, and the seed; printed\n%s", out)
			}
		})
	}
}
