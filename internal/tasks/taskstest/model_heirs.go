package taskstest

import (
	"errors"
	"fmt"
	"slices"

	"postrider/internal/tasks"
)

// Disable takes the inbox out of use that a folder is in.
type Disable struct{ Folder int }

// Remove removes the inbox that a folder is in. Another takes its place, with folders of the same names.
type Remove struct{ Folder int }

// Enable takes it into use again.
type Enable struct{ Folder int }

func (op Enable) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	w.Enable(w.t, inbox)
	delete(w.unused, inbox)
	return nil
}

func (op Disable) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	if err := w.Queue.Disable(w.ctx, "ann", inbox); err != nil {
		return err
	}
	return w.takeOut(inbox, false)
}

func (op Remove) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	if err := errors.Join(w.Queue.Remove(w.ctx, "ann", inbox), w.takeOut(inbox, true)); err != nil {
		return err
	}
	delete(w.unused, inbox)
	w.rows = slices.DeleteFunc(w.rows, func(r *row) bool { return r.folder.inbox == inbox })
	for _, t := range w.tasks {
		t.purged = t.purged || t.InboxID == inbox
	}
	w.removed++
	next := w.Inbox(w.t, fmt.Sprintf("%d%s@example.com", w.removed, w.salt))
	for i, f := range w.folders {
		if f.inbox == inbox {
			w.folders[i] = &folder{id: w.Folder(w.t, next, fmt.Sprint(i), epoch), inbox: next, epoch: epoch}
		}
	}
	return nil
}

// takeOut: what nobody got leaves its claim and its place; for good, all does. No message waits in another inbox for one of those.
func (w *world) takeOut(inbox int64, forGood bool) error {
	w.unused[inbox] = true
	var left []*task
	for _, t := range w.tasks {
		if t.InboxID == inbox && t.live() {
			if t.forget(); forGood || !slices.ContainsFunc(t.Deliveries, reached) {
				left = append(left, t)
			}
		}
	}
	elsewhere := func(h *task) bool { return h.InboxID != inbox }
	for _, t := range left {
		if t.Status == tasks.InProgress {
			w.put(t, tasks.Received, t.Reason, 0)
			t.Attempts, t.token = t.Attempts-1, ""
			w.note(t.ID, "released", "ann")
		}
		switch heirs := w.heirs(t); {
		case !slices.ContainsFunc(heirs, elsewhere):
		case forGood:
			w.bequeath(t, slices.DeleteFunc(heirs, func(h *task) bool { return !elsewhere(h) }), tasks.DedupeAll, func(o *task) bool { return o.live() && !elsewhere(o) })
		default:
			w.bequeath(t, heirs, tasks.DedupeAll, func(*task) bool { return false })
		}
	}
	for _, t := range left {
		if slices.ContainsFunc(w.heirs(t), elsewhere) {
			return fmt.Errorf("a duplicate of %s waits in another inbox, though that is out of use", w.name(t))
		}
	}
	return nil
}

// heirs are the duplicates of a task, those first whose inbox is in use.
func (w *world) heirs(t *task) (heirs []*task) {
	for _, unused := range []bool{false, true} {
		for _, o := range w.tasks {
			if w.unused[o.InboxID] == unused && !o.purged && o.Status == tasks.Skipped && o.Reason == tasks.DuplicateOf(t.ID) {
				heirs = append(heirs, o)
			}
		}
	}
	return heirs
}

// bequeath: the first heir of a task takes its place, and is what the others are duplicates of. When all inboxes of them are out of use, and
// nobody got the message, each waits for its own. Others go with the task, and account for nothing.
func (w *world) bequeath(t *task, heirs []*task, dedupe tasks.Dedupe, goes func(*task) bool) {
	if len(heirs) == 0 {
		return
	}
	first, some := heirs[0], slices.ContainsFunc(t.Deliveries, reached)
	other := w.another(t, first, dedupe, goes)
	for i, o := range heirs {
		switch {
		case other != nil:
			o.Reason = tasks.DuplicateOf(other.ID)
		case i == 0 || w.unused[first.InboxID] && !some:
			w.put(o, tasks.Received, "", 0)
			o.queued = w.now
			o.forget()
			w.note(o.ID, "requeued", "")
		default:
			o.Reason = tasks.DuplicateOf(first.ID)
		}
	}
	if other == nil && some {
		w.handOver(t, first)
	}
}

// handOver: the heir goes on for all that do not have the message, and the other only keeps who has it.
func (w *world) handOver(gone, heir *task) {
	heir.Route = gone.Route
	heir.deliver(gone.Deliveries)
	heir.plain = heir.plain && gone.plain
	gone.Deliveries = slices.DeleteFunc(slices.Clone(gone.Deliveries), func(d tasks.Delivery) bool { return d.Status != tasks.Delivered })
	w.arrived(gone)
	w.arrived(heir)
}

// another is a task that accounts for the message of an heir anyway.
func (w *world) another(gone, heir *task, dedupe tasks.Dedupe, goes func(*task) bool) *task {
	for _, o := range w.tasks {
		if o != gone && o != heir && !goes(o) && o.accounts() && w.duplicates(o, heir, heir.Fingerprint, dedupe) {
			return o
		}
	}
	return nil
}
