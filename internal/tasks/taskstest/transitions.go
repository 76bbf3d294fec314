package taskstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"postrider/internal/tasks"
)

var transitionTests = map[string]func(*suite){
	"transitions": testTransitions,
	"finish/ways": testNoWay,
}

// deed is something that someone tries to do to a task.
type deed struct {
	name     string
	from     []tasks.Status // where it is allowed
	to       tasks.Status   // where the task goes; empty when it stays as it is, or is deleted
	receipt  bool           // by the holder of the last receipt; refused with ErrLeaseLost
	operator bool           // by an operator; refused with errNone
	do       func(p place, c tasks.Claim) error
	before   func(p place, c tasks.Claim) // what has to happen first; mostly nil
}

// deeds are all that the queue can do to a task once it is registered.
func deeds() []deed {
	claim := deed{name: "claim", from: tasks.From(tasks.InProgress), to: tasks.InProgress}
	claim.do = func(p place, _ tasks.Claim) error {
		_, err := p.Queue.Receive(p.ctx, p.want(1))
		return err
	}
	requeue := byOperator("requeue", nil, tasks.Received, tasks.Queue.Requeue)
	for _, from := range tasks.FromByOperator(tasks.Received) {
		if from != tasks.Forwarded {
			requeue.from = append(requeue.from, from)
		}
	}
	all := tasks.FromByOperator(tasks.Received)
	bounced := byOperator("requeue of what bounced", all, tasks.Received, tasks.Queue.Requeue)
	bounced.before = func(p place, c tasks.Claim) {
		if len(c.Task.Deliveries) > 0 {
			_, err := p.Queue.Arrived(p.ctx, "reports", c.Task.ID, c.Task.Deliveries[0].Recipient, bounce)
			p.must("record a bounce", err)
		}
	}
	return slices.Concat([]deed{claim}, withReceipt(), []deed{
		requeue, bounced,
		byOperator("skip", tasks.FromByOperator(tasks.Skipped), tasks.Skipped, tasks.Queue.Skip),
		byOperator("resolve", tasks.FromByOperator(tasks.Forwarded), tasks.Forwarded, tasks.Queue.Resolve),
		byOperator("purge", tasks.Purgeable, "", tasks.Queue.Purge),
	})
}

// withReceipt is all that a receipt is good for.
func withReceipt() []deed {
	ds := []tasks.Delivery{{Recipient: "late@example.com", Status: tasks.Delivered}}
	all := []deed{
		{name: "release", to: tasks.Received, do: func(p place, c tasks.Claim) error {
			return p.Queue.Release(p.ctx, c, "stopped", 0, ds)
		}},
		{name: "sending", do: func(p place, c tasks.Claim) error {
			return p.Queue.Sending(p.ctx, c, tasks.Form{Mode: "redirect"}, ds)
		}},
		{name: "note", do: func(p place, c tasks.Claim) error {
			return p.Queue.Note(p.ctx, c.Receipt, tasks.Note{Event: "left_out", Detail: eve})
		}},
		{name: "reserve", do: func(p place, c tasks.Claim) error {
			id := p.identity("other")
			_, err := p.Queue.Reserve(p.ctx, c.Receipt, tasks.Reservation{
				Identity: &id, Decision: decision(bob), Revision: "r2", Dedupe: tasks.DedupeAll,
			})
			return err
		}},
		{name: "extend", do: func(p place, c tasks.Claim) error {
			lost, err := p.Queue.Extend(p.ctx, time.Hour, []tasks.Receipt{c.Receipt})
			if slices.Contains(lost, c.Receipt) {
				return tasks.ErrLeaseLost
			}
			return err
		}},
	}
	for _, to := range tasks.Statuses {
		if to.EndsClaim() {
			all = append(all, deed{name: "finish as " + string(to), to: to, do: func(p place, c tasks.Claim) error {
				res := ending(c, to)
				res.Deliveries = ds
				return p.Queue.Finish(p.ctx, c.Receipt, res)
			}})
		}
	}
	for i := range all {
		all[i].receipt, all[i].from = true, []tasks.Status{tasks.InProgress}
	}
	return all
}

// errNone is what becomes of an operator's command that changed nothing.
var errNone = errors.New("no task changed")

func byOperator(name string, from []tasks.Status, to tasks.Status,
	do func(q tasks.Queue, ctx context.Context, by tasks.By, ids ...int64) (int, error),
) deed {
	return deed{name: name, from: from, to: to, operator: true, do: func(p place, c tasks.Claim) error {
		n, err := do(p.Queue, p.ctx, operatorAnn, c.Task.ID)
		if err == nil && n == 0 {
			return errNone
		}
		return err
	}}
}

