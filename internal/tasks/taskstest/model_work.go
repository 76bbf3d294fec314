package taskstest

import (
	"fmt"
	"slices"

	"postrider/internal/tasks"
)

// Work is what a pass does with a claim: it sends by a route to some recipients, or by none to nobody. Where raw operations may do
// anything to a task, this keeps to the rules, and then no message goes to anybody twice.
type Work struct {
	Of      Of
	Content int // when it was not read before
	Route   string
	To      []string
	Comes   Outcome
	Dedupe  tasks.Dedupe
}

// Outcome is what comes of it, for those who do not have the message yet.
type Outcome string

// The outcomes.
const (
	Accepted Outcome = "accepted"
	Deferred Outcome = "deferred"
	Refused  Outcome = "refused"
	Unknown  Outcome = "unknown"
	Killed   Outcome = "killed"   // the worker, when it had said to whom it sends
	Reserved Outcome = "reserved" // the worker was killed before that
	Vanished Outcome = "vanished" // the message is gone
)

func (op Work) play(w *world) error {
	h, ok := w.held(op.Of)
	if !ok {
		return nil
	}
	via, ds := h.Route, h.Deliveries
	if len(ds) == 0 {
		via = op.Route
		for _, to := range op.To {
			ds = append(ds, tasks.Delivery{Recipient: to, Status: tasks.Pending})
		}
	}
	switch {
	case op.Comes == Vanished:
		res := tasks.Vanished(h.Task, "expunged")
		return Finish{Status: res.Status, Reason: res.Reason, Route: res.Route, Yields: res.Yields, Dedupe: op.Dedupe}.do(w, h)
	case via == "" || len(ds) == 0:
		return Finish{Status: tasks.SkippedNoMatch, Reason: "no", Yields: true, Dedupe: op.Dedupe}.do(w, h)
	}
	good := h.good()
	if h.Route == "" || !w.isContent(h.Fingerprint) {
		err := Identify{Of: op.Of, Content: op.Content, Route: via, Dedupe: op.Dedupe}.play(w)
		if err != nil || good && !h.good() || !w.isContent(h.task.Fingerprint) {
			return err // a duplicate, or another message
		}
	}
	if op.Comes == Reserved {
		return nil
	}
	return op.send(w, h, via, ds)
}

// send says to whom it sends, and then what came of it.
func (op Work) send(w *world, h held, via string, ds []tasks.Delivery) error {
	open := func(d tasks.Delivery) bool { return d.Status == tasks.Pending || d.Status == tasks.Sending }
	comes := map[Outcome]tasks.DeliveryStatus{
		Accepted: tasks.Delivered, Deferred: tasks.Pending, Refused: tasks.Failed, Unknown: tasks.Sending, Killed: tasks.Sending,
	}[op.Comes]
	before, after := slices.Clone(ds), slices.Clone(ds)
	for i, d := range ds {
		if open(d) {
			before[i].Status, after[i].Status = tasks.Sending, comes
		}
	}
	if good := h.good(); slices.ContainsFunc(ds, open) {
		if err := w.twice(h, before); err != nil {
			return err
		}
		err := Sending{Route: via, Deliveries: before}.do(w, h)
		if w.arrived(h.task); err != nil || op.Comes == Killed || !good {
			return err
		}
	}
	res := Finish{Status: tasks.Forwarded, Route: via, Deliveries: after, Dedupe: op.Dedupe}
	switch {
	case slices.ContainsFunc(after, open):
		res.Status, res.Reason = tasks.Error, "451 later"
	case slices.ContainsFunc(after, func(d tasks.Delivery) bool { return d.Status == tasks.Failed }):
		res.Status, res.Reason = tasks.Dead, "550 no"
		res.Refused = !slices.ContainsFunc(after, reached)
		res.Yields = res.Refused
	}
	err := res.do(w, h)
	w.arrived(h.task)
	return err
}

// twice fails when one of those who are about to get the message has it by another task of the inbox.
func (w *world) twice(h held, ds []tasks.Delivery) error {
	for _, d := range ds {
		other := w.sent[recipient{h.task.InboxID, h.task.Fingerprint, d.Recipient}]
		if d.Status == tasks.Sending && h.good() && h.task.plain && other != nil && other != h.task {
			return fmt.Errorf("%s is about to go to %s, who has the message by %s", w.name(h.task), d.Recipient, w.name(other))
		}
	}
	return nil
}

// arrived notes who has the message by a task, or may have it.
func (w *world) arrived(t *task) {
	for who, by := range w.sent {
		if by == t {
			delete(w.sent, who)
		}
	}
	for _, d := range t.Deliveries {
		if t.plain && reached(d) {
			w.sent[recipient{t.InboxID, t.Fingerprint, d.Recipient}] = t
		}
	}
}

// against the rules is what a raw operation does to a task: who has the message by it proves nothing any more.
func (w *world) against(t *task) {
	t.plain = false
	w.arrived(t)
}
