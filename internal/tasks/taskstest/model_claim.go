package taskstest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Of says which claim an operation is done with: the newest is 0, and one that is no longer good is as good a choice as any.
type Of struct {
	Claim  int
	Forged bool // with a token that was never given
}

// Receive claims tasks of the inbox that a folder is in. Other has another process do so.
type Receive struct {
	Folder, Max int
	Other       bool
}

// Extend renews the lease of a claim.
type Extend struct{ Of Of }

// Sending says to whom a claim's message is about to go.
type Sending struct {
	Of         Of
	Route      string
	Deliveries []tasks.Delivery
}

// Identify tells the content of a claim's message that was not read before, and reserves it when it has a route.
type Identify struct {
	Of      Of
	Content int
	Route   string
	Dedupe  tasks.Dedupe
}

// Finish ends a claim.
type Finish struct {
	Of         Of
	Status     tasks.Status
	Reason     string
	Route      string
	Delay      time.Duration
	Deliveries []tasks.Delivery
	Yields     bool
	Refused    bool // and then only to one by another route
	Dedupe     tasks.Dedupe
}

// Release gives a claim back.
type Release struct {
	Of         Of
	Delay      time.Duration
	Deliveries []tasks.Delivery
}

const (
	leaseTime     = 5*time.Minute + 30*time.Second
	maxLostLeases = 2
)

func (op Receive) play(w *world) error {
	inbox, q, worker := w.folder(op.Folder).inbox, w.Queue, "here"
	if op.Other {
		q, worker = w.Other, "there"
	}
	want, buried := w.next(inbox, op.Max)
	if w.unused[inbox] {
		want, buried = nil, nil
	}
	got, err := q.Receive(w.ctx, tasks.Want{InboxID: inbox, Max: op.Max, Lease: leaseTime, Worker: worker, MaxLostLeases: maxLostLeases})
	if err != nil {
		return err
	}
	var is []*task
	for _, c := range got {
		is = append(is, w.byID(c.ID))
	}
	if !slices.Equal(is, want) {
		return fmt.Errorf("claimed %v, want %v", w.names(is), w.names(want))
	}
	for _, t := range buried {
		as := tasks.Dead
		if slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool { return d.Status == tasks.Sending }) {
			as = tasks.Uncertain
		}
		w.put(t, as, "", 0)
		t.Reason, t.LostLeases = "buried", t.LostLeases+1
		w.note(t.ID, string(as), t.Worker)
	}
	for i, t := range want {
		if err := w.claim(t, got[i], worker); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) names(all []*task) (names []string) {
	for _, t := range all {
		names = append(names, w.name(t))
	}
	return names
}

// next says what is claimed: what is due, high priority first and then the oldest, but one that lost its lease before comes alone, and one
// that lost too many is buried. What stands behind a suspect of its priority waits with it.
func (w *world) next(inbox int64, n int) (claims, buried []*task) {
	for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
		for _, t := range w.due(inbox, priority) {
			lost := t.LostLeases
			if t.Status == tasks.InProgress {
				lost++
			}
			switch {
			case len(claims) == n:
				return claims, buried
			case t.Status == tasks.InProgress && lost > maxLostLeases:
				buried = append(buried, t)
				continue
			case lost > 0 && len(claims) == 0:
				return []*task{t}, buried
			}
			if lost > 0 {
				break
			}
			claims = append(claims, t)
		}
	}
	return claims, buried
}

// due are the tasks of a priority that could be claimed, oldest first. Which of two is older by less than a minute the
// queue's own clock says.
func (w *world) due(inbox int64, priority tasks.Priority) (due []*task) {
	for _, t := range w.tasks {
		if t.InboxID == inbox && t.Priority == priority && t.live() && t.visible <= w.now {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *task) int {
		return cmp.Or(a.VisibleAt.Compare(*b.VisibleAt), cmp.Compare(a.ID, b.ID))
	})
	return due
}

func (w *world) claim(t *task, got tasks.Claim, worker string) error {
	h := held{got, t, t.visible, w.now}
	t.Attempts++
	if t.Status == tasks.InProgress {
		t.LostLeases++
		w.note(t.ID, "lease_lost", worker)
	}
	w.put(t, tasks.InProgress, t.Reason, leaseTime)
	t.token, t.Worker = got.Receipt.Token, worker
	if w.tokens[t.token] {
		return fmt.Errorf("%s has a token that was given before", w.name(t))
	}
	if got.Alone != (t.LostLeases > 0) {
		return fmt.Errorf("%s, which lost %d leases, is alone: %t", w.name(t), t.LostLeases, got.Alone)
	}
	if got.Receipt.TaskID != t.ID || got.Receipt.Worker != worker || got.Due.Sub(*t.VisibleAt).Abs() > time.Millisecond {
		return fmt.Errorf("%s has the receipt of another, or its place in the line is not where it was", w.name(t))
	}
	w.tokens[t.token], w.claims = true, append(w.claims, h)
	return w.same(t, got.Task)
}