// testTransitions tries every deed on a task in every state: it happens when it is allowed, and
// changes nothing when it is not. Together they are all the transitions that are allowed.
func testTransitions(s *suite) {
	seen := map[string]bool{}
	for _, from := range tasks.Statuses {
		for _, d := range deeds() {
			p, c := s.bring(from)
			if d.name == "claim" {
				s.Age(s.t, 2*time.Hour) // leases run out, delays pass
			}
			if d.before != nil {
				d.before(p, c)
			}
			before := s.record(c.Task.ID)
			err := d.do(p, c)
			if slices.Contains(d.from, from) {
				s.happened(d, from, c.Task.ID, err)
				seen[fmt.Sprint(from, d.to)] = true
			} else {
				s.refused(d, before, c, err, d.refusal(from))
			}
		}
	}
	for _, from := range tasks.Statuses {
		for _, to := range tasks.Statuses {
			if tasks.Allowed(from, to) && !seen[fmt.Sprint(from, to)] {
				s.t.Errorf("%s -> %s is allowed, but nothing does it", from, to)
			}
		}
	}
}

// record is all that is known of a task.
type record struct {
	task   tasks.Task
	gone   bool
	events []tasks.Event
}

func (s *suite) record(id int64) record {
	s.t.Helper()
	task, err := s.Queue.Get(s.ctx, id)
	gone := errors.Is(err, tasks.ErrNotFound)
	if err != nil && !gone {
		s.must("get", err)
	}
	events, err := s.Queue.Events(s.ctx, id)
	s.must("events", err)
	return record{task, gone, events}
}

// happened checks a deed that was allowed.
func (s *suite) happened(d deed, from tasks.Status, id int64, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s of a task that is %s: %v", d.name, from, err)
	}
	if d.to != "" {
		s.stands(id, d.to)
	}
	after := s.record(id)
	if purged := d.name == "purge"; after.gone != purged {
		s.t.Errorf("after %s of a task that was %s it is deleted: %t, want %t", d.name, from, after.gone, purged)
	}
	if d.operator && (len(after.events) == 0 || after.events[len(after.events)-1].Worker != "ann") {
		s.t.Errorf("%s of a task that was %s: the trail is %+v; want who did it at its end", d.name, from, after.events)
	}
}

// refusal is the error for a deed that is not allowed. Finished twice as the same is fine.
func (d deed) refusal(from tasks.Status) error {
	switch {
	case d.operator:
		return errNone
	case d.receipt && (from != d.to || from == tasks.Received):
		return tasks.ErrLeaseLost
	}
	return nil
}

// refused checks that a deed changed nothing. A stale receipt is in the trail, except one that was
// to be renewed.
func (s *suite) refused(d deed, before record, c tasks.Claim, err, want error) bool {
	s.t.Helper()
	ok := errors.Is(err, want)
	if !ok {
		s.t.Errorf("%s of a task that is %q: error %v, want %v", d.name, before.task.Status, err, want)
	}
	after := s.record(c.Task.ID)
	if errors.Is(want, tasks.ErrLeaseLost) && d.name != "extend" {
		var last tasks.Event
		if n := len(after.events); n > 0 {
			last, after.events = after.events[n-1], after.events[:n-1:n-1]
		}
		if last.Event != "conflict" || last.Worker != c.Receipt.Worker || last.Detail == "" {
			ok = false
			s.t.Errorf("%s by a stale receipt: the trail ends with %+v; want a conflict, "+
				"by the worker %q that was late",
				d.name, last, c.Receipt.Worker)
		}
	}
	if !reflect.DeepEqual(after.task, before.task) || !slices.Equal(after.events, before.events) ||
		after.gone != before.gone {
		ok = false
		s.t.Errorf("%s of a task that is %q was refused, and changed it from\n%+v to\n%+v",
			d.name, before.task.Status, before, after)
	}
	return ok
}

// testNoWay finishes with what is not an end of a claim.
func testNoWay(s *suite) {
	for _, to := range []tasks.Status{tasks.Received, tasks.InProgress, "", "nonsense"} {
		p := s.place()
		c := p.claim()
		before := s.record(c.Task.ID)
		err := s.Queue.Finish(s.ctx, c.Receipt, tasks.Result{Status: to})
		if err == nil || errors.Is(err, tasks.ErrLeaseLost) {
			s.t.Errorf("finish as %q: error %v, want a refusal", to, err)
		}
		if after := s.record(c.Task.ID); !reflect.DeepEqual(after, before) {
			s.t.Errorf("finish as %q was refused, and changed the task from\n%+v to\n%+v", to, before, after)
		}
	}
}
