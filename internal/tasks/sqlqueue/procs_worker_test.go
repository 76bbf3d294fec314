//go:build unix

package sqlqueue

import (
	"context"
	"slices"
	"time"

	"postrider/internal/tasks"
)

// work claims some tasks and works them off.
func (h *hand) work(ctx context.Context) error {
	want := tasks.Want{
		InboxID: h.anyInbox(), Max: 1 + h.rand.IntN(4), Lease: h.Lease, Worker: h.Name, MaxLostLeases: 1000,
	}
	claims, err := h.Receive(h.stop, want)
	if err != nil {
		return err
	}
	if len(claims) == 0 {
		h.pause(50 * time.Millisecond)
	}
	for _, c := range claims {
		err := h.write(note{
			What: "claimed", Outcome: done, Worker: h.Name, Task: c.Task.ID, Receipt: c.Receipt.Token,
			At: c.At.UnixMicro(), To: byRecipient(c.Task.Deliveries),
		})
		if err != nil {
			return err
		}
	}
	for i, c := range claims {
		if h.rand.IntN(3) > 0 {
			if err := h.extend(ctx, claims[i:]); err != nil {
				return err
			}
		}
		if err := h.process(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (h *hand) extend(ctx context.Context, claims []tasks.Claim) error {
	before, err := h.db.Clock(ctx)
	if err != nil {
		return err
	}
	good := map[string]tasks.Claim{}
	var receipts []tasks.Receipt
	for _, c := range claims {
		good[c.Receipt.Token] = c
		receipts = append(receipts, c.Receipt)
	}
	gone, err := h.Extend(ctx, h.Lease, receipts)
	if err != nil {
		return err
	}
	for _, r := range gone {
		delete(good, r.Token)
	}
	for token, c := range good {
		err := h.write(note{
			What: "extend", Outcome: done, Worker: h.Name, Task: c.Task.ID, Receipt: token, At: before.UnixMicro(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *hand) process(ctx context.Context, c tasks.Claim) error {
	fate := fateOf(c.Task.UID)
	if h.rand.IntN(20) == 0 {
		return h.release(ctx, c, nil)
	}
	if fate == byRoute {
		return h.finish(ctx, c, tasks.Result{Status: tasks.Skipped, Skip: tasks.SkipByRoute, Reason: "by_route"})
	}
	ds, reserved, err := h.reserve(ctx, c)
	if err != nil || !reserved {
		return err
	}
	switch {
	case fate == tooLarge:
		return h.finish(ctx, c, tasks.Result{Status: tasks.Skipped, Skip: tasks.SkipTooLarge, Reason: "too large"})
	case !slices.ContainsFunc(ds, toSend):
	case fate == refused:
		for i := range ds {
			ds[i].Status, ds[i].Code, ds[i].Reply = tasks.Failed, 550, "no"
		}
	default:
		if ds, err = h.forward(ctx, c, ds); err != nil || ds == nil {
			return err
		}
	}
	return h.settle(ctx, c, ds)
}

// settle ends a claim by its deliveries.
func (h *hand) settle(ctx context.Context, c tasks.Claim, ds []tasks.Delivery) error {
	policy := tasks.Policy{
		MaxAttempts: 1000, GiveUpAfter: time.Hour,
		Base: h.Lease / 4, Max: h.Lease / 4, Jitter: func() float64 { return 0.5 },
	}
	res := policy.Settle(c.Task, time.Now(), ds)
	if res.Status == tasks.Received {
		return h.release(ctx, c, ds)
	}
	return h.finish(ctx, c, res)
}

// toSend reports whether a recipient may be sent to. When a worker died it may have the message
// already.
func toSend(d tasks.Delivery) bool {
	return d.Status == tasks.Sending || d.Status == tasks.Pending && !d.Waits()
}

// reserve records what is not decided yet, and asks again for what waits.
func (h *hand) reserve(ctx context.Context, c tasks.Claim) (ds []tasks.Delivery, reserved bool, _ error) {
	ds = c.Task.Deliveries
	if c.Task.Revision == rules && !slices.ContainsFunc(ds, tasks.Delivery.Waits) {
		return ds, true, nil
	}
	err := h.tell(note{What: "reserve", Task: c.Task.ID, Receipt: c.Receipt.Token}, func() (err error) {
		res := tasks.Reservation{Revision: rules, Dedupe: tasks.DedupeInbox}
		if c.Task.Revision != rules {
			res.Decision = decisionOf(c.Task.UID)
		}
		ds, err = h.Reserve(ctx, c.Receipt, res)
		reserved = err == nil
		return err
	})
	return ds, reserved, err
}

// forward sends to the recipients that toSend allows, and returns nil when the lease is lost.
func (h *hand) forward(ctx context.Context, c tasks.Claim, ds []tasks.Delivery) ([]tasks.Delivery, error) {
	var sending []tasks.Delivery
	for i := range ds {
		if d := &ds[i]; toSend(*d) {
			d.Status, d.Attempts = tasks.Sending, d.Attempts+1
			sending = append(sending, *d)
		}
	}
	went := false
	n := note{What: "sending", Task: c.Task.ID, Receipt: c.Receipt.Token, To: byRecipient(sending)}
	err := h.tell(n, func() error {
		err := h.Sending(ctx, c, tasks.Form{Mode: "redirect"}, sending)
		went = err == nil
		return err
	})
	if err != nil || !went {
		return nil, err
	}
	h.pause(h.Lease / 6)
	for i := range ds {
		d := &ds[i]
		if d.Status != tasks.Sending {
			continue
		}
		if deferred(c, d.Recipient) {
			d.Status, d.Code, d.Reply = tasks.Pending, 451, "later"
			continue
		}
		err := h.write(note{
			What: "arrived", Outcome: done, Worker: h.Name, Task: c.Task.ID, Receipt: c.Receipt.Token,
			Recipient: d.Recipient, Message: messageName(c.Task.FolderID, contentOf(c.Task.UID)),
		})
		if err != nil {
			return nil, err
		}
		d.Status, d.Code, d.Reply = tasks.Delivered, 250, "ok"
	}
	h.pause(h.Lease / 6)
	return ds, nil
}

func (h *hand) release(ctx context.Context, c tasks.Claim, ds []tasks.Delivery) error {
	n := note{What: "release", Task: c.Task.ID, Receipt: c.Receipt.Token, Status: tasks.Received}
	return h.tell(n, func() error { return h.Release(ctx, c, "stopped", 0, ds) })
}

func (h *hand) finish(ctx context.Context, c tasks.Claim, res tasks.Result) error {
	n := note{
		What: "finish", Task: c.Task.ID, Receipt: c.Receipt.Token, Status: res.Status, To: byRecipient(res.Deliveries),
	}
	return h.tell(n, func() error { return h.Finish(ctx, c.Receipt, res) })
}

func byRecipient(ds []tasks.Delivery) map[string]tasks.DeliveryStatus {
	out := map[string]tasks.DeliveryStatus{}
	for _, d := range ds {
		out[d.Recipient] = d.Status
	}
	return out
}
