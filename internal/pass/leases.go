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
	held map[tasks.Receipt]bool // false: the claim is not made yet, so there is nothing to renew
}

func newLeases(q tasks.Worker, lease time.Duration, log *slog.Logger) *leases {
	return &leases{queue: q, lease: lease, log: log, held: map[tasks.Receipt]bool{}}
}

// hold is called for a claim, and again when one that was only offered is made.
func (l *leases) hold(c tasks.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[c.Receipt] = c.Recorded()
}

func (l *leases) drop(r tasks.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, r)
}

// tasks are those in work, whether their claims are made or not.
func (l *leases) tasks() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]int64, 0, len(l.held))
	for r := range l.held {
		ids = append(ids, r.TaskID)
	}
	return ids
}

// receipts are those of the claims that are made.
func (l *leases) receipts() []tasks.Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []tasks.Receipt
	for r, made := range l.held {
		if made {
			out = append(out, r)
		}
	}
	return out
}

// keep renews until stop is called. A renewal that fails is tried again at the next turn: until
// another worker claims the task, its receipt stays good.
func (l *leases) keep(ctx context.Context) (stop func()) {
	return tasks.Every(ctx, l.lease/3, func(ctx context.Context) {
		receipts := l.receipts()
		if len(receipts) == 0 {
			return
		}
		lost, err := l.queue.Extend(ctx, l.lease, receipts)
		if err != nil && ctx.Err() == nil {
			l.log.Warn("leases could not be renewed", "tasks", len(receipts), "error", err)
		}
		for _, r := range lost {
			l.drop(r)
		}
	})
}
