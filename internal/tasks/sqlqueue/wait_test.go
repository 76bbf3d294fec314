package sqlqueue

import (
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/tasks"
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

// TestWaitingIsNoBusyLoop counts what is asked of the database while Receive waits in vain.
func TestWaitingIsNoBusyLoop(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q, n := New(r.DB), r.count(t)
		for _, c := range []struct {
			name    string
			prepare func(e *example) (inHand []int64)
		}{
			{"an empty inbox", func(*example) []int64 { return nil }},
			{"a task far from due", func(e *example) []int64 {
				claim := e.claim()
				if err := q.Finish(t.Context(), claim.Receipt, tasks.Result{Status: tasks.Error, Delay: time.Hour}); err != nil {
					t.Fatal(err)
				}
				return []int64{claim.ID + 1}
			}},
			{"a task in hand whose lease ran out", func(e *example) []int64 {
				id := e.claim().ID
				r.age(t, 2*time.Hour)
				return []int64{id, id + 1}
			}},
		} {
			e := newExample(t, r, q)
			want := e.want(10)
			want.Wait, want.InHand = 1500*time.Millisecond, c.prepare(e)
			before := n.Load()
			claims, err := q.Receive(t.Context(), want)
			if err != nil || len(claims) != 0 {
				t.Errorf("%s: claimed %d, %v; want none", c.name, len(claims), err)
			}
			// Three rounds, of six statements at most.
			if asked := n.Load() - before; asked == 0 || asked > 24 {
				t.Errorf("%s: %d statements in 1.5 s of waiting, want some, and at most 24", c.name, asked)
			}
		}
	})
}

// TestWaitingForLocks: when all that is due is locked by others, it is asked for less and less often.
func TestWaitingForLocks(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		other := r.again(t)
		q, n := New(r.DB), r.count(t)
		e := newExample(t, r, q)
		e.register()
		err := other.Tx(t.Context(), func(tx *gorm.DB) error {
			var rows []taskRow
			if err := tx.Raw(q.db.Lock(`SELECT * FROM monitored_emails_tasks WHERE inbox_id = ?`), e.inbox).Scan(&rows).Error; err != nil {
				return err
			}
			want := e.want(10)
			want.Wait = 1500 * time.Millisecond
			before := n.Load()
			claims, err := q.Receive(t.Context(), want)
			if len(claims) != 0 {
				t.Errorf("claimed %d, want none: they are locked", len(claims))
			}
			// Rounds after 0, 10, 30, 70, 150, 310, 630, 1270 and 1500 ms, of six statements at most.
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

// TestReceiveIsPatient: what is due and locked by somebody who then leaves it alone is not passed over.
func TestReceiveIsPatient(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q := New(r.again(t))
		q.patience = time.Minute
		e := newExample(t, r, q)
		e.register()
		got := make(chan int)
		r.tx(t, func(tx *gorm.DB) error {
			var rows []taskRow
			if err := tx.Raw(q.db.Lock(`SELECT * FROM monitored_emails_tasks WHERE inbox_id = ?`), e.inbox).Scan(&rows).Error; err != nil {
				return err
			}
			go func() {
				claims, err := q.Receive(t.Context(), e.want(10))
				if err != nil {
					t.Errorf("receive: %v", err)
				}
				got <- len(claims)
			}()
			beside := newExample(t, r, e.sound).want(1)
			beside.Wait = 100 * time.Millisecond
			_, err := New(r.DB).Receive(t.Context(), beside) // until the other has looked
			return err
		})
		if n := <-got; n != 2 {
			t.Errorf("claimed %d, want the 2 that are free again", n)
		}
	})
}

// TestBell: those who wait in this process are woken when something may have become due, and only then.
func TestBell(t *testing.T) {
	r := newRegistry(t, "sqlite")
	person := func(do func() (int, error)) error { _, err := do(); return err }
	for _, c := range []struct {
		name  string
		rings bool
		do    func(e *example, q *Queue, c tasks.Claim) error
	}{
		{"new messages", true, func(e *example, q *Queue, _ tasks.Claim) error {
			page := e.page()
			page.Entries = entries(uint32(5+10*e.inbox), 1)
			_, err := q.Register(t.Context(), page)
			return err
		}},
		{"known messages", false, func(e *example, q *Queue, _ tasks.Claim) error {
			_, err := q.Register(t.Context(), e.page())
			return err
		}},
		{"forwarded", false, func(_ *example, q *Queue, c tasks.Claim) error {
			return q.Finish(t.Context(), c.Receipt, tasks.Result{Status: tasks.Forwarded})
		}},
		{"put off", true, func(_ *example, q *Queue, c tasks.Claim) error {
			return q.Finish(t.Context(), c.Receipt, tasks.Result{Status: tasks.Error})
		}},
		{"released", true, func(_ *example, q *Queue, c tasks.Claim) error {
			return q.Release(t.Context(), c, "stopped", 0, nil)
		}},
		{"sending", false, func(_ *example, q *Queue, c tasks.Claim) error {
			return q.Sending(t.Context(), c.Receipt, "desk", tasks.Form{Mode: "redirect"}, nil)
		}},
		{"changed by a person", true, func(_ *example, q *Queue, c tasks.Claim) error {
			if err := q.Finish(t.Context(), c.Receipt, tasks.Result{Status: tasks.Forwarded}); err != nil {
				return err
			}
			return person(func() (int, error) { return q.Skip(t.Context(), "ann", c.ID+1) })
		}},
		{"nothing to requeue", false, func(_ *example, q *Queue, c tasks.Claim) error {
			return person(func() (int, error) { return q.Requeue(t.Context(), "ann", c.ID) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(r.DB)
			e := newExample(t, r, q)
			claim := e.claim()
			news := q.bell.listen()
			if err := c.do(e, q, claim); err != nil {
				t.Fatal(err)
			}
			rang := false
			select {
			case <-news:
				rang = true
			default:
			}
			if rang != c.rings {
				t.Errorf("the bell rang: %t, want %t", rang, c.rings)
			}
		})
	}
}
