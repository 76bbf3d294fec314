package memqueue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// heirsOf are the duplicates of a task, those first whose inbox is in use.
func (q *Queue) heirsOf(t *task) (heirs []*task) {
	key := q.ledger.at[place{t.FolderID, t.Epoch, t.UID}].key // its content, also when it was registered unread
	for _, r := range q.alike(key) {
		o := q.tasks[r.TaskID]
		if o != nil && o.Status == tasks.Skipped && o.Reason == tasks.DuplicateOf(t.ID) && !slices.Contains(heirs, o) {
			heirs = append(heirs, o)
		}
	}
	rank := func(t *task) int {
		if q.inboxes[t.InboxID].active {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(heirs, func(a, b *task) int { return cmp.Compare(rank(a), rank(b)) })
	return heirs
}

// rename makes tasks the duplicates of another original.
func rename(heirs []*task, original int64) {
	for _, h := range heirs {
		h.Reason = tasks.DuplicateOf(original)
	}
}

// leaving is a task that leaves its place.
type leaving struct {
	*task
	why    string
	dedupe tasks.Dedupe
	inbox  int64 // that is removed with it; 0 for none
}

// inherit leaves the place of a task that ended so to its duplicates; of one that was refused to those by another route.
func (q *Queue) inherit(gone *task, res tasks.Result, now time.Time) {
	heirs := q.heirsOf(gone)
	if res.Refused {
		heirs = slices.DeleteFunc(heirs, func(h *task) bool { return h.Route == gone.Route })
	}
	q.bequeath(leaving{task: gone, why: res.Reason, dedupe: res.Dedupe}, heirs, now)
}

// bequeath puts the first heir of a task that leaves its place there, and makes the others its duplicates. When none
// is of an inbox in use, all go on, each to be reserved when its own inbox is: none has to wait for another's.
func (q *Queue) bequeath(gone leaving, heirs []*task, now time.Time) {
	if len(heirs) == 0 {
		return
	}
	if other := q.another(gone, heirs[0]); other != 0 {
		rename(heirs, other)
		return
	}
	reached, next := tasks.Reached(gone.Deliveries), 1
	if !reached && !q.inboxes[heirs[0].InboxID].active {
		next = len(heirs)
	}
	for _, h := range heirs[:next] {
		q.revive(h, now, tasks.InPlaceOf(gone.ID, gone.why))
	}
	if reached {
		handOver(gone.task, heirs[0], now)
	}
	rename(heirs[next:], heirs[0].ID)
}

// another is a task that accounts for the message of an heir anyway, 0 when there is none. One that waits in the inbox that is removed
// does not.
func (q *Queue) another(gone leaving, heir *task) int64 {
	this := ledger.Row{InboxID: heir.InboxID, FolderID: heir.FolderID, Epoch: heir.Epoch, TaskID: heir.ID}
	for _, r := range q.alike(heir.Fingerprint) {
		goes := r.TaskID == gone.ID || r.InboxID == gone.inbox && !r.Status.Ended()
		if !goes && r.Duplicates(this, gone.dedupe) {
			return r.TaskID
		}
	}
	return 0
}

// handOver gives the heir the route and the deliveries of a task that somebody has got the message by: nobody gets it twice. What
// is still to be delivered is the heir's alone from then on.
func handOver(gone, heir *task, now time.Time) {
	heir.Route, heir.Form = gone.Route, gone.Form
	heir.deliver(gone.Deliveries, now)
	gone.Deliveries = slices.DeleteFunc(gone.Deliveries, func(d tasks.Delivery) bool { return d.Status != tasks.Delivered })
}

// forget has the routes of today decide on a task that begins anew, unless somebody got it.
func (t *task) forget() {
	if !tasks.Reached(t.Deliveries) {
		t.Route, t.Deliveries = "", nil
	}
}

// Disable implements tasks.Queue.
func (q *Queue) Disable(_ context.Context, who string, inboxID int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takeOut(who, inboxID, false)
	return nil
}

// Remove implements tasks.Queue.
func (q *Queue) Remove(_ context.Context, who string, inboxID int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takeOut(who, inboxID, true)
	q.ledger.drop(inboxID)
	maps.DeleteFunc(q.tasks, func(_ int64, t *task) bool { return t.InboxID == inboxID })
	maps.DeleteFunc(q.folders, func(_ int64, f *folder) bool { return f.inboxID == inboxID })
	delete(q.inboxes, inboxID)
	return nil
}

func (q *Queue) takeOut(who string, inboxID int64, forGood bool) {
	in := q.inboxes[inboxID]
	if in == nil {
		return
	}
	in.active = false
	now := q.now()
	for _, t := range in.live {
		t.forget()
	}
	for _, t := range slices.SortedFunc(maps.Values(in.live), func(a, b *task) int { return cmp.Compare(a.ID, b.ID) }) {
		if !forGood && tasks.Reached(t.Deliveries) {
			continue
		}
		if t.Status == tasks.InProgress {
			t.Status, t.receipt, t.UpdatedAt = tasks.Received, "", now
			t.Attempts--
			q.show(t, now)
			q.event(now, t.ID, who, "released", tasks.OutOfUse)
		}
		q.yield(t, forGood, now)
	}
}

// yield leaves the place of a task to its duplicates in other inboxes. When it is for good none of its own inbox can take it, or account
// for the message.
func (q *Queue) yield(t *task, forGood bool, now time.Time) {
	heirs := q.heirsOf(t)
	here := func(h *task) bool { return h.InboxID == t.InboxID }
	if !slices.ContainsFunc(heirs, func(h *task) bool { return !here(h) }) {
		return
	}
	gone := leaving{task: t, why: tasks.OutOfUse, dedupe: tasks.DedupeAll} // there are no heirs elsewhere in another scope
	if forGood {
		gone.inbox = t.InboxID
		heirs = slices.DeleteFunc(heirs, here)
	}
	q.bequeath(gone, heirs, now)
}
