package pass

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// slots limits, in this process, how many messages are being sent, and separately how many wait for
// their result to be recorded; both limits are n. A holder of all slots works alone. A holder never
// waits for more slots, so there is no deadlock. One suspect at a time may wait for all slots.
type slots struct {
	all      int
	sem      *semaphore.Weighted
	ends     *semaphore.Weighted
	suspects *semaphore.Weighted
}

func newSlots(n int) *slots {
	return &slots{
		all: n, sem: semaphore.NewWeighted(int64(n)), ends: semaphore.NewWeighted(int64(n)),
		suspects: semaphore.NewWeighted(1),
	}
}

// acquire waits for a slot. It fails only with ctx.
func (s *slots) acquire(ctx context.Context) error { return s.sem.Acquire(ctx, 1) }

// suspect waits until no other suspect is worked on, and returns what ends that. The holder has no
// slots yet. It fails only with ctx.
func (s *slots) suspect(ctx context.Context) (done func(), err error) {
	if err := s.suspects.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.suspects.Release(1) }, nil
}

// acquireAll waits until nothing else is worked on. It fails only with ctx.
func (s *slots) acquireAll(ctx context.Context) error {
	if err := s.sem.Acquire(ctx, int64(s.all)); err != nil {
		return err
	}
	if err := s.ends.Acquire(ctx, int64(s.all)); err != nil {
		s.release(s.all)
		return err
	}
	s.ends.Release(int64(s.all))
	return nil
}

// end waits for room among those whose end is being recorded, and returns a function that releases
// it.
func (s *slots) end() (ended func()) {
	_ = s.ends.Acquire(context.Background(), 1) // fails only with its context
	return func() { s.ends.Release(1) }
}

func (s *slots) release(n int) { s.sem.Release(int64(n)) }
