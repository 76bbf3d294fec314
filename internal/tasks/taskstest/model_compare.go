package taskstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"postrider/internal/tasks"
)

type ctx = context.Context

// tolerance is within which times agree: what a case takes at most.
const tolerance = 30 * time.Second

// compareTasks compares each task.
func (w *world) compareTasks() error {
	listed, err := w.list(tasks.Filter{})
	if err != nil {
		return err
	}
	stats, err := w.Queue.Stats(w.ctx, w.folders[0].inbox)
	if err != nil {
		return err
	}
	for _, t := range w.tasks {
		i := slices.IndexFunc(listed, func(l tasks.Task) bool { return l.ID == t.ID })
		if (i < 0) != t.purged {
			return fmt.Errorf("%s is there: %t, want %t", w.name(t), i >= 0, !t.purged)
		}
		if i < 0 {
			continue
		}
		got := listed[i]
		if err := errors.Join(w.same(t, got), w.times(t, got, stats.Now)); err != nil {
			return err
		}
		t.VisibleAt, t.Reason = got.VisibleAt, got.Reason
	}
	return w.onceEach()
}

// list lists the tasks of both inboxes.
func (w *world) list(f tasks.Filter) (out []tasks.Task, err error) {
	for _, f.InboxID = range []int64{w.folders[0].inbox, w.folders[2].inbox} {
		err = errors.Join(err, w.Queue.List(w.ctx, f, func(t tasks.Task) error {
			out = append(out, t)
			return nil
		}))
	}
	return out, err
}

// same compares all of a task but its times.
func (w *world) same(t *task, got tasks.Task) error {
	var diffs []string
	differ := func(what string, got, want any) {
		if got != want {
			diffs = append(diffs, fmt.Sprintf("%s %v, want %v", what, got, want))
		}
	}
	differ("status", got.Status, t.Status)
	differ("attempts", got.Attempts, t.Attempts)
	differ("lost leases", got.LostLeases, t.LostLeases)
	differ("route", got.Route, t.Route)
	differ("worker", got.Worker, t.Worker)
	differ("priority", got.Priority, t.Priority)
	differ("inbox", got.InboxID, t.InboxID)
	differ("folder", got.FolderID, t.FolderID)
	differ("epoch", got.Epoch, t.Epoch)
	differ("UID", got.UID, t.UID)
	if got.Fingerprint != t.Fingerprint {
		diffs = append(diffs, "another fingerprint")
	}
	if got.Reason != t.Reason && (t.Reason != "buried" || got.Reason == "") {
		diffs = append(diffs, fmt.Sprintf("reason %q, want %q (or that of another task)", w.words(got.Reason), w.words(t.Reason)))
	}
	if !sameDeliveries(got.Deliveries, t.Deliveries) {
		diffs = append(diffs, fmt.Sprintf("deliveries %v, want %v", outcomes(got.Deliveries), outcomes(t.Deliveries)))
	}
	for _, d := range got.Deliveries {
		differ("has a time of delivery: "+d.Recipient, d.DeliveredAt != nil, d.Status == tasks.Delivered)
	}
	if len(diffs) > 0 {
		return fmt.Errorf("%s has %s", w.name(t), strings.Join(diffs, "; "))
	}
	return nil
}

func outcomes(ds []tasks.Delivery) (out []string) {
	for _, d := range ds {
		out = append(out, fmt.Sprint(d.Recipient, " ", d.Status, " ", d.Code, " ", d.Reply, " ", d.Attempts))
	}
	return out
}

// times compares a task's times, now being the queue's clock.
func (w *world) times(t *task, got tasks.Task, now time.Time) error {
	near := func(at *time.Time, want time.Duration, set bool) bool {
		return (at != nil) == set && (!set || at.Sub(now.Add(want-w.now)).Abs() < tolerance)
	}
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"visible", near(got.VisibleAt, t.visible, t.live())},
		{"finished", near(got.FinishedAt, t.ended, !t.live())},
		{"created", near(&got.CreatedAt, t.created, true)},
		{"queued", near(&got.QueuedAt, t.queued, true)},
	} {
		if !c.ok {
			return fmt.Errorf("%s, which is %s, has another time than it should: %s", w.name(t), t.Status, c.name)
		}
	}
	return nil
}

// onceEach: no message is to be sent by two tasks of an inbox.
func (w *world) onceEach() error {
	reserved := map[recipient]*task{}
	for _, t := range w.tasks {
		if !t.plain || !t.live() || t.Route == "" || t.hasAll() || !w.isContent(t.Fingerprint) {
			continue
		}
		key := recipient{inbox: t.InboxID, content: t.Fingerprint}
		if other := reserved[key]; other != nil {
			return fmt.Errorf("%s and %s are the same message, and both are to be sent", w.name(other), w.name(t))
		}
		reserved[key] = t
	}
	return nil
}

