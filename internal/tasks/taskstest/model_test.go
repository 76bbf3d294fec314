package taskstest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/tasks/memqueue"
	"postrider/internal/tasks/taskstest"
)

func TestPrint(t *testing.T) {
	got := taskstest.Print([]taskstest.Op{
		taskstest.Register{Folder: 1, Messages: []taskstest.Message{{UID: 3, Content: 2, Route: "desk"}, {UID: 4, Unread: true}}, Dedupe: tasks.DedupeInbox},
		taskstest.Receive{Max: 2},
		taskstest.Finish{
			Of: taskstest.Of{Claim: 1}, Status: tasks.Error, Delay: 90 * time.Second,
			Deliveries: []tasks.Delivery{{Recipient: "ann@x.example", Status: tasks.Pending, Code: 451}},
		},
		taskstest.Purge{Tasks: []int{0, 1}},
		taskstest.Again{},
	})
	want := `func TestCounterexample(t *testing.T) {
	taskstest.Replay(t, open(t),
		taskstest.Register{Folder: 1, Messages: []taskstest.Message{{UID: 3, Content: 2, Route: "desk"}, {UID: 4, Unread: true}}, Dedupe: "inbox"},
		taskstest.Receive{Max: 2},
		taskstest.Finish{Of: taskstest.Of{Claim: 1}, Status: "error", Delay: 90 * time.Second, Deliveries: []tasks.Delivery{{Recipient: "ann@x.example", Status: "pending", Code: 451}}},
		taskstest.Purge{Tasks: []int{0, 1}},
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
	"finishes with any receipt":             func(q tasks.Queue) tasks.Queue { return &anyReceipt{Queue: q, last: map[int64]tasks.Receipt{}} },
	"forgets that leases were lost":         func(q tasks.Queue) tasks.Queue { return fearless{q} },
	"registers duplicates":                  func(q tasks.Queue) tasks.Queue { return repeating{q} },
	"lets nothing take another place":       func(q tasks.Queue) tasks.Queue { return heirless{q} },
	"reserves nothing":                      func(q tasks.Queue) tasks.Queue { return unreserved{q} },
	"keeps the place of what is out of use": func(q tasks.Queue) tasks.Queue { return stubborn{q} },
}

// unreserved looks for equal messages, and lets equal ones be looked for at the same time.
type unreserved struct{ tasks.Queue }

func (q unreserved) Identify(ctx context.Context, r tasks.Receipt, e tasks.Entry, d tasks.Dedupe) (int64, error) {
	e.Route = ""
	return q.Queue.Identify(ctx, r, e, d)
}

// stubborn lets messages wait for an inbox that is out of use.
type stubborn struct{ tasks.Queue }

func (stubborn) Disable(context.Context, string, int64) error { return nil }

// anyReceipt finishes a task for whoever claimed it once.
type anyReceipt struct {
	tasks.Queue
	last map[int64]tasks.Receipt
}

func (q *anyReceipt) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	claims, err := q.Queue.Receive(ctx, want)
	for _, c := range claims {
		q.last[c.ID] = c.Receipt
	}
	return claims, err
}

func (q *anyReceipt) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if last, ok := q.last[r.TaskID]; ok {
		r = last
	}
	return q.Queue.Finish(ctx, r, res)
}

// fearless never buries a task.
type fearless struct{ tasks.Queue }

func (q fearless) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	want.MaxLostLeases = 1000
	return q.Queue.Receive(ctx, want)
}

// repeating does not look for equal messages.
type repeating struct{ tasks.Queue }

func (q repeating) Register(ctx context.Context, p tasks.Page) ([]tasks.Registration, error) {
	p.Dedupe = tasks.DedupeOff
	return q.Queue.Register(ctx, p)
}

// heirless drops the duplicates of what ends undelivered.
type heirless struct{ tasks.Queue }

func (q heirless) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	res.Yields = false
	return q.Queue.Finish(ctx, r, res)
}

// inMutant is set to the name of a mutant in the process that shows how the model fails on it.
const inMutant = "POSTRIDER_TEST_MUTANT"

// TestMutants: each broken queue is found out, and what is printed is a Go test.
func TestMutants(t *testing.T) {
	if name := os.Getenv(inMutant); name != "" {
		taskstest.Model(t, 500, func(*testing.T) taskstest.Fixture { return fixture(mutants[name]) })
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
			if !strings.Contains(string(out), "taskstest.Replay(t, open(t),") || !strings.Contains(string(out), "-rapid.seed=") {
				t.Errorf("want the counterexample as a Go test, and the seed; printed\n%s", out)
			}
		})
	}
}

// fixture is a queue in memory behind what breaks it.
func fixture(broken func(tasks.Queue) tasks.Queue) taskstest.Fixture {
	var ahead atomic.Int64
	q := memqueue.New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	b := broken(q)
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return taskstest.Fixture{
		Queue: b, Other: b,
		Inbox: func(_ *testing.T, address string) int64 { return q.AddInbox(address) },
		Folder: func(t *testing.T, inboxID int64, name string, epoch int64) int64 {
			id, err := q.AddFolder(inboxID, name, epoch)
			must(t, err)
			return id
		},
		SetEpoch: func(t *testing.T, folderID, epoch int64) { must(t, q.SetEpoch(folderID, epoch)) },
		Cursor: func(t *testing.T, folderID int64) (uint32, uint32) {
			seen, baseline, err := q.Cursor(folderID)
			must(t, err)
			return seen, baseline
		},
		Age: func(_ *testing.T, d time.Duration) { ahead.Add(int64(d)) },
		TakeOver: func(t *testing.T, inboxID int64) int64 {
			token, err := q.TakeOver(inboxID)
			must(t, err)
			return token
		},
		Enable: func(t *testing.T, inboxID int64) { must(t, q.Enable(inboxID)) },
	}
}
