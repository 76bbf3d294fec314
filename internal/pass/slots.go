package pass

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// slots bound how many messages are worked on at once in this process. Whoever holds all of them
// works alone. A holder never waits for more slots, so nobody waits for ever.
type slots struct {
	all int
	sem *semaphore.Weighted
}

func newSlots(n int) *slots { return &slots{all: n, sem: semaphore.NewWeighted(int64(n))} }

// acquire waits for a slot and takes up to n. It fails only with ctx.
func (s *slots) acquire(ctx context.Context, n int) (int, error) {
	if err := s.sem.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	got := 1
	for got < min(n, s.all) && s.sem.TryAcquire(1) {
		got++
	}
	return got, nil
}

// acquireAll waits until nothing else is worked on. It fails only with ctx.
func (s *slots) acquireAll(ctx context.Context) error { return s.sem.Acquire(ctx, int64(s.all)) }

func (s *slots) release(n int) { s.sem.Release(int64(n)) }