// hasAll: nobody is left to whom the task has to be sent.
func (t *task) hasAll() bool {
	return len(t.Deliveries) > 0 && !slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool { return d.Status != tasks.Delivered })
}

// compare compares all that a queue tells.
func (w *world) compare() error {
	if err := w.compareTasks(); err != nil {
		return err
	}
	for _, f := range w.folders {
		if err := errors.Join(w.compareFolder(f), w.compareStats(f.inbox)); err != nil {
			return err
		}
	}
	for _, t := range w.tasks {
		if err := w.compareTrail(t); err != nil {
			return err
		}
	}
	return w.compareLists()
}

// compareFolder compares cursors and the disposition of every UID.
func (w *world) compareFolder(f *folder) error {
	if cursor, baseline := w.Cursor(w.t, f.id); cursor != f.cursor || baseline != f.baseline {
		return fmt.Errorf("cursor %d, baseline %d; want %d, %d", cursor, baseline, f.cursor, f.baseline)
	}
	waits := slices.ContainsFunc(w.tasks, func(t *task) bool { return t.live() && t.FolderID == f.id && t.Epoch != f.epoch })
	if got, err := w.Queue.Unreconciled(w.ctx, f.id, f.epoch); err != nil || got != waits {
		return fmt.Errorf("unreconciled %t, error %s; want %t", got, fmt.Sprint(err), waits)
	}
	for epoch := f.epoch; epoch > f.epoch-3; epoch-- {
		if err := w.compareEpoch(f, epoch); err != nil {
			return err
		}
	}
	return nil
}

const maxUID = 12

func (w *world) compareEpoch(f *folder, epoch int64) error {
	var uids, unseen, unregistered []uint32
	var want []string
	for uid := uint32(1); uid <= maxUID; uid++ {
		uids = append(uids, uid)
		i := slices.IndexFunc(w.rows, func(r *row) bool { return r.folder == f && r.epoch == epoch && r.uid == uid })
		if i < 0 {
			unseen, unregistered = append(unseen, uid), append(unregistered, uid)
			continue
		}
		t := w.rows[i].task
		if t == nil {
			unregistered, t = append(unregistered, uid), &task{}
		}
		want = append(want, w.disposition(uid, t, t.Status, t.purged))
	}
	ds, err := w.Queue.Dispositions(w.ctx, f.id, epoch, 1, maxUID)
	var got []string
	for _, d := range ds {
		t := w.byID(d.TaskID)
		if t == nil {
			t = &task{}
		} else if !d.Purged && (d.Reason != t.Reason || !sameDeliveries(d.Deliveries, t.Deliveries)) {
			return fmt.Errorf("the disposition of UID %d has another reason or other deliveries than its task", d.UID)
		}
		got = append(got, w.disposition(d.UID, t, d.Status, d.Purged))
	}
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("dispositions %q, error %s; want %q", got, fmt.Sprint(err), want)
	}
	left, err := w.Queue.Unseen(w.ctx, f.id, epoch, uids)
	if err != nil || !slices.Equal(left, unseen) {
		return fmt.Errorf("unseen %v, error %s; want %v", left, fmt.Sprint(err), unseen)
	}
	left, err = w.Queue.Unregistered(w.ctx, f.id, epoch, uids)
	if err != nil || !slices.Equal(left, unregistered) {
		return fmt.Errorf("unregistered %v, error %s; want %v", left, fmt.Sprint(err), unregistered)
	}
	return nil
}

func (w *world) disposition(uid uint32, t *task, status tasks.Status, purged bool) string {
	return fmt.Sprintf("%d: %s %s purged %t", uid, w.name(t), status, purged)
}

