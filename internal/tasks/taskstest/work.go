package taskstest

import (
	"slices"
	"time"

	"postrider/internal/tasks"
)

func (p place) want(n int) tasks.Want {
	return tasks.Want{InboxID: p.inbox, Max: n, Lease: lease, Worker: "worker", MaxLostLeases: 3}
}

// receive claims at most n tasks.
func (p place) receive(n int) []tasks.Claim {
	p.t.Helper()
	claims, err := p.Queue.Receive(p.ctx, p.want(n))
	p.must("receive", err)
	return claims
}

// claimed claims and checks the UIDs.
func (p place) claimed(n int, uids ...uint32) []tasks.Claim {
	p.t.Helper()
	claims := p.receive(n)
	var got []uint32
	for _, c := range claims {
		got = append(got, c.Task.UID)
	}
	if !slices.Equal(got, uids) {
		p.t.Fatalf("claimed the UIDs %v, want %v", got, uids)
	}
	return claims
}

// claim registers one message and claims it.
func (p place) claim() tasks.Claim {
	p.t.Helper()
	p.register(p.msg(1, "m"))
	return p.claimed(1, 1)[0]
}

// ending is the result that ends a claim in a status, with deliveries that go with it.
func ending(c tasks.Claim, status tasks.Status) tasks.Result {
	res := tasks.Result{Status: status, Reason: "why", Deliveries: slices.Clone(c.Task.Deliveries)}
	is := map[tasks.Status]tasks.DeliveryStatus{
		tasks.Forwarded: tasks.Delivered, tasks.Dead: tasks.Failed, tasks.Uncertain: tasks.Sending,
	}[status]
	for i := range res.Deliveries {
		if d := &res.Deliveries[i]; d.Status == tasks.Pending && is != "" {
			d.Status = is
		}
	}
	switch status {
	case tasks.Skipped:
		res.Skip = tasks.SkipLoop
	case tasks.Error:
		res.Delay = time.Hour
	case tasks.Forwarded:
		res.Reason = ""
	}
	return res
}

// finish ends a claim in a status.
func (s *suite) finish(c tasks.Claim, status tasks.Status) {
	s.t.Helper()
	s.must("finish as "+string(status), s.Queue.Finish(s.ctx, c.Receipt, ending(c, status)))
}

// vanish ends a claim whose message is gone.
func (s *suite) vanish(c tasks.Claim) {
	s.t.Helper()
	s.must("finish as vanished", s.Queue.Finish(s.ctx, c.Receipt, tasks.Vanished(c.Task, "expunged")))
}

// finished registers one message and ends its claim in the status.
func (p place) finished(status tasks.Status) tasks.Claim {
	p.t.Helper()
	c := p.claim()
	p.finish(c, status)
	return c
}

// vanished registers one message that is gone when it is claimed.
func (p place) vanished() tasks.Claim {
	p.t.Helper()
	c := p.claim()
	p.vanish(c)
	return c
}

// bring makes a task that stands in the state, with the last claim of it.
func (s *suite) bring(to tasks.Status) (place, tasks.Claim) {
	s.t.Helper()
	p := s.place()
	switch to {
	case tasks.Received:
		id := p.added(p.msg(1, "m"))
		return p, tasks.Claim{Task: s.get(id), Receipt: tasks.Receipt{TaskID: id, Token: "never given"}}
	case tasks.InProgress:
		return p, p.claim()
	}
	return p, p.finished(to)
}

// reserve reserves a claim, and checks how far each recipient is then. Given recipients, it is with
// a new decision.
func (p place) reserve(c tasks.Claim, to []string, want string) []tasks.Delivery {
	p.t.Helper()
	res := tasks.Reservation{Revision: revision, Dedupe: p.dedupe}
	if to != nil {
		res.Decision = decision(to...)
	}
	ds, err := p.Queue.Reserve(p.ctx, c.Receipt, res)
	p.must("reserve", err)
	if got := standing(ds); got != want {
		p.t.Fatalf("reserved, the recipients of task %d: %s; want: %s", c.Task.ID, got, want)
	}
	if is := p.get(c.Task.ID).Deliveries; !sameDeliveries(is, ds) {
		p.t.Fatalf("Reserve returned %+v, registered are %+v", ds, is)
	}
	return ds
}

