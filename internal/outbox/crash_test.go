package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestRace: processes that expand and claim at the same time make each entry once, and claim it
// once.
func TestRace(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		const n, processes = 60, 4
		for id := range int64(n) {
			b.happen(Occurrence{Kind: Registered, TaskID: id + 1})
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		done := map[string]int{}
		for i := range processes {
			s, fresh := b.another(), Want{Destination: "crm", Max: i * 3, Lease: time.Hour, Worker: "w"}
			wg.Go(func() {
				for {
					made, err := s.Expand(t.Context(), 7, to("crm", "bus"), fresh)
					if err != nil {
						t.Error(err)
						return
					}
					want := Want{Destination: "crm", Max: 5, Lease: time.Hour, Worker: "w"}
					claims, err := s.Receive(t.Context(), want)
					if err != nil {
						t.Error(err)
						return
					}
					for _, c := range slices.Concat(made.Claims, claims) {
						mu.Lock()
						done[c.EventID]++
						mu.Unlock()
						lost, err := s.Finish(t.Context(), Outcome{Claim: c, Status: Done})
						if err != nil || len(lost) > 0 {
							t.Error(lost, err)
						}
					}
					if made.N == 0 && len(claims) == 0 {
						return
					}
				}
			})
		}
		wg.Wait()
		b.expand(to("crm", "bus"))
		for _, c := range b.receive("crm") {
			done[c.EventID]++
		}
		for id, times := range done {
			if times != 1 {
				t.Errorf("%s was claimed %d times", id, times)
			}
		}
		if all := b.all(); len(done) != n || len(all) != 2*n {
			t.Errorf("%d entries were claimed, and there are %d; want %d and %d", len(done), len(all), n, 2*n)
		}
	})
}

// deaf is a pool that does not hear of its next commit.
type deaf struct {
	gorm.ConnPool
	next *atomic.Bool
}

func (p deaf) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.ConnPool.(gorm.TxBeginner).BeginTx(ctx, opts)
	return &deafTx{tx, p.next}, err
}

type deafTx struct {
	*sql.Tx
	next *atomic.Bool
}

func (tx *deafTx) Commit() error {
	err := tx.Tx.Commit()
	if tx.next.Swap(false) {
		return driver.ErrBadConn
	}
	return err
}

// TestUnheard: claims whose COMMIT is not heard are made, and known.
func TestUnheard(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		var next atomic.Bool
		unheard := db.WithPool(func(pool gorm.ConnPool) gorm.ConnPool { return deaf{pool, &next} })
		d, err := db.Open(t.Context(), b.cfg, unheard)
		b.must(err)
		t.Cleanup(func() { _ = d.Close() })
		s, want := New(d), Want{Destination: "crm", Max: 10, Lease: time.Hour, Worker: "w"}
		b.happen(Occurrence{Kind: Dead, TaskID: 1})
		next.Store(true)
		made, err := s.Expand(t.Context(), 10, to("crm", "bus"), want)
		if err != nil || made.N != 1 || len(made.Claims) != 1 ||
			!maps.Equal(made.Waiting, map[string]bool{"bus": true}) || next.Load() {
			t.Fatalf("Expand = %+v, %v; want one occurrence, the claim for crm, and that bus has more", made, err)
		}
		want.Destination = "bus"
		next.Store(true)
		due, err := s.Receive(t.Context(), want)
		if err != nil || len(due) != 1 || next.Load() {
			t.Fatalf("Receive = %v, %v; want one claim", due, err)
		}
		lost := b.finish(Outcome{Claim: made.Claims[0], Status: Done}, Outcome{Claim: due[0], Status: Done})
		if len(lost) != 0 {
			t.Errorf("%v are not good", lost)
		}
		if all := b.all(); len(all) != 2 {
			t.Errorf("there are %d entries, want two", len(all))
		}
	})
}

// TestCutShort: what fails before its commit leaves the occurrence, and nothing else.
func TestCutShort(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		failed := errors.New("the power fails")
		err := b.db.Tx(t.Context(), func(tx *gorm.DB) error {
			if err := Note(tx, time.Now(), []Occurrence{{Kind: Dead, TaskID: 1}}); err != nil {
				return err
			}
			return failed
		})
		if n, countErr := unexpanded(t.Context(), b.Store); !errors.Is(err, failed) || countErr != nil || n != 0 {
			t.Errorf("%v: %d occurrences are left of a transaction that failed; %v", err, n, countErr)
		}
		b.happen(Occurrence{Kind: Dead, TaskID: 1})
		fails := func(context.Context, []Occurrence) ([]Planned, error) { return nil, failed }
		if _, err := b.Expand(t.Context(), 10, fails); !errors.Is(err, failed) {
			t.Errorf("the plan's error is %v", err)
		}
		twice := func(ctx context.Context, os []Occurrence) ([]Planned, error) {
			ps, _ := to("crm", "crm")(ctx, os)
			return ps, nil
		}
		if _, err := b.Expand(t.Context(), 10, twice); err == nil {
			t.Error("an occurrence has two entries for one destination")
		}
		if n, err := unexpanded(t.Context(), b.Store); err != nil || n != 1 || len(b.all()) != 0 {
			t.Errorf("%d occurrences and %d entries are left, %v; want the occurrence alone", n, len(b.all()), err)
		}
	})
}
