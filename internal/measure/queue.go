package measure

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"postrider/internal/tasks"
)

// Queue is q, and the meter counts what deliverers do through it. Nothing else changes.
func (m *Meter) Queue(q tasks.Queue) tasks.Queue {
	return &queue{Queue: q, meter: m, claims: map[tasks.Receipt]claim{}, now: time.Now}
}

// queue is a tasks.Queue with a meter.
type queue struct {
	tasks.Queue
	meter *Meter
	now   func() time.Time

	mu     sync.Mutex
	claims map[tasks.Receipt]claim // in the hands of this process
}

// claim is a task as it was when it was claimed.
type claim struct {
	inboxID int64
	waited  time.Duration    // since the task was queued, at the claim, by the registry's clock
	at      time.Time        // of the claim, by this host's clock
	before  []tasks.Delivery // before the attempt
}

// Receive implements tasks.Worker.
func (q *queue) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	claims, err := q.Queue.Receive(ctx, want)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range claims {
		q.add(c)
	}
	return claims, err
}

// add is to be called with the lock held.
func (q *queue) add(c tasks.Claim) {
	q.claims[c.Receipt] = claim{
		inboxID: c.Task.InboxID, waited: c.At.Sub(c.Task.QueuedAt), at: q.now(),
		before: slices.Clone(c.Task.Deliveries),
	}
}

// Reserve implements tasks.Worker.
func (q *queue) Reserve(ctx context.Context, r tasks.Receipt, res tasks.Reservation) ([]tasks.Delivery, error) {
	ds, err := q.Queue.Reserve(ctx, r, res)
	q.noteLost(r, err)
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.claims[r]; ok && err == nil {
		c.before = slices.Clone(ds)
		q.claims[r] = c
	}
	return ds, err
}

// Extend implements tasks.Worker.
func (q *queue) Extend(ctx context.Context, lease time.Duration, receipts []tasks.Receipt) ([]tasks.Receipt, error) {
	lost, err := q.Queue.Extend(ctx, lease, receipts)
	for _, r := range lost {
		q.noteLost(r, tasks.ErrLeaseLost)
	}
	return lost, err
}

// Sending implements tasks.Worker.
func (q *queue) Sending(ctx context.Context, c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	err := q.Queue.Sending(ctx, c, as, ds)
	if !c.Recorded() && err == nil { // that made the claim
		q.mu.Lock()
		defer q.mu.Unlock()
		q.add(c)
	}
	q.noteLost(c.Receipt, err)
	return err
}

// Finish implements tasks.Worker.
func (q *queue) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	err := q.Queue.Finish(ctx, r, res)
	q.ended(r, res.Deliveries, err)
	return err
}

// Release implements tasks.Worker.
func (q *queue) Release(
	ctx context.Context, c tasks.Claim, reason string, delay time.Duration, ds []tasks.Delivery,
) error {
	err := q.Queue.Release(ctx, c, reason, delay, ds)
	q.ended(c.Receipt, ds, err)
	return err
}

// noteLost counts a lease that was lost, once.
func (q *queue) noteLost(r tasks.Receipt, err error) {
	if !errors.Is(err, tasks.ErrLeaseLost) {
		return
	}
	if c, ok := q.drop(r); ok {
		q.meter.leaseLost(c.inboxID)
	}
}

// ended counts the attempts of a claim that ended. A message that was found again elsewhere is
// still in hand.
func (q *queue) ended(r tasks.Receipt, ds []tasks.Delivery, err error) {
	if errors.Is(err, tasks.ErrMoved) {
		return
	}
	q.noteLost(r, err)
	c, ok := q.drop(r)
	if !ok || err != nil {
		return
	}
	for _, d := range ds {
		was, status := c.of(d.Recipient)
		if d.Attempts <= was {
			continue
		}
		q.meter.attempted(c.inboxID, outcome(d))
		if d.Status == tasks.Delivered && status != tasks.Delivered {
			q.meter.tookUntilDelivered(c.waited + q.now().Sub(c.at))
		}
	}
}

// drop forgets a claim.
func (q *queue) drop(r tasks.Receipt) (claim, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, ok := q.claims[r]
	delete(q.claims, r)
	return c, ok
}

// of is how often a recipient had been tried, and how the delivery stood.
func (c claim) of(recipient string) (attempts int, status tasks.DeliveryStatus) {
	for _, d := range c.before {
		if d.Recipient == recipient {
			return d.Attempts, d.Status
		}
	}
	return 0, ""
}
