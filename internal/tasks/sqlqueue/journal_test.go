package sqlqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/tasks"
)

// TestJournalGathers: a change is committed at once, and those that come while it is being
// committed are committed together. Each is told what came of it.
func TestJournalGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int64
		odd := errors.New("odd")
		j := newJournal(func(_ context.Context, batch []*change) {
			var ids []int64
			for _, c := range batch {
				if ids = append(ids, c.receipt.TaskID); c.receipt.TaskID%2 == 1 {
					c.err = odd
				}
			}
			batches = append(batches, ids)
			time.Sleep(time.Second)
		})
		var all sync.WaitGroup
		record := func(id int64) {
			err := j.record(t.Context(), &change{receipt: tasks.Receipt{TaskID: id}})
			if want := map[int64]error{1: odd}[id%2]; !errors.Is(err, want) {
				t.Errorf("change %d: %v, want %v", id, err, want)
			}
		}
		start := time.Now()
		for id := range int64(10) {
			all.Go(func() { record(id) })
			synctest.Wait()
		}
		all.Wait()
		if got := fmt.Sprint(batches); got != "[[0] [1 2 3 4 5 6 7 8 9]]" || time.Since(start) != 2*time.Second {
			t.Errorf("committed %s in %s; want the first alone, and the others together", got, time.Since(start))
		}
	})
}

// TestJournalWaitsForAsMany: a batch waits for as many changes as the one before had, and not
// longer than the patience. A single caller never waits.
func TestJournalWaitsForAsMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const percent = journalPatience / 100
		start := time.Now()
		var batches []string
		j := newJournal(func(_ context.Context, batch []*change) {
			batches = append(batches, fmt.Sprintf("%d after %d", len(batch), time.Since(start)/percent))
			time.Sleep(10 * percent)
		})
		var all sync.WaitGroup
		for _, at := range []time.Duration{
			0, 100, 200, // one caller
			205, 206, 207, // three, during the last commit
			250, 255, 260, // as many again
			400, 410, // fewer
			600, 800, // one
		} {
			all.Go(func() {
				time.Sleep(at * percent)
				if err := j.record(t.Context(), &change{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		const want = "[1 after 0 1 after 100 1 after 200 3 after 210 3 after 260 2 after 500 1 after 700 1 after 800]"
		if got := fmt.Sprint(batches); got != want {
			t.Errorf("committed %s, want %s", got, want)
		}
	})
}

// TestJournalAfterTheEnd: nothing is recorded for a caller whose context has ended, and a change
// that is under way is recorded all the same.
func TestJournalAfterTheEnd(t *testing.T) {
	commits := 0
	ctx, cancel := context.WithCancel(t.Context())
	j := newJournal(func(inner context.Context, batch []*change) {
		cancel()
		commits++
		batch[0].err = inner.Err()
	})
	if err := j.record(ctx, &change{}); err != nil {
		t.Errorf("under way: %v", err)
	}
	if err := j.record(ctx, &change{}); !errors.Is(err, context.Canceled) || commits != 1 {
		t.Errorf("afterwards: %v and %d commits; want it canceled, and one commit", err, commits)
	}
}

// TestBatchWithAStaleReceipt: a receipt that is no longer good keeps no other change of its batch
// from being recorded.
func TestBatchWithAStaleReceipt(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		page := r.copies(t, 1)[0]
		page.Entries = entries(1, 4)
		register(t, q, page, tasks.New, tasks.New, tasks.New, tasks.New)
		claims, err := q.Receive(t.Context(), tasks.Want{InboxID: page.InboxID, Max: 4, Lease: time.Hour, Worker: "w", MaxLostLeases: 3})
		if err != nil || len(claims) != 4 {
			t.Fatalf("claimed %d, %v; want 4", len(claims), err)
		}
		done := func(c tasks.Claim) tasks.Result {
			ds := c.Task.Deliveries
			for i := range ds {
				ds[i].Status = tasks.Delivered
			}
			return tasks.Result{Status: tasks.Forwarded, Deliveries: ds}
		}
		stale, again := claims[0].Receipt, claims[1]
		stale.Token = "of an earlier claim"
		if err := q.Finish(t.Context(), again.Receipt, done(again)); err != nil {
			t.Fatal(err)
		}
		batch := []*change{
			finishing(stale, done(claims[0])), finishing(again.Receipt, done(again)),
			finishing(claims[2].Receipt, done(claims[2])),
			finishing(claims[3].Receipt, tasks.Result{Status: tasks.Dead, Reason: "550", Deliveries: claims[3].Task.Deliveries}),
		}
		q.commit(t.Context(), batch)
		for i, want := range []struct {
			err    error
			status tasks.Status
		}{{tasks.ErrLeaseLost, tasks.InProgress}, {nil, tasks.Forwarded}, {nil, tasks.Forwarded}, {nil, tasks.Dead}} {
			got, err := q.Get(t.Context(), claims[i].Task.ID)
			if err != nil || got.Status != want.status || !errors.Is(batch[i].err, want.err) {
				t.Errorf("change %d: %v, the task is %s, %v; want %v and %s", i, batch[i].err, got.Status, err, want.err, want.status)
			}
		}
	})
}
