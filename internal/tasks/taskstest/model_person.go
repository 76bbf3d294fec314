package taskstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/tasks"
)

// Requeue lets tasks begin anew, by a person's word.
type Requeue struct{ Tasks []int }

// Skip ends tasks by a person's word.
type Skip struct{ Tasks []int }

// Resolve settles unknown outcomes by a person's word.
type Resolve struct{ Tasks []int }

// Purge deletes tasks by a person's word.
type Purge struct{ Tasks []int }

// Expire deletes forwarded tasks of the inbox that a folder is in.
type Expire struct {
	Folder, Limit int
	Age           time.Duration
}

// ExpireEvents deletes old lines of the audit trail.
type ExpireEvents struct {
	Limit int
	Age   time.Duration
}

// Age lets time pass.
type Age struct{ By time.Duration }

// Again is the operation before once more: its commit went through, and nobody heard of it.
type Again struct{}

func (op Age) play(w *world) error {
	w.now += op.By
	w.Age(w.t, op.By)
	return nil
}

func (Again) play(w *world) error {
	if w.last == nil {
		return nil
	}
	return w.last.play(w)
}

func (op Requeue) play(w *world) error {
	return w.byPerson(op.Tasks, w.Queue.Requeue, func(t *task) bool {
		if t.Status != tasks.Error && t.Status != tasks.Uncertain && t.Status != tasks.Dead && t.Status != tasks.Skipped && t.Status != tasks.SkippedNoMatch {
			return false
		}
		w.anew(t)
		t.forget()
		t.become(tasks.Pending, tasks.Failed, tasks.Sending)
		w.arrived(t)
		w.note(t.ID, "requeued", "ann")
		return true
	})
}

// anew puts a task at the end of the line, with nothing counted against it.
func (w *world) anew(t *task) {
	w.put(t, tasks.Received, "", 0)
	t.queued, t.Attempts, t.LostLeases = w.now, 0, 0
}

// forget: what nobody got is decided on anew.
func (t *task) forget() {
	if !slices.ContainsFunc(t.Deliveries, reached) {
		t.Route, t.Deliveries = "", nil
	}
}

func reached(d tasks.Delivery) bool {
	return d.Status == tasks.Delivered || d.Status == tasks.Sending
}

// become changes deliveries that stand at one of from.
func (t *task) become(to tasks.DeliveryStatus, from ...tasks.DeliveryStatus) {
	t.Deliveries = slices.Clone(t.Deliveries)
	for i := range t.Deliveries {
		if slices.Contains(from, t.Deliveries[i].Status) {
			t.Deliveries[i].Status = to
		}
	}
}

func (op Skip) play(w *world) error {
	return w.byPerson(op.Tasks, w.Queue.Skip, func(t *task) bool {
		if t.Status != tasks.Received && t.Status != tasks.Error && t.Status != tasks.Uncertain && t.Status != tasks.Dead {
			return false
		}
		w.put(t, tasks.Skipped, "by_person: ann", 0)
		w.note(t.ID, "skipped", "ann")
		return true
	})
}

func (op Resolve) play(w *world) error {
	return w.byPerson(op.Tasks, w.Queue.Resolve, func(t *task) bool {
		if t.Status != tasks.Uncertain {
			return false
		}
		w.put(t, tasks.Forwarded, "", 0)
		if slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool { return !reached(d) }) {
			w.anew(t)
		}
		t.become(tasks.Delivered, tasks.Sending)
		w.note(t.ID, "resolved", "ann")
		return true
	})
}

// byPerson has a person do something to tasks, and a number that is none.
func (w *world) byPerson(which []int, do func(ctx ctx, who string, ids ...int64) (int, error), change func(*task) bool) error {
	ids, want := []int64{1 << 40}, 0
	for _, t := range w.some(which) {
		ids = append(ids, t.ID)
		if !t.purged && change(t) {
			want++
		}
	}
	n, err := do(w.ctx, "ann", ids...)
	if err != nil || n != want {
		return fmt.Errorf("%d changed, error %s; want %d", n, fmt.Sprint(err), want)
	}
	return nil
}

