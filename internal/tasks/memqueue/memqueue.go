// Package memqueue is the queue of package tasks in memory: for tests, and as the model that the
// other queues are compared with. It implements the whole contract under one mutex.
//
// Its inboxes and folders are its own. The functions that make and change them stand in for package
// inbox, and panic for those that are not there. The clock is the caller's. No call blocks, and
// only Receive checks its context.
package memqueue

import (
	"slices"
	"sync"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Queue implements tasks.Queue.
type Queue struct {
	clock func() time.Time

	mu      sync.Mutex
	ids     int64 // the last one given, of whatever kind
	inboxes map[int64]*inbox
	folders map[int64]*folder
	tasks   map[int64]*task
	once    map[onceKey]int64 // the task that owns it; below 0 when that was purged
	ledger  ledger
	trail   []tasks.Event

	inboxTrail map[int64][]tasks.Event
}

var _ tasks.Queue = (*Queue)(nil)

type inbox struct {
	address   string
	active    bool
	scanToken int64
	live      map[int64]*task // those that have not ended: a claim costs nothing for those that have
}

type folder struct {
	inboxID            int64
	name               string
	epoch              int64
	lastSeen, baseline uint32
}

// task is a task and the receipt of its last claim, which is gone once anything else has changed
// the task.
type task struct {
	tasks.Task
	receipt  string
	arrivals map[string]arrival // by recipient
}

// New returns an empty queue that goes by the given clock.
func New(now func() time.Time) *Queue {
	return &Queue{
		clock: now, inboxes: map[int64]*inbox{}, folders: map[int64]*folder{},
		tasks: map[int64]*task{}, once: map[onceKey]int64{},
		inboxTrail: map[int64][]tasks.Event{},
		ledger:     ledger{at: map[place]*row{}, like: map[message.Fingerprint][]*row{}},
	}
}

// AddInbox makes an active inbox without folders. Its scan token is 0.
func (q *Queue) AddInbox(address string) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ids++
	q.inboxes[q.ids] = &inbox{address: address, active: true, live: map[int64]*task{}}
	return q.ids
}

// AddFolder makes a folder of an inbox, with its cursor at 0.
func (q *Queue) AddFolder(inboxID int64, name string, epoch int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ids++
	q.folders[q.ids] = &folder{inboxID: inboxID, name: name, epoch: epoch}
	return q.ids
}

// SetEpoch begins a new epoch in a folder, with its cursor at 0.
func (q *Queue) SetEpoch(folderID, epoch int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.folders[folderID]
	f.epoch, f.lastSeen, f.baseline = epoch, 0, 0
}

// Cursor returns up to which UID messages of a folder are registered, and up to which those from
// before the start are noted.
func (q *Queue) Cursor(folderID int64) (lastSeen, baseline uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.folders[folderID]
	return f.lastSeen, f.baseline
}

// TakeOver gives the scan of an inbox to the caller: pages with an older token are refused from now
// on.
func (q *Queue) TakeOver(inboxID int64) (token int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inboxes[inboxID].scanToken++
	return q.inboxes[inboxID].scanToken
}

// Enable makes an inbox active again.
func (q *Queue) Enable(inboxID int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inboxes[inboxID].active = true
}

// now is the time as a database would keep it.
func (q *Queue) now() time.Time { return q.clock().UTC().Truncate(time.Microsecond) }

func (q *Queue) event(at time.Time, taskID int64, worker, name, detail string) {
	e := tasks.Event{TaskID: taskID, At: at, Worker: worker, Event: name, Detail: detail}
	q.trail = append(q.trail, e)
}

// note adds a line to the trail of a task, unless it is there already.
func (q *Queue) note(at time.Time, taskID int64, worker string, n tasks.Note) {
	if !slices.ContainsFunc(q.trail, func(e tasks.Event) bool {
		return e.TaskID == taskID && e.Event == n.Event && e.Detail == n.Detail
	}) {
		q.event(at, taskID, worker, n.Event, n.Detail)
	}
}

// show lets a task be claimed from then on.
func (q *Queue) show(t *task, at time.Time) {
	t.VisibleAt, t.FinishedAt = &at, nil
	q.inboxes[t.InboxID].live[t.ID] = t
}

// end ends a task.
func (q *Queue) end(t *task, status tasks.Status, skip tasks.SkipReason, reason string, now time.Time) {
	t.Status, t.Skip, t.Reason = status, skip, reason
	t.VisibleAt, t.FinishedAt, t.UpdatedAt = nil, &now, now
	delete(q.inboxes[t.InboxID].live, t.ID)
}

// restart makes a task received again, to be decided again.
func (q *Queue) restart(t *task, now time.Time) {
	t.Status, t.Skip, t.Reason, t.Revision, t.receipt = tasks.Received, "", "", "", ""
	t.QueuedAt, t.UpdatedAt = now, now
	q.show(t, now)
}

// copy is the task for a caller.
func (t *task) copy() tasks.Task {
	out := t.Task
	out.Deliveries = slices.Clone(t.Deliveries)
	return out
}
