package taskstest

import (
	"fmt"
	"slices"
	"time"

	"postrider/internal/address"
	"postrider/internal/tasks"
)

// What comes of Work.
const (
	Accepted = "accepted"
	Deferred = "deferred"
	Refused  = "refused"
	Unknown  = "unknown"  // the reply is not known
	Mixed    = "mixed"    // every second recipient is refused
	Reserved = "reserved" // its worker died before it sent
	Killed   = "killed"   // its worker died while it sent
	Vanished = "vanished" // the message is gone
	Broken   = "broken"   // the message cannot be composed
)

// Work is what a pass does with a claim.
type Work struct {
	Of     Of
	Comes  string
	Hold   bool
	Route  string // when it is to be decided
	To     []string
	Rules  int
	Dedupe tasks.Dedupe
}

func (o Work) play(s *side) string {
	c, ok := o.Of.claim(s)
	if !ok {
		return ""
	}
	ds, out, err := o.reserve(s, c)
	if err != nil {
		return out + s.failure(err)
	}
	p := tasks.Policy{
		MaxAttempts: 3, GiveUpAfter: time.Hour, Base: 2 * time.Minute, Max: 2 * time.Minute, Hold: o.Hold,
		Jitter: func() float64 { return 0.5 },
	}
	t := c.Task
	t.Deliveries, t.QueuedAt = ds, c.At // so that reasons do not say how long it took
	d := decide(o.Route, o.To)
	switch {
	case o.Comes == Reserved:
		return out
	case o.Comes == Vanished:
		return out + o.end(s, c, tasks.Vanished(t, "expunged"))
	case o.Comes == Broken:
		return out + o.end(s, c, p.Fail(t, c.At, ds, errNone))
	case len(ds) == 0 && d.Status() != tasks.Received:
		return out + o.end(s, c, tasks.Result{Status: d.Status(), Skip: d.Skip, Reason: d.Reason})
	}
	if ds, err = o.send(s, c, ds); err != nil || o.Comes == Killed {
		return out + s.failure(err)
	}
	return out + o.end(s, c, p.Settle(t, c.At, ds))
}

// reserve makes sure that the task was decided by the rules in force, and owns what it sends.
func (o Work) reserve(s *side, c tasks.Claim) (ds []tasks.Delivery, out string, err error) {
	res := tasks.Reservation{Revision: fmt.Sprint("r", o.Rules), Dedupe: o.Dedupe}
	if c.Task.Revision == res.Revision && !slices.ContainsFunc(c.Task.Deliveries, tasks.Delivery.Waits) {
		return slices.Clone(c.Task.Deliveries), "", nil
	}
	if c.Task.Revision != res.Revision {
		res.Decision = decide(o.Route, o.To)
	}
	if !c.Task.Read {
		id := s.identity(s.content(c.Task.ID))
		res.Identity = &id
	}
	ds, err = s.Queue.Reserve(s.ctx, c.Receipt, res)
	return slices.Clone(ds), s.deliveries(ds), err
}

// send marks what is sent, and then sets what came of it.
func (o Work) send(s *side, c tasks.Claim, ds []tasks.Delivery) ([]tasks.Delivery, error) {
	var to []int
	for i, d := range ds {
		if d.Status == tasks.Sending || d.Status == tasks.Pending && !d.Waits() {
			to = append(to, i)
			ds[i].Status = tasks.Sending
			ds[i].Attempts++
		}
	}
	if len(to) == 0 {
		return ds, nil
	}
	if now, err := s.Queue.Get(s.ctx, c.Task.ID); err == nil && !now.Read && s.unread != nil {
		s.unread[c.Task.ID] = true
	}
	err := s.Queue.Sending(s.ctx, c, tasks.Form{Mode: "redirect"}, ds)
	for n, i := range to {
		comes := o.Comes
		if comes == Mixed {
			comes = []string{Accepted, Refused}[n%2]
		}
		switch d := &ds[i]; comes {
		case Accepted:
			d.Status, d.Code, d.Reply = tasks.Delivered, 250, "ok"
		case Deferred:
			d.Status, d.Code, d.Reply = tasks.Pending, 451, "later"
		case Refused:
			d.Status, d.Code, d.Reply = tasks.Failed, 550, "no"
		}
	}
	return ds, err
}

// end finishes or releases the claim, and notes who got the message.
func (o Work) end(s *side, c tasks.Claim, res tasks.Result) string {
	var err error
	if res.Status == tasks.Received {
		err = s.Queue.Release(s.ctx, c, res.Reason, 0, res.Deliveries)
	} else {
		err = s.Queue.Finish(s.ctx, c.Receipt, res)
	}
	for _, d := range res.Deliveries {
		before := slices.IndexFunc(c.Task.Deliveries, func(b tasks.Delivery) bool {
			return b.Recipient == d.Recipient && b.Status == tasks.Delivered
		})
		if s.delivered != nil && err == nil && d.Status == tasks.Delivered && before < 0 {
			s.once(c.Task, d.Recipient)
		}
	}
	return s.failure(err)
}

// once notes that a task delivered to a recipient: no other task whose content is known may do
// that, unless it was sent before that was known.
func (s *side) once(t tasks.Task, recipient string) {
	if now, err := s.Queue.Get(s.ctx, t.ID); err != nil || !now.Read || s.unread[t.ID] {
		return
	}
	key := once{t.InboxID, s.content(t.ID), address.Mailbox(recipient)}
	if s.scope == tasks.DedupeAll {
		key.inbox = 0
	}
	if by, ok := s.delivered[key]; ok && by != t.ID {
		s.broken = fmt.Sprintf("%s got content %d by %s and again by %s",
			recipient, key.content, s.name(by), s.name(t.ID))
	}
	s.delivered[key] = t.ID
}

// forgive forgets what these tasks delivered and bounced: they may deliver it again, or another
// task may.
func (s *side) forgive(ids []int64) {
	for _, id := range ids {
		t, err := s.Queue.Get(s.ctx, id)
		if err != nil || t.Status == tasks.InProgress {
			continue
		}
		for _, d := range t.Deliveries {
			for key, by := range s.delivered {
				if by == id && d.HasBounced() && key.mailbox == address.Mailbox(d.Recipient) {
					delete(s.delivered, key)
				}
			}
		}
	}
}

// drain delivers all that is due.
type drain struct{ Dedupe tasks.Dedupe }

func (o drain) play(s *side) (out string) {
	for n := range 2 {
		for range 100 {
			before := len(s.claims)
			out += Receive{Inbox: n, Max: 8}.play(s)
			claims := len(s.claims) - before
			if claims == 0 {
				break
			}
			for i := range claims {
				w := Work{Of: Of{Claim: i}, Comes: Accepted, Route: "desk", To: people[:2], Rules: 1, Dedupe: o.Dedupe}
				out += w.play(s)
			}
		}
	}
	return out
}

// ended checks that no task waits any more.
type ended struct{}

func (ended) play(s *side) string {
	for _, t := range s.list(tasks.Filter{}) {
		if s.delivered != nil && !t.Status.Ended() {
			s.broken = fmt.Sprintf("%s still is %s after all was sent: %s", s.name(t.ID), t.Status, s.words(t.Reason))
		}
	}
	return ""
}
