package pass

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"postrider/internal/tasks"
)

// leases renews the leases of all claims in work, so that a lease can be short and a message huge.
type leases struct {
	queue tasks.Worker
	lease time.Duration
	log   *slog.Logger

	mu   sync.Mutex
	held map[tasks.Receipt]bool
}

func newLeases(q tasks.Worker, lease time.Duration, log *slog.Logger) *leases {
	return &leases{queue: q, lease: lease, log: log, held: map[tasks.Receipt]bool{}}
}

func (l *leases) hold(r tasks.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[r] = true
}

func (l *leases) drop(r tasks.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, r)
}

// tasks are those whose receipts are held.
func (l *leases) tasks() []int64 {
	var ids []int64
	for _, r := range l.receipts() {
		ids = append(ids, r.TaskID)
	}
	return ids
}

func (l *leases) receipts() []tasks.Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]tasks.Receipt, 0, len(l.held))
	for r := range l.held {
		out = append(out, r)
	}
	return out
}

// keep renews until stop is called. A renewal that fails is tried again at the next turn: until
// another worker claims the task, its receipt stays good.
func (l *leases) keep(ctx context.Context) (stop func()) {
	return every(ctx, l.lease/3, func(ctx context.Context) {
		receipts := l.receipts()
		if len(receipts) == 0 {
			return
		}
		lost, err := l.queue.Extend(ctx, l.lease, receipts)
		if err != nil {
			l.log.Warn("leases could not be renewed", "tasks", len(receipts), "error", err)
		}
		for _, r := range lost {
			l.drop(r)
		}
	})
}

// every calls f at each turn of the interval until stop is called, which waits for a call under
// way.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f(ctx)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
