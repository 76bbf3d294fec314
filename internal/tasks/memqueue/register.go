package memqueue

import (
	"context"
	"fmt"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/tasks/ledger"
)

// Unseen implements tasks.Queue.
func (q *Queue) Unseen(_ context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	return q.without(folderID, epoch, uids, func(r *row) bool { return r != nil }), nil
}

// Unregistered implements tasks.Queue.
func (q *Queue) Unregistered(_ context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error) {
	return q.without(folderID, epoch, uids, func(r *row) bool { return r != nil && r.taskID != 0 }), nil
}

func (q *Queue) without(folderID, epoch int64, uids []uint32, disposed func(*row) bool) []uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []uint32
	for _, uid := range uids {
		if !disposed(q.ledger.at[place{folderID, epoch, uid}]) {
			left = append(left, uid)
		}
	}
	return left
}

// Register implements tasks.Queue.
func (q *Queue) Register(_ context.Context, page tasks.Page) ([]tasks.Registration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var fates []ledger.Fate
	if page.DryRun {
		fates = q.fates(page)
	} else {
		f, err := q.open(page)
		if err != nil {
			return nil, fmt.Errorf("register a page of folder %d: %w", page.FolderID, err)
		}
		fates = q.fates(page.In(q.inboxes[f.inboxID].active))
		q.carryOut(page, fates)
		f.lastSeen = max(f.lastSeen, page.Cursor)
	}
	var out []tasks.Registration
	for _, f := range fates {
		out = append(out, f.Registration)
	}
	return out, nil
}

// open is the page's folder, unless the page comes too late.
func (q *Queue) open(page tasks.Page) (*folder, error) {
	f := q.folders[page.FolderID]
	if f == nil || f.inboxID != page.InboxID || f.epoch != page.Epoch {
		return nil, tasks.ErrEpochChanged
	}
	if q.inboxes[f.inboxID].scanToken != page.ScanToken {
		return nil, tasks.ErrScanLost
	}
	return f, nil
}

func (q *Queue) fates(page tasks.Page) []ledger.Fate {
	seen := map[uint32]int64{}
	var keys []message.Fingerprint
	for _, e := range page.Entries {
		if r := q.ledger.at[place{page.FolderID, page.Epoch, e.UID}]; r != nil {
			seen[e.UID] = r.taskID
		}
		keys = append(keys, e.Fingerprint, e.Outline)
	}
	return ledger.Decide(page, seen, q.alike(keys...))
}

// carryOut fills in the ids of new tasks; duplicates come after the messages that they are duplicates of.
func (q *Queue) carryOut(page tasks.Page, fates []ledger.Fate) {
	now := q.now()
	ids := map[uint32]int64{}
	for _, duplicates := range []bool{false, true} {
		for i := range fates {
			f := &fates[i]
			if (f.Fate == tasks.Duplicate) != duplicates {
				continue
			}
			switch f.Fate {
			case tasks.Moved:
				q.move(page, f, now)
			case tasks.Duplicate:
				f.Why = tasks.DuplicateOf(max(f.Of, ids[f.OfUID]))
				f.TaskID = q.add(page, f, now)
			case tasks.New, tasks.SkippedAt:
				f.TaskID = q.add(page, f, now)
			case tasks.Known:
			}
			ids[f.UID] = f.TaskID
		}
	}
	for _, f := range fates {
		if f.Note {
			q.note(page, f.Entry, f.TaskID, f.PurgedAs)
		}
		if f.Read {
			q.ledger.read(f.TaskID, f.Entry.Outline, f.Entry.Fingerprint)
		}
	}
}

// note enters a message into the ledger: by its content, or by its outline when it was there before the start.
func (q *Queue) note(page tasks.Page, e tasks.Entry, taskID int64, purgedAs string) {
	key := e.Fingerprint
	if taskID == 0 {
		key = e.Outline
	}
	q.ledger.note(&row{place: place{page.FolderID, page.Epoch, e.UID}, inboxID: page.InboxID, taskID: taskID, key: key, purgedAs: purgedAs})
}

func (q *Queue) move(page tasks.Page, f *ledger.Fate, now time.Time) {
	t := q.tasks[f.TaskID]
	t.Epoch, t.UID, t.UpdatedAt = page.Epoch, f.UID, now
	if f.Back {
		q.revive(t, now, "its message is there again")
	}
}

// revive lets a task that was skipped go on.
func (q *Queue) revive(t *task, now time.Time, why string) {
	t.forget()
	t.Status, t.Reason, t.QueuedAt, t.UpdatedAt, t.receipt = tasks.Received, "", now, now, ""
	q.show(t, now)
	q.event(now, t.ID, "", "requeued", why)
}

func (q *Queue) add(page tasks.Page, f *ledger.Fate, now time.Time) int64 {
	e := f.Entry
	q.ids++
	t := &task{Task: tasks.Task{
		ID: q.ids, InboxID: page.InboxID, Inbox: q.inboxes[page.InboxID].address, FolderID: page.FolderID, Folder: q.folders[page.FolderID].name,
		Epoch: page.Epoch, UID: e.UID, CreatedAt: now, QueuedAt: now, UpdatedAt: now, Route: e.Route, Form: tasks.Form{Mode: e.Mode}, Priority: e.Priority,
	}}
	t.describe(e)
	q.tasks[t.ID] = t
	if f.Fate == tasks.New {
		t.Status = tasks.Received
		q.show(t, now)
	} else {
		q.end(t, tasks.Skipped, f.Why, now)
	}
	return t.ID
}

// describe says what message the task is of.
func (t *task) describe(e tasks.Entry) {
	t.Fingerprint, t.MessageID, t.Subject, t.Sender, t.Size, t.Date = e.Fingerprint, e.MessageID, e.Subject, e.Sender, e.Size, nil
	if !e.Date.IsZero() {
		date := e.Date.UTC().Truncate(time.Microsecond)
		t.Date = &date
	}
}

// Baseline implements tasks.Queue.
func (q *Queue) Baseline(_ context.Context, page tasks.Page) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, err := q.open(page)
	if err != nil {
		return fmt.Errorf("note what was in folder %d before the start: %w", page.FolderID, err)
	}
	for _, e := range page.Entries {
		if q.ledger.at[place{page.FolderID, page.Epoch, e.UID}] == nil {
			q.note(page, e, 0, "")
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