// some are the tasks with those numbers, each once.
func (w *world) some(which []int) (out []*task) {
	for _, n := range which {
		if len(w.tasks) > 0 {
			if t := w.tasks[n%len(w.tasks)]; !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// play: a skipped task that is no duplicate of an open one may stay, too, while an equal message is open.
func (op Purge) play(w *world) error {
	for _, t := range w.some(op.Tasks) {
		n, err := w.Queue.Purge(w.ctx, "ann", t.ID)
		if err != nil {
			return err
		}
		may := !t.purged && slices.Contains([]tasks.Status{tasks.Forwarded, tasks.Skipped, tasks.SkippedNoMatch, tasks.Dead}, t.Status)
		must := may && (t.Status != tasks.Skipped || !w.equalIsOpen(t))
		may = may && (t.Status != tasks.Skipped || !w.originalIsOpen(t))
		if n > 1 || n == 1 && !may || n == 0 && must {
			return fmt.Errorf("%s, which is %s (%s), was purged: %d", w.name(t), t.Status, w.words(t.Reason), n)
		}
		if n == 1 {
			t.purged = true
			w.note(t.ID, "purged", "ann")
		}
	}
	return nil
}

// open tasks may still be forwarded, be it after a person's word.
func (t *task) open() bool { return !t.purged && t.Status != tasks.Forwarded }

func (w *world) equalIsOpen(t *task) bool {
	return slices.ContainsFunc(w.tasks, func(o *task) bool {
		return o.open() && slices.ContainsFunc(w.rows, func(r *row) bool { return r.task == t && w.knownAs(o, r.key) })
	})
}

func (w *world) originalIsOpen(t *task) bool {
	return slices.ContainsFunc(w.tasks, func(o *task) bool { return o.open() && t.Reason == tasks.DuplicateOf(o.ID) })
}

// words is a reason without the id in it.
func (w *world) words(reason string) string {
	words, _, _ := strings.Cut(reason, " is task ")
	return words
}

func (op Expire) play(w *world) error {
	inbox := w.folder(op.Folder).inbox
	var old []*task
	for _, t := range w.tasks {
		if !t.purged && t.InboxID == inbox && t.Status == tasks.Forwarded && w.now-t.ended > op.Age {
			old = append(old, t)
		}
	}
	n, err := w.Queue.Expire(w.ctx, inbox, op.Age, op.Limit)
	if err != nil || n != min(op.Limit, len(old)) {
		return fmt.Errorf("%d expired, error %s; want %d", n, fmt.Sprint(err), min(op.Limit, len(old)))
	}
	slices.SortFunc(old, func(a, b *task) int { return int(a.ended - b.ended) })
	var kept time.Duration
	for i, t := range old { // which of two that ended in the same minute goes first is the queue's affair
		switch _, err := w.Queue.Get(w.ctx, t.ID); {
		case errors.Is(err, tasks.ErrNotFound):
			t.purged, n = true, n-1
			if i > 0 && kept != 0 && t.ended > kept {
				return fmt.Errorf("%s expired before one that ended earlier", w.name(t))
			}
		case err != nil:
			return err
		case kept == 0:
			kept = t.ended
		}
	}
	if n != 0 {
		return fmt.Errorf("%d more have expired than are gone, of those that may", n)
	}
	return nil
}

func (op ExpireEvents) play(w *world) error {
	old := 0
	for _, l := range w.trail {
		if old < op.Limit && w.now-l.at > op.Age && !w.doubts(l) {
			old++
		}
	}
	n, err := w.Queue.ExpireEvents(w.ctx, op.Age, op.Limit)
	if err != nil || n != old {
		return fmt.Errorf("%d lines expired, error %s; want %d", n, fmt.Sprint(err), old)
	}
	return w.forget(n)
}

// forget takes the n oldest lines out of the trail. In which order one operation wrote lines for several tasks is the
// queue's affair.
func (w *world) forget(n int) error {
	left := map[int64]int{}
	for _, l := range w.trail {
		if _, ok := left[l.id]; !ok {
			events, err := w.Queue.Events(w.ctx, l.id)
			if err != nil {
				return err
			}
			left[l.id] = len(events)
		}
	}
	var kept []line
	for _, l := range w.trail {
		if w.doubts(l) {
			left[l.id]--
		}
	}
	for _, l := range slices.Backward(w.trail) {
		switch {
		case w.doubts(l):
			kept = append(kept, l)
		case left[l.id] > 0:
			left[l.id]--
			kept = append(kept, l)
		}
	}
	slices.Reverse(kept)
	if len(kept) != len(w.trail)-n {
		return fmt.Errorf("%d lines expired and %d are left, of %d", n, len(kept), len(w.trail))
	}
	w.trail = kept
	return nil
}

// doubts: the line tells that an outcome of the task was unknown, which matters until it is forwarded or purged.
func (w *world) doubts(l line) bool {
	t := w.byID(l.id)
	return l.event == "uncertain" && t != nil && !t.purged && t.Status != tasks.Forwarded
}
