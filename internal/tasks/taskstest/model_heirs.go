package taskstest

import (
	"fmt"
	"slices"

	"postrider/internal/tasks"
)

// Disable takes the inbox out of use that a folder is in.
type Disable struct {
	Folder  int
	ForGood bool
}

// Enable takes it into use again.
type Enable struct{ Folder int }

func (op Enable) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	w.Enable(w.t, inbox)
	delete(w.unused, inbox)
	return nil
}

// play: what nobody got leaves its claim and its place. No message waits in another inbox for one of those.
func (op Disable) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	if err := w.Queue.Disable(w.ctx, "ann", inbox, op.ForGood); err != nil {
		return err
	}
	w.unused[inbox] = true
	var left []*task
	for _, t := range w.tasks {
		if t.InboxID == inbox && t.live() {
			if t.forget(); op.ForGood || !slices.ContainsFunc(t.Deliveries, reached) {
				left = append(left, t)
			}
		}
	}
	for _, t := range left {
		if t.Status == tasks.InProgress {
			w.put(t, tasks.Received, t.Reason, 0)
			t.Attempts, t.token = t.Attempts-1, ""
			w.note(t.ID, "released", "ann")
		}
		elsewhere := func(h *task) bool { return h.InboxID != inbox }
		if slices.ContainsFunc(w.heirs(t), elsewhere) {
			w.inherit(t, tasks.DedupeAll)
		}
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

// inherit: the first duplicate of a task takes its place, and is what the others are duplicates of. When all inboxes of them are out of use, and
// nobody got the message, each waits for its own.
func (w *world) inherit(t *task, dedupe tasks.Dedupe) {
	heirs := w.heirs(t)
	if len(heirs) == 0 {
		return
	}
	first, some := heirs[0], slices.ContainsFunc(t.Deliveries, reached)
	other := w.another(t, first, dedupe)
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
func (w *world) another(gone, heir *task, dedupe tasks.Dedupe) *task {
	for _, o := range w.tasks {
		if o != gone && o != heir && o.accounts() && w.duplicates(o, heir, heir.Fingerprint, dedupe) {
			return o
		}
	}
	return nil
}
