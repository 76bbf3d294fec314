package memqueue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Unseen implements tasks.Queue.
func (q *Queue) Unseen(_ context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	return q.without(folderID, epoch, uids, func(*row) bool { return true }), nil
}

// Unregistered implements tasks.Queue.
func (q *Queue) Unregistered(_ context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	return q.without(folderID, epoch, uids, func(r *row) bool { return r.taskID != 0 }), nil
}

func (q *Queue) without(folderID, epoch int64, uids []uint32, disposed func(*row) bool) []uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(uids), func(uid uint32) bool {
		r := q.ledger.at[place{folderID, epoch, uid}]
		return r != nil && disposed(r) && !q.seen(r).Gone()
	})
}

// Noted implements tasks.Queue.
func (q *Queue) Noted(_ context.Context, folderID, epoch int64, from, to uint32) ([]tasks.Noted, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []tasks.Noted
	for at, r := range q.ledger.at {
		if at.folderID == folderID && at.epoch == epoch && from <= at.uid && at.uid <= to {
			out = append(out, q.noted(r))
		}
	}
	slices.SortFunc(out, func(a, b tasks.Noted) int { return cmp.Compare(a.UID, b.UID) })
	return out, nil
}

// Restate implements tasks.Queue.
func (q *Queue) Restate(_ context.Context, folderID, epoch int64, now map[uint32]tasks.Stated) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for uid, s := range now {
		r := q.ledger.at[place{folderID, epoch, uid}]
		if r == nil {
			continue
		}
		if s = s.Seconds(); !s.Received.IsZero() {
			r.stated.Received = s.Received
		}
		if s.Size > 0 {
			r.stated.Size = s.Size
		}
	}
	return nil
}

// Register implements tasks.Queue.
func (q *Queue) Register(_ context.Context, page tasks.Page) ([]tasks.Registration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if page.DryRun {
		return q.preview(page), nil
	}
	f, err := q.folderOf(page)
	if err != nil {
		return nil, fmt.Errorf("register a page of folder %d: %w", page.FolderID, err)
	}
	var out []tasks.Registration
	now := q.now()
	for _, p := range q.plan(page) {
		out = append(out, q.register(page, p, now))
	}
	f.lastSeen = max(f.lastSeen, page.Cursor)
	return out, nil
}

// folderOf is the page's folder, unless the page comes too late.
func (q *Queue) folderOf(page tasks.Page) (*folder, error) {
	f := q.folders[page.FolderID]
	if f == nil || f.inboxID != page.InboxID || f.epoch != page.Epoch {
		return nil, tasks.ErrEpochChanged
	}
	if q.inboxes[f.inboxID].scanToken != page.ScanToken {
		return nil, tasks.ErrScanLost
	}
	return f, nil
}

func (q *Queue) plan(page tasks.Page) []tasks.Planned {
	seen := map[uint32]tasks.Seen{}
	var keys []message.Fingerprint
	for _, e := range page.Entries {
		if r := q.ledger.at[place{page.FolderID, page.Epoch, e.UID}]; r != nil {
			seen[e.UID] = q.seen(r)
		}
		keys = append(keys, e.Identity.Fingerprint, e.Outline())
	}
	return tasks.Plan(page, seen, q.alike(keys...))
}

// register carries one plan out.
func (q *Queue) register(page tasks.Page, p tasks.Planned, now time.Time) tasks.Registration {
	reg := tasks.Registration{UID: p.Entry.UID, TaskID: p.TaskID, Fate: p.Fate}
	switch p.Fate {
	case tasks.Moved:
		t := q.tasks[p.TaskID]
		t.Epoch, t.UID, t.UpdatedAt = page.Epoch, p.Entry.UID, now
		if p.Back {
			q.restart(t, now)
			q.event(now, t.ID, "", "requeued", "its message is there again")
		}
	case tasks.New:
		t := q.add(page, p.Entry, now)
		reg.TaskID, reg.Status, reg.Skip = t.ID, t.Status, t.Skip
		if t.CanOffer() {
			task := t.copy()
			reg.Task = &task
		}
	case tasks.Known:
	}
	if p.Note {
		q.see(page, p.Entry, reg.TaskID, p.PurgedAs)
	}
	if p.Read {
		q.ledger.read(reg.TaskID, p.Entry.Outline(), p.Entry.Identity.Fingerprint)
	}
	return reg
}