// held is the claim that an operation is done with; false when there is none yet.
func (w *world) held(of Of) (held, bool) {
	if len(w.claims) == 0 {
		return held{}, false
	}
	h := w.claims[len(w.claims)-1-of.Claim%len(w.claims)]
	if of.Forged {
		h.Receipt.Token = "forged"
	}
	return h, true
}

// good: the receipt alone decides.
func (h held) good() bool {
	return !h.task.purged && h.task.Status == tasks.InProgress && h.task.token == h.Receipt.Token
}

// settle checks what came of an operation with a receipt. It reports whether the operation took place: it did not when the lease is lost, which
// leaves its line in the trail, nor when what it asks for has been done.
func (w *world) settle(h held, err error, target tasks.Status) (bool, error) {
	asked := !h.task.purged && h.task.token == h.Receipt.Token && h.task.Status == target
	switch {
	case h.good():
		return true, err
	case err == nil && asked && target != tasks.InProgress:
		return false, nil
	case errors.Is(err, tasks.ErrLeaseLost) && (!asked || !h.task.settled):
		w.note(h.task.ID, "conflict", h.Receipt.Worker)
		return false, nil
	}
	return false, fmt.Errorf("with a receipt that is lost for %s: error %s", w.name(h.task), fmt.Sprint(err))
}

func (op Extend) play(w *world) error {
	h, ok := w.held(op.Of)
	if !ok {
		return nil
	}
	lost, err := w.Queue.Extend(w.ctx, leaseTime, []tasks.Receipt{h.Receipt})
	if err != nil || (len(lost) == 0) != h.good() {
		return fmt.Errorf("lost %d, error %s; the receipt is good: %t", len(lost), fmt.Sprint(err), h.good())
	}
	if h.good() {
		h.task.visible = w.now + leaseTime
	}
	return nil
}

func (op Sending) play(w *world) error {
	h, ok := w.held(op.Of)
	if !ok {
		return nil
	}
	if h.good() {
		w.against(h.task)
	}
	return op.do(w, h)
}

func (op Sending) do(w *world, h held) error {
	done, err := w.settle(h, w.Queue.Sending(w.ctx, h.Receipt, op.Route, tasks.Form{Mode: "redirect"}, op.Deliveries), tasks.InProgress)
	if done {
		h.task.Route = op.Route
		h.task.deliver(op.Deliveries)
	}
	return err
}

// deliver brings each recipient's delivery up to date.
func (t *task) deliver(ds []tasks.Delivery) {
	t.Deliveries = slices.DeleteFunc(slices.Clone(t.Deliveries), func(d tasks.Delivery) bool {
		return slices.ContainsFunc(ds, func(n tasks.Delivery) bool { return n.Recipient == d.Recipient })
	})
	t.Deliveries = append(t.Deliveries, ds...)
	slices.SortFunc(t.Deliveries, func(a, b tasks.Delivery) int { return strings.Compare(a.Recipient, b.Recipient) })
}

func (op Identify) play(w *world) error {
	h, ok := w.held(op.Of)
	if !ok {
		return nil
	}
	t, key := h.task, w.content(op.Content)
	switch noted := w.noted(t); {
	case w.isContent(t.Fingerprint):
		key = t.Fingerprint
	case w.isContent(noted): // by the page that found it again
		key = noted
	case t.Fingerprint != w.outline(op.Content):
		return nil // it is another
	}
	of, err := w.Queue.Identify(w.ctx, h.Receipt, tasks.Entry{Fingerprint: key, Route: op.Route}, op.Dedupe)
	done, err := w.settle(h, err, tasks.InProgress)
	if !done || err != nil {
		return err
	}
	var equal []*task
	for _, o := range w.tasks {
		if o != t && o.accounts() && w.duplicates(o, t, key, op.Dedupe) {
			equal = append(equal, o)
		}
	}
	if is := w.byID(of); (is == nil) != (len(equal) == 0) || is != nil && !slices.Contains(equal, is) {
		return fmt.Errorf("%s is a duplicate of %s, want one of %v", w.name(t), w.name(is), w.names(equal))
	}
	w.read(t, tasks.Entry{Fingerprint: key, Outline: t.Fingerprint})
	t.Fingerprint, t.read, t.Route = key, true, cmp.Or(op.Route, t.Route)
	t.plain = t.plain && (t.Route == "" || op.Dedupe != tasks.DedupeOff)
	for _, r := range w.rows {
		if r.task == t && r.epoch == t.Epoch && r.uid == t.UID {
			r.key = key
		}
	}
	if of != 0 {
		for _, o := range w.heirs(t) {
			o.Reason = tasks.DuplicateOf(of)
		}
		w.put(t, tasks.Skipped, tasks.DuplicateOf(of), 0)
		t.settled = true
		w.note(t.ID, string(tasks.Skipped), h.Receipt.Worker)
	}
	return nil
}

