package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGroupGathers: a change is committed at once, and those that come while it is being committed
// are committed together. Each gets its own result.
func TestGroupGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int64
		odd := errors.New("odd")
		g := NewGroup(func(_ context.Context, batch []int64) []error {
			errs := make([]error, len(batch))
			for i, id := range batch {
				if id%2 == 1 {
					errs[i] = odd
				}
			}
			batches = append(batches, batch)
			time.Sleep(time.Second)
			return errs
		})
		var all sync.WaitGroup
		commit := func(id int64) {
			err := g.Commit(t.Context(), id)
			if want := map[int64]error{1: odd}[id%2]; !errors.Is(err, want) {
				t.Errorf("change %d: %v, want %v", id, err, want)
			}
		}
		start := time.Now()
		for id := range int64(10) {
			all.Go(func() { commit(id) })
			synctest.Wait()
		}
		all.Wait()
		if got := fmt.Sprint(batches); got != "[[0] [1 2 3 4 5 6 7 8 9]]" || time.Since(start) != 2*time.Second {
			t.Errorf("committed %s in %s; want the first alone, and the others together", got, time.Since(start))
		}
	})
}

// TestGroupWaitsForAsMany: a batch waits for as many changes as the larger of the two before had,
// and not longer than the patience. A single caller waits only until two batches of one are behind
// it.
func TestGroupWaitsForAsMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const percent = groupPatience / 100
		start := time.Now()
		var batches []string
		g := NewGroup(func(_ context.Context, batch []int) []error {
			batches = append(batches, fmt.Sprintf("%d after %d", len(batch), time.Since(start)/percent))
			time.Sleep(10 * percent)
			return make([]error, len(batch))
		})
		var all sync.WaitGroup
		for _, at := range []time.Duration{
			0, 100, 200, // one caller
			205, 206, 207, // three, during the last commit
			250, 255, 260, // as many again
			400, 410, // fewer
			600, 800, 1000, // one
		} {
			all.Go(func() {
				time.Sleep(at * percent)
				if err := g.Commit(t.Context(), 0); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		const want = "[1 after 0 1 after 100 1 after 200 3 after 210 " +
			"3 after 260 2 after 500 1 after 700 1 after 900 1 after 1000]"
		if got := fmt.Sprint(batches); got != want {
			t.Errorf("committed %s, want %s", got, want)
		}
	})
}

// TestGroupJoins: a change of Join goes with the batch of another one, which does not count it. It
// begins a batch when none comes.
func TestGroupJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const percent = groupPatience / 100
		start := time.Now()
		var batches []string
		g := NewGroup(func(_ context.Context, batch []string) []error {
			batches = append(batches, fmt.Sprintf("%s after %d", strings.Join(batch, "+"), time.Since(start)/percent))
			time.Sleep(10 * percent)
			return make([]error, len(batch))
		})
		var all sync.WaitGroup
		call := func(at time.Duration, change string, how func(context.Context, string) error) {
			all.Go(func() {
				time.Sleep(at * percent)
				if err := how(t.Context(), change); err != nil {
					t.Error(err)
				}
			})
		}
		call(0, "a1", g.Commit)
		call(1, "b1", g.Commit)
		call(2, "c1", g.Commit)
		for at, change := range []string{"a1 ends", "b1 ends", "c1 ends"} {
			call(30+time.Duration(at), change, g.Join)
		}
		call(40, "a2", g.Commit) // waits for two more, and has all the ends with it
		call(50, "b2", g.Commit)
		call(60, "a2 ends", g.Join)  // while the two are waited for
		call(300, "b2 ends", g.Join) // nothing comes
		all.Wait()
		const want = "[a1 after 0 b1+c1 after 10 a1 ends+b1 ends+c1 ends+a2+b2 after 50 " +
			"a2 ends after 260 b2 ends after 500]"
		if got := fmt.Sprint(batches); got != want {
			t.Errorf("committed %s, want %s", got, want)
		}
	})
}

// TestGroupAfterTheEnd: nothing is committed for a caller whose context has ended, and a change
// that is under way is committed all the same.
func TestGroupAfterTheEnd(t *testing.T) {
	commits := 0
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGroup(func(inner context.Context, _ []int) []error {
		cancel()
		commits++
		return []error{inner.Err()}
	})
	if err := g.Commit(ctx, 0); err != nil {
		t.Errorf("under way: %v", err)
	}
	if err := g.Commit(ctx, 0); !errors.Is(err, context.Canceled) || commits != 1 {
		t.Errorf("afterwards: %v and %d commits; want it canceled, and one commit", err, commits)
	}
}
