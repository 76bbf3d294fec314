package sqlqueue

import (
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// count counts the statements that go through the registry's handle from now on.
func (r registry) count(t *testing.T) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	err := r.View(t.Context(), func(tx *gorm.DB) error {
		return tx.Callback().Row().Before("gorm:row").Register("count", func(*gorm.DB) { n.Add(1) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

// TestWaitingForLocks: while others have locked everything that is due, Receive asks less and less
// often.
func TestWaitingForLocks(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		other := r.again(t)
		q, n := New(r.DB), r.count(t)
		e := newExample(t, r, q)
		e.register()
		err := other.Tx(t.Context(), func(tx *gorm.DB) error {
			lock := q.db.Lock(`SELECT id FROM monitored_emails_tasks WHERE inbox_id = ?`)
			if _, err := db.Query(tx, db.Value[int64], lock, e.inbox); err != nil {
				return err
			}
			q.patience = 1500 * time.Millisecond
			before := n.Load()
			claims, err := q.Receive(t.Context(), e.want(10))
			if len(claims) != 0 {
				t.Errorf("claimed %d, want none: they are locked", len(claims))
			}
			// Rounds after 0, 10, 30, 70, 150, 310, 630, 1270 and 1500 ms, of six statements at
			// most.
			if asked := n.Load() - before; asked == 0 || asked > 60 {
				t.Errorf("%d statements in 1.5 s of waiting, want some, and at most 60", asked)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestReceiveIsPatient: a due task is claimed when someone locks it, and then does not claim it.
func TestReceiveIsPatient(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q := New(r.again(t))
		q.patience = time.Minute
		e := newExample(t, r, q)
		e.register()
		got := make(chan int)
		r.tx(t, func(tx *gorm.DB) error {
			lock := q.db.Lock(`SELECT id FROM monitored_emails_tasks WHERE inbox_id = ?`)
			if _, err := db.Query(tx, db.Value[int64], lock, e.inbox); err != nil {
				return err
			}
			go func() {
				claims, err := q.Receive(t.Context(), e.want(10))
				if err != nil {
					t.Errorf("receive: %v", err)
				}
				got <- len(claims)
			}()
			_, err := New(r.DB).Receive(t.Context(), e.want(10)) // until the other has looked
			return err
		})
		if n := <-got; n != 2 {
			t.Errorf("claimed %d, want the 2 that are free again", n)
		}
	})
}