// noted is what a task's message is known by where it is now.
func (w *world) noted(t *task) (key message.Fingerprint) {
	for _, r := range w.rows {
		if r.task == t && r.epoch == t.Epoch && r.uid == t.UID {
			key = r.key
		}
	}
	return key
}

// duplicates: o has the content in the scope, or had it in another epoch of the folder.
func (w *world) duplicates(o, t *task, key [32]byte, dedupe tasks.Dedupe) bool {
	return slices.ContainsFunc(w.rows, func(r *row) bool {
		return r.task == o && r.key == key && (dedupe == tasks.DedupeAll || dedupe == tasks.DedupeInbox && o.InboxID == t.InboxID ||
			o.FolderID == t.FolderID && r.epoch != t.Epoch)
	})
}

func (op Finish) play(w *world) error {
	h, ok := w.held(op.Of)
	if !ok {
		return nil
	}
	t := h.task
	if h.good() && (len(op.Deliveries) > 0 || t.Route == "" && (op.Route != "" || op.Status == tasks.Forwarded) ||
		op.Status == tasks.Skipped && slices.ContainsFunc(t.Deliveries, reached)) {
		w.against(t)
	}
	return op.do(w, h)
}

func (op Finish) do(w *world, h held) error {
	t := h.task
	err := w.Queue.Finish(w.ctx, h.Receipt, tasks.Result{
		Status: op.Status, Reason: op.Reason, Route: op.Route, Delay: op.Delay, Deliveries: op.Deliveries, Yields: op.Yields, Refused: op.Refused, Dedupe: op.Dedupe,
	})
	switch op.Status {
	case tasks.Forwarded, tasks.Error, tasks.Dead, tasks.Uncertain, tasks.Skipped, tasks.SkippedNoMatch:
	default:
		if err == nil || errors.Is(err, tasks.ErrLeaseLost) {
			return fmt.Errorf("error %s, want one that says that no claim ends so", fmt.Sprint(err))
		}
		return nil
	}
	done, err := w.settle(h, err, op.Status)
	if !done || err != nil {
		return err
	}
	w.put(t, op.Status, op.Reason, op.Delay)
	t.Route, t.settled = op.Route, true
	t.deliver(op.Deliveries)
	if op.Yields {
		heirs := w.heirs(t)
		if op.Refused {
			heirs = slices.DeleteFunc(heirs, func(h *task) bool { return h.Route == op.Route })
		}
		w.bequeath(t, heirs, op.Dedupe, func(*task) bool { return false })
	}
	if op.Status != tasks.Forwarded {
		w.note(t.ID, string(op.Status), t.Worker)
	}
	return nil
}

func (op Release) play(w *world) error {
	h, ok := w.held(op.Of)
	if !ok {
		return nil
	}
	c, err := w.aged(h)
	if err != nil {
		return err
	}
	if h.good() && len(op.Deliveries) > 0 {
		w.against(h.task)
	}
	done, err := w.settle(h, w.Queue.Release(w.ctx, c, "stopped", op.Delay, op.Deliveries), tasks.Received)
	if !done || err != nil {
		return err
	}
	t := h.task
	w.put(t, tasks.Received, "stopped", op.Delay)
	if op.Delay == 0 {
		t.visible = h.due
	}
	t.Attempts, t.settled = t.Attempts-1, true
	t.deliver(op.Deliveries)
	return nil
}

// aged is the claim with its place in the line as old as all times that Age has made older; some registries put their clock forward instead.
func (w *world) aged(h held) (tasks.Claim, error) {
	stats, err := w.Queue.Stats(w.ctx, h.task.InboxID)
	passed := stats.Now.Sub(h.At)
	h.Due = h.Due.Add((passed - (w.now - h.at)).Round(time.Minute))
	return h.Claim, err
}