// compareTrail compares the names of a task's events, and who was at it.
func (w *world) compareTrail(t *task) error {
	events, err := w.Queue.Events(w.ctx, t.ID)
	var got, want []string
	for _, e := range events {
		got = append(got, e.Event+" "+e.Worker)
	}
	for _, l := range w.trail {
		if l.id == t.ID {
			want = append(want, l.event+" "+l.worker)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("the trail of %s is %q, error %s; want %q", w.name(t), got, fmt.Sprint(err), want)
	}
	return nil
}

func (w *world) compareStats(inbox int64) error {
	want := tasks.Stats{ByStatus: map[tasks.Status]int{}}
	oldest := time.Duration(-1)
	for _, t := range w.tasks {
		if t.InboxID != inbox || t.purged {
			continue
		}
		want.ByStatus[t.Status]++
		if (t.Status == tasks.Forwarded || t.Status == tasks.Dead) && w.now-t.ended < 24*time.Hour {
			want.Ended++
			if t.Attempts > 1 {
				want.Retried++
			}
		}
		if t.live() && (oldest < 0 || t.queued < oldest) {
			oldest = t.queued
		}
	}
	for _, l := range w.trail {
		if t := w.byID(l.id); t != nil && !t.purged && t.InboxID == inbox && l.event == "conflict" && w.now-l.at < 24*time.Hour {
			want.Conflicts++
		}
	}
	want.Due = len(w.due(inbox, tasks.High)) + len(w.due(inbox, tasks.Normal))
	got, err := w.Queue.Stats(w.ctx, inbox)
	due, err2 := w.Queue.Due(w.ctx, inbox)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if (got.Oldest == nil) != (oldest < 0) || got.Oldest != nil && got.Oldest.Sub(got.Now.Add(oldest-w.now)).Abs() > tolerance {
		return errors.New("the oldest waiting task is another than it should be")
	}
	if !maps.Equal(got.ByStatus, want.ByStatus) || got.Due != want.Due || due != want.Due || got.Ended != want.Ended || got.Retried != want.Retried ||
		got.Conflicts != want.Conflicts {
		got.Now, got.Oldest = time.Time{}, nil
		return fmt.Errorf("counts %v, due %d; want %v", got, due, want)
	}
	return nil
}

// compareLists compares what some filters select.
func (w *world) compareLists() error {
	for _, c := range []struct {
		name  string
		f     tasks.Filter
		wants func(*task) bool
	}{
		{"by states", tasks.Filter{Statuses: []tasks.Status{tasks.Dead, tasks.Skipped}}, func(t *task) bool { return t.Status == tasks.Dead || t.Status == tasks.Skipped }},
		{"by a route", tasks.Filter{Route: "desk"}, func(t *task) bool { return t.Route == "desk" || t.Route == "desk+court" }},
		{"registered", tasks.Filter{Registered: 7*time.Minute + 30*time.Second}, func(t *task) bool { return w.now-t.created > 7*time.Minute }},
		{"ended", tasks.Filter{Ended: 7*time.Minute + 30*time.Second}, func(t *task) bool { return !t.live() && w.now-t.ended > 7*time.Minute }},
		{"due", tasks.Filter{Due: true}, func(t *task) bool { return t.live() && t.visible <= w.now }},
		{"the newest", tasks.Filter{Limit: 2}, func(*task) bool { return true }},
	} {
		var want []*task
		for _, inbox := range []int64{w.folders[0].inbox, w.folders[2].inbox} {
			var here []*task
			for _, t := range w.tasks {
				if t.InboxID == inbox && !t.purged && c.wants(t) {
					here = append(here, t)
				}
			}
			if c.f.Limit > 0 {
				slices.Reverse(here)
				here = here[:min(len(here), c.f.Limit)]
			}
			want = append(want, here...)
		}
		listed, err := w.list(c.f)
		var got []*task
		for _, l := range listed {
			got = append(got, w.byID(l.ID))
		}
		if err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("listed %s: %v, error %s; want %v", c.name, w.names(got), fmt.Sprint(err), w.names(want))
		}
	}
	return nil
}

// end ends and purges every task. What was seen stays known, as what it ended: all of it is registered again in new epochs.
func (w *world) end() error {
	var pages []Op
	for i, f := range w.folders {
		page := Register{Folder: i, Dedupe: tasks.DedupeInbox}
		for n := range contents {
			page.Messages = append(page.Messages, Message{UID: uint32(n + 1), Content: n, Route: "desk"})
		}
		pages = append(pages, NewEpoch{i}, page)
		_ = f
	}
	for _, op := range slices.Concat(w.purgeAll(), pages, []Op{nil}) {
		if op == nil {
			op = Purge{} // compare all
		}
		if err := w.step(op, true); err != nil {
			return fmt.Errorf("%w\nafter %s", err, literal(op))
		}
	}
	for _, op := range w.purgeAll() {
		if err := w.step(op, false); err != nil {
			return fmt.Errorf("%w\nafter %s", err, literal(op))
		}
	}
	return nil
}

// purgeAll are the operations that leave no task.
func (w *world) purgeAll() []Op {
	var ops []Op
	var all []int
	for i := range w.claims {
		ops = append(ops, Finish{Of: Of{Claim: i}, Status: tasks.Dead, Reason: "at the end"})
	}
	for i := range w.tasks {
		all = append(all, i)
	}
	return append(ops, Skip{all}, Purge{all})
}