// policy has no chance in it.
func policy() tasks.Policy {
	return tasks.Policy{
		MaxAttempts: 8, GiveUpAfter: 96 * time.Hour, Base: time.Minute, Max: time.Hour, MaxLostLeases: 3,
		Jitter: func() float64 { return 0.5 },
	}
}

// deliver works a claim off as a pass does, through one of the queues. All recipients that it sends
// to end as end; it returns them.
func (p place) deliver(q tasks.Queue, c tasks.Claim, end tasks.DeliveryStatus) (sent []string, err error) {
	ds := slices.Clone(c.Task.Deliveries)
	if c.Task.Revision != revision || slices.ContainsFunc(ds, tasks.Delivery.Waits) {
		res := tasks.Reservation{Revision: revision, Dedupe: p.dedupe}
		if c.Task.Revision == "" {
			res.Decision = decision(recipients(ds)...)
		}
		if ds, err = q.Reserve(p.ctx, c.Receipt, res); err != nil {
			return nil, err
		}
	}
	for i, d := range ds {
		if d.Status == tasks.Sending || d.Status == tasks.Pending && !d.Waits() {
			sent, ds[i].Status = append(sent, d.Recipient), tasks.Sending
		}
	}
	if len(sent) > 0 {
		if err := q.Sending(p.ctx, c, tasks.Form{Mode: "redirect"}, ds); err != nil {
			return nil, err
		}
	}
	for i := range ds {
		if ds[i].Status == tasks.Sending {
			ds[i].Status = end
		}
	}
	res := policy().Settle(c.Task, c.At, ds)
	if res.Status == tasks.Received {
		return sent, q.Release(p.ctx, c, res.Reason, 0, res.Deliveries)
	}
	return sent, q.Finish(p.ctx, c.Receipt, res)
}

func recipients(ds []tasks.Delivery) []string {
	var out []string
	for _, d := range ds {
		out = append(out, d.Recipient)
	}
	return out
}

// work delivers what is due until nothing is, and returns how many deliveries that were.
func (p place) work() (sent int) {
	p.t.Helper()
	for range 100 {
		claims := p.receive(100)
		if len(claims) == 0 {
			return sent
		}
		for _, c := range claims {
			to, err := p.deliver(p.Queue, c, tasks.Delivered)
			p.must("deliver", err)
			sent += len(to)
		}
	}
	p.t.Fatal("tasks are due again and again")
	return sent
}

// now is the registry's clock. It may be far ahead of the test's, by what Age said has passed.
func (p place) now() time.Time {
	p.t.Helper()
	return p.stats().Now
}

func (p place) stats() tasks.Stats {
	p.t.Helper()
	stats, err := p.Queue.Stats(p.ctx, []int64{p.inbox})
	p.must("stats", err)
	return stats[p.inbox]
}

// sameDeliveries compares deliveries but for when they were made.
func sameDeliveries(a, b []tasks.Delivery) bool {
	return slices.EqualFunc(a, b, func(a, b tasks.Delivery) bool {
		a.DeliveredAt = b.DeliveredAt
		return a == b
	})
}

var operatorAnn = tasks.By{Who: "ann"}

// byAnn checks the result of what operatorAnn did to one task.
func (s *suite) byAnn(n int, err error) {
	s.t.Helper()
	if n != 1 || err != nil {
		s.t.Fatalf("%d tasks changed, %v; want 1", n, err)
	}
}

func (s *suite) requeue(id int64) { s.t.Helper(); s.byAnn(s.Queue.Requeue(s.ctx, operatorAnn, id)) }
func (s *suite) skip(id int64)    { s.t.Helper(); s.byAnn(s.Queue.Skip(s.ctx, operatorAnn, id)) }
func (s *suite) resolve(id int64) { s.t.Helper(); s.byAnn(s.Queue.Resolve(s.ctx, operatorAnn, id)) }
func (s *suite) purge(id int64)   { s.t.Helper(); s.byAnn(s.Queue.Purge(s.ctx, operatorAnn, id)) }
