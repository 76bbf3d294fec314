package sqlqueue

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// TestBatchWithAStaleReceipt: a receipt that is no longer good keeps no other change of its batch
// from being recorded.
func TestBatchWithAStaleReceipt(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		page := r.copies(t, 1)[0]
		page.Entries = entries(1, 4)
		register(t, q, page, tasks.New, tasks.New, tasks.New, tasks.New)
		claims, err := q.Receive(t.Context(), wantOf(page.InboxID, 4))
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
		dead := tasks.Result{Status: tasks.Dead, Reason: "550", Deliveries: claims[3].Task.Deliveries}
		batch := []*change{
			finishing(stale, done(claims[0])), finishing(again.Receipt, done(again)),
			finishing(claims[2].Receipt, done(claims[2])),
			finishing(claims[3].Receipt, dead),
		}
		errs := q.commit(t.Context(), batch)
		for i, want := range []struct {
			err    error
			status tasks.Status
		}{{tasks.ErrLeaseLost, tasks.InProgress}, {nil, tasks.Forwarded}, {nil, tasks.Forwarded}, {nil, tasks.Dead}} {
			got, err := q.Get(t.Context(), claims[i].Task.ID)
			if err != nil || got.Status != want.status || !errors.Is(errs[i], want.err) {
				t.Errorf("change %d: %v, the task is %s, %v; want %v and %s",
					i, errs[i], got.Status, err, want.err, want.status)
			}
		}
	})
}

// TestBatchWhileLocked: when another program has the SQLite file locked for too long, the changes
// of a batch do not wait one after the other.
func TestBatchWhileLocked(t *testing.T) {
	r := newRegistry(t, "sqlite")
	q := New(r.again(t, db.WithRetryFor(0)))
	batch := []*change{
		finishing(tasks.Receipt{TaskID: 1, Token: "a"}, tasks.Result{Status: tasks.Forwarded}),
		finishing(tasks.Receipt{TaskID: 2, Token: "b"}, tasks.Result{Status: tasks.Dead}),
	}
	var errs []error
	err := r.Tx(t.Context(), func(*gorm.DB) error {
		errs = q.commit(t.Context(), batch)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.As(errs[0], new(*db.UnavailableError)) || !errors.Is(errs[0], errors.Unwrap(errs[1])) {
		t.Errorf("%v, and %v; want the same error, and only one try", errs[0], errs[1])
	}
	if !strings.HasPrefix(errs[1].Error(), "record that task 2 is dead: ") {
		t.Errorf("%v; want the task and what could not be recorded", errs[1])
	}
}
