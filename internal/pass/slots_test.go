package pass

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(3)
		for range 3 {
			check(t, s.acquire(t.Context()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 2)
		go func() { stopped <- s.acquire(ctx) }()
		go func() { stopped <- s.acquireAll(ctx) }()
		synctest.Wait()
		cancel()
		for range 2 {
			if err := soon(t, "who waits is stopped", stopped); !errors.Is(err, context.Canceled) {
				t.Errorf("who waits is stopped with %v, want %v", err, context.Canceled)
			}
		}
		s.release(3)
		check(t, s.acquireAll(t.Context()))
		s.release(3)
	})
}

// TestSlotsForAll: who waits for all of them is not kept waiting by those who come later.
func TestSlotsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		check(t, s.acquire(t.Context()))
		order := make(chan string, 2)
		go func() {
			if s.acquireAll(t.Context()) == nil {
				order <- "all"
			}
		}()
		synctest.Wait()
		go func() {
			if s.acquire(t.Context()) == nil {
				order <- "one"
				s.release(1)
			}
		}()
		synctest.Wait()
		if len(order) > 0 {
			t.Fatalf("%q has slots beside who waits for all", <-order)
		}
		s.release(1)
		if first := soon(t, "somebody has slots", order); first != "all" {
			t.Errorf("the first is %q, want all", first)
		}
		s.release(2)
		soon(t, "the other one has slots", order)
	})
}

// TestSlotsForAllWaitForEnds: who has all slots works alone, so it also waits until what was sent
// is recorded. Stopped meanwhile, it keeps no slots.
func TestSlotsForAllWaitForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		ended := s.end()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- s.acquireAll(ctx) }()
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("all slots are had while a result is being recorded")
		}
		cancel()
		if err := soon(t, "who waits is stopped", got); !errors.Is(err, context.Canceled) {
			t.Errorf("who waits is stopped with %v, want %v", err, context.Canceled)
		}
		go func() { got <- s.acquireAll(t.Context()) }()
		synctest.Wait()
		ended()
		check(t, soon(t, "the result is recorded", got))
	})
}