// see enters a message into the ledger: by its content, or by its outline when it was there before
// the start.
func (q *Queue) see(page tasks.Page, e tasks.Entry, taskID int64, purgedAs string) {
	key := e.Identity.Fingerprint
	if taskID == 0 {
		key = e.Outline()
	}
	q.ledger.note(&row{
		place: place{page.FolderID, page.Epoch, e.UID}, inboxID: page.InboxID,
		taskID: taskID, key: key, stated: e.Stated.Seconds(), purgedAs: purgedAs,
	})
}

// add makes a task. In an inbox that is not active it is not decided yet: it would own recipients
// that others can send to now.
func (q *Queue) add(page tasks.Page, e tasks.Entry, now time.Time) *task {
	in := q.inboxes[page.InboxID]
	q.ids++
	t := &task{arrivals: map[string]arrival{}, Task: tasks.Task{
		ID: q.ids, InboxID: page.InboxID, Inbox: in.address,
		FolderID: page.FolderID, Folder: q.folders[page.FolderID].name, Epoch: page.Epoch, UID: e.UID,
		CreatedAt: now, QueuedAt: now, UpdatedAt: now, Form: tasks.Form{Mode: e.Mode},
	}}
	t.identify(e.Identity, e.Read())
	q.tasks[t.ID] = t
	decision := e.Decision
	if !in.active {
		decision = nil
	}
	if decision != nil {
		t.decide(decision)
		q.own(t, page.Dedupe)
	}
	status, skip, reason, wait := tasks.Begin(decision, t.Deliveries)
	t.Status, t.Skip, t.Reason = status, skip, reason
	switch {
	case status != tasks.Received:
		q.end(t, status, skip, reason, now)
	case wait:
		q.show(t, now.Add(tasks.WaitRecheck))
	default:
		q.show(t, now)
	}
	if decision != nil {
		for _, n := range decision.Notes {
			q.event(now, t.ID, "", n.Event, n.Detail)
		}
	}
	return t
}

// decide records a decision. The recipients are those of the decision alone.
func (t *task) decide(d *tasks.Decision) {
	t.Revision, t.Route, t.Priority, t.Keep = d.Revision, d.Route, d.Priority, d.Keep
	t.Deliveries = tasks.Decided(d)
}

// identify records what message the task is of.
func (t *task) identify(id tasks.Identity, read bool) {
	if !id.Date.IsZero() {
		id.Date = id.Date.UTC().Truncate(time.Microsecond)
	}
	t.Identity, t.Read = id, read
}

// Baseline implements tasks.Queue.
func (q *Queue) Baseline(_ context.Context, page tasks.Page) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, err := q.folderOf(page)
	if err != nil {
		return fmt.Errorf("note what was in folder %d before the start: %w", page.FolderID, err)
	}
	for _, e := range page.Entries {
		if q.ledger.at[place{page.FolderID, page.Epoch, e.UID}] == nil {
			q.see(page, e, 0, "")
		}
	}
	f.baseline = max(f.baseline, page.Cursor)
	return nil
}

// Unreconciled implements tasks.Queue.
func (q *Queue) Unreconciled(_ context.Context, folderID, epoch int64) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.folders[folderID]; f != nil {
		for _, t := range q.inboxes[f.inboxID].live {
			if t.FolderID == folderID && t.Epoch != epoch {
				return true, nil
			}
		}
	}
	return false, nil
}

// preview is Register in a dry run: what it makes is taken back.
func (q *Queue) preview(page tasks.Page) []tasks.Registration {
	once, trail, ids := maps.Clone(q.once), len(q.trail), q.ids
	var out []tasks.Registration
	now := q.now()
	for _, p := range q.plan(page) {
		reg := tasks.Registration{UID: p.Entry.UID, TaskID: p.TaskID, Fate: p.Fate}
		if p.Fate == tasks.New {
			t := q.add(page, p.Entry, now)
			reg.Status, reg.Skip = t.Status, t.Skip
		}
		out = append(out, reg)
	}
	for id := ids + 1; id <= q.ids; id++ {
		delete(q.tasks, id)
		delete(q.inboxes[page.InboxID].live, id)
	}
	q.once, q.trail, q.ids = once, q.trail[:trail], ids
	return out
}
