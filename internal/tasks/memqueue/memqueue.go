// Package memqueue is the queue of package tasks in the memory of one process: for tests, demos and embedding.
//
// It keeps the whole contract, under one mutex, and forgets everything with the process: the next one would forward
// again what this one has forwarded. Nothing is polled: who waits in Receive is woken by a timer for the next task that
// becomes visible, and by whoever makes one visible.
//
// Its inboxes and folders are its own; the functions that make them stand in for package inbox. The clock is the
// caller's; it has to go on while somebody waits. A context ends the waiting in Receive; nothing else takes long enough.
package memqueue

import (
	"fmt"
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
	news    chan struct{} // closed when a task became visible earlier than those who wait could know
	ids     int64         // the last one given, of whatever kind
	inboxes map[int64]*inbox
	folders map[int64]*folder
	tasks   map[int64]*task
	ledger  ledgerRows
	trail   []tasks.Event
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

// task is a task and the receipt of its last claim, which is gone once anybody else has changed the task.
type task struct {
	tasks.Task
	receipt string
}

// New returns an empty queue that goes by the given clock.
func New(now func() time.Time) *Queue {
	return &Queue{
		clock: now, news: make(chan struct{}),
		inboxes: map[int64]*inbox{}, folders: map[int64]*folder{}, tasks: map[int64]*task{},
		ledger: ledgerRows{at: map[place]*row{}, like: map[message.Fingerprint][]*row{}},
	}
}

// AddInbox makes an inbox without folders, in use. Its scan token is 0.
func (q *Queue) AddInbox(address string) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ids++
	q.inboxes[q.ids] = &inbox{address: address, active: true, live: map[int64]*task{}}
	return q.ids
}

// AddFolder makes a folder of an inbox, with its cursor at 0.
func (q *Queue) AddFolder(inboxID int64, name string, epoch int64) (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inboxes[inboxID] == nil {
		return 0, fmt.Errorf("add folder %s: there is no inbox %d", name, inboxID)
	}
	q.ids++
	q.folders[q.ids] = &folder{inboxID: inboxID, name: name, epoch: epoch}
	return q.ids, nil
}

// SetEpoch begins a new epoch in a folder, with its cursor at 0.
func (q *Queue) SetEpoch(folderID, epoch int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, err := q.folder(folderID)
	if err == nil {
		f.epoch, f.lastSeen, f.baseline = epoch, 0, 0
	}
	return err
}

// Cursor tells up to which UID messages of a folder are registered, and up to which those from before the start are noted.
func (q *Queue) Cursor(folderID int64) (lastSeen, baseline uint32, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, err := q.folder(folderID)
	if err != nil {
		return 0, 0, err
	}
	return f.lastSeen, f.baseline, nil
}

func (q *Queue) folder(id int64) (*folder, error) {
	if f := q.folders[id]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("there is no folder %d", id)
}

// TakeOver gives the scan of an inbox to the caller: pages with an older token are refused from now on.
func (q *Queue) TakeOver(inboxID int64) (token int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.inboxes[inboxID]
	if in == nil {
		return 0, fmt.Errorf("there is no inbox %d", inboxID)
	}
	in.scanToken++
	return in.scanToken, nil
}

// Enable takes an inbox into use again.
func (q *Queue) Enable(inboxID int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.inboxes[inboxID]
	if in == nil {
		return fmt.Errorf("there is no inbox %d", inboxID)
	}
	in.active = true
	q.wake()
	return nil
}

// now is the time as a database would keep it.
func (q *Queue) now() time.Time { return q.clock().UTC().Truncate(time.Microsecond) }

func (q *Queue) event(at time.Time, taskID int64, worker, name, detail string) {
	q.trail = append(q.trail, tasks.Event{TaskID: taskID, At: at, Worker: worker, Event: name, Detail: detail})
}

// show lets a task be claimed from then on, and wakes those who wait for one.
func (q *Queue) show(t *task, at time.Time) {
	t.VisibleAt, t.FinishedAt = &at, nil
	q.inboxes[t.InboxID].live[t.ID] = t
	q.wake()
}

// wake wakes those who wait for a task.
func (q *Queue) wake() {
	close(q.news)
	q.news = make(chan struct{})
}

// end ends a task.
func (q *Queue) end(t *task, status tasks.Status, reason string, now time.Time) {
	t.Status, t.Reason, t.VisibleAt, t.FinishedAt, t.UpdatedAt = status, reason, nil, &now, now
	delete(q.inboxes[t.InboxID].live, t.ID)
}

// copy is the task for somebody outside.
func (t *task) copy() tasks.Task {
	out := t.Task
	out.Deliveries = slices.Clone(t.Deliveries)
	return out
}
