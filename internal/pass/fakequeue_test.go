package pass

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/memqueue"
)

// errAway is a database that cannot be reached.
var errAway = errors.New("the database is away")

// fakeQueue is a registry in memory whose methods may fail, or block.
type fakeQueue struct {
	*memqueue.Queue

	// hook is called before a method, with its name and the id of the task, or of the inbox when it
	// is for no task. It may block, and what it returns is what happens instead.
	hook func(method string, id int64) error

	mu      sync.Mutex
	claims  []tasks.Claim
	methods []string
}

func (q *fakeQueue) before(method string, id int64) error {
	q.mu.Lock()
	q.methods = append(q.methods, method)
	q.mu.Unlock()
	if q.hook == nil {
		return nil
	}
	return q.hook(method, id)
}

// called is how often a method was called.
func (q *fakeQueue) called(method string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, m := range q.methods {
		if m == method {
			n++
		}
	}
	return n
}

// away is a hook with which the database is away for a method after so many calls.
func (q *fakeQueue) away(method string, after int) func(string, int64) error {
	return func(called string, _ int64) error {
		if called == method && q.called(method) > after {
			return errAway
		}
		return nil
	}
}

// receipts are those that were ever given for a task.
func (q *fakeQueue) receipts(id int64) (out []tasks.Receipt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.claims {
		if c.Task.ID == id {
			out = append(out, c.Receipt)
		}
	}
	return out
}

func (q *fakeQueue) Next(ctx context.Context, want tasks.Want) ([]int64, error) {
	if err := q.before("Next", want.InboxID); err != nil {
		return nil, err
	}
	return q.Queue.Next(ctx, want)
}

func (q *fakeQueue) Extend(
	ctx context.Context, lease time.Duration, receipts []tasks.Receipt,
) ([]tasks.Receipt, error) {
	if err := q.before("Extend", 0); err != nil {
		return nil, err
	}
	return q.Queue.Extend(ctx, lease, receipts)
}

func (q *fakeQueue) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	if err := q.before("Receive", want.InboxID); err != nil {
		return nil, err
	}
	claims, err := q.Queue.Receive(ctx, want)
	q.mu.Lock()
	q.claims = append(q.claims, claims...)
	q.mu.Unlock()
	return claims, err
}

func (q *fakeQueue) Register(ctx context.Context, page tasks.Page) ([]tasks.Registration, error) {
	if err := q.before("Register", page.InboxID); err != nil {
		return nil, err
	}
	return q.Queue.Register(ctx, page)
}

func (q *fakeQueue) Reserve(ctx context.Context, r tasks.Receipt, res tasks.Reservation) ([]tasks.Delivery, error) {
	if err := q.before("Reserve", r.TaskID); err != nil {
		return nil, err
	}
	return q.Queue.Reserve(ctx, r, res)
}

func (q *fakeQueue) Sending(ctx context.Context, c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	if err := q.before("Sending", c.Receipt.TaskID); err != nil {
		return err
	}
	return q.Queue.Sending(ctx, c, as, ds)
}

func (q *fakeQueue) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if err := q.before("Finish", r.TaskID); err != nil {
		return err
	}
	return q.Queue.Finish(ctx, r, res)
}

func (q *fakeQueue) Release(
	ctx context.Context, c tasks.Claim, why string, delay time.Duration, ds []tasks.Delivery,
) error {
	if err := q.before("Release", c.Receipt.TaskID); err != nil {
		return err
	}
	return q.Queue.Release(ctx, c, why, delay, ds)
}

// fakeInboxes are the inboxes of a registry in memory. Each has one folder, INBOX.
type fakeInboxes struct {
	queue *memqueue.Queue

	mu         sync.Mutex
	rows       []inbox.Inbox
	tokens     map[int64]int64 // of the scans that are held, by inbox
	busy       *inbox.Busy     // another run scans all inboxes
	distrusted []int64         // epochs
	finished   []string        // how the scans ended
}

func (f *fakeInboxes) add(addr string) {
	id := f.queue.AddInbox(addr)
	folder := f.queue.AddFolder(id, "INBOX", 7)
	now := time.Now()
	f.rows = append(f.rows, inbox.Inbox{
		ID: id, Address: addr, Host: strings.ToLower(addr), Start: inbox.StartAll, Active: true,
		Folders: []inbox.Folder{{
			ID: folder, InboxID: id, Name: "INBOX", Active: true, UIDValidity: 7, Reconciled: 7, InitializedAt: &now,
		}},
	})
}

// change changes the row of boxA's INBOX.
func (f *fakeInboxes) change(do func(*inbox.Folder)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.rows[0].Folders[0])
}

func (f *fakeInboxes) Get(_ context.Context, address string) (inbox.Inbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.rows {
		if in.Address == address {
			return f.fresh(in), nil
		}
	}
	return inbox.Inbox{}, &inbox.NotFoundError{Address: address}
}

// fresh is an inbox with the cursors of the queue.
func (f *fakeInboxes) fresh(in inbox.Inbox) inbox.Inbox {
	in.Folders = slices.Clone(in.Folders)
	for i := range in.Folders {
		row := &in.Folders[i]
		seen, noted := f.queue.Cursor(row.ID)
		row.LastSeenUID, row.BaselineUID = max(row.LastSeenUID, seen), max(row.BaselineUID, noted)
	}
	return in
}

func (f *fakeInboxes) AcquireScan(
	_ context.Context, id int64, _ string, _ time.Duration,
) (inbox.Lease, *inbox.Busy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy != nil {
		return inbox.Lease{}, f.busy, nil
	}
	if f.tokens == nil {
		f.tokens = map[int64]int64{}
	}
	f.tokens[id] = f.queue.TakeOver(id)
	i := slices.IndexFunc(f.rows, func(in inbox.Inbox) bool { return in.ID == id })
	return inbox.Lease{Inbox: f.fresh(f.rows[i]), Token: f.tokens[id]}, nil, nil
}

// takeOver lets another run take the scan of an inbox over.
func (f *fakeInboxes) takeOver(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens[id] = f.queue.TakeOver(id)
}

func (f *fakeInboxes) held(by inbox.Scan) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tokens[by.InboxID] != by.Token {
		return inbox.ErrScanLost
	}
	return nil
}

func (f *fakeInboxes) RenewScan(_ context.Context, by inbox.Scan, _ time.Duration) error {
	return f.held(by)
}

func (f *fakeInboxes) ReleaseScan(_ context.Context, by inbox.Scan) error { return f.held(by) }

func (f *fakeInboxes) FinishScan(_ context.Context, by inbox.Scan, end inbox.ScanEnd) error {
	if !end.Interrupted {
		f.mu.Lock()
		f.finished = append(f.finished, end.Failure)
		f.mu.Unlock()
	}
	return f.held(by)
}

func (f *fakeInboxes) Initialize(_ context.Context, by inbox.Scan, folderID, epoch int64, startUID uint32) error {
	return f.cursor(by, folderID, func(row *inbox.Folder) error {
		now := time.Now()
		row.UIDValidity, row.Reconciled, row.StartUID, row.LastSeenUID = epoch, epoch, startUID, startUID
		row.InitializedAt = &now
		f.queue.SetEpoch(folderID, epoch)
		return nil
	})
}

func (f *fakeInboxes) ResetEpoch(_ context.Context, by inbox.Scan, folderID, oldEpoch, newEpoch int64) error {
	return f.cursor(by, folderID, func(row *inbox.Folder) error {
		if row.UIDValidity != oldEpoch {
			return inbox.ErrCursorMoved
		}
		row.UIDValidity, row.LastSeenUID, row.StartUID, row.BaselineUID = newEpoch, 0, 0, 0
		f.queue.SetEpoch(folderID, newEpoch)
		return nil
	})
}

func (f *fakeInboxes) Reconciled(_ context.Context, by inbox.Scan, folderID, epoch int64) error {
	return f.cursor(by, folderID, func(row *inbox.Folder) error {
		row.Reconciled = epoch
		return nil
	})
}

func (f *fakeInboxes) cursor(by inbox.Scan, folderID int64, change func(*inbox.Folder) error) error {
	if err := f.held(by); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return change(f.row(folderID))
}

func (f *fakeInboxes) row(folderID int64) *inbox.Folder {
	for i := range f.rows {
		for j := range f.rows[i].Folders {
			if f.rows[i].Folders[j].ID == folderID {
				return &f.rows[i].Folders[j]
			}
		}
	}
	return &inbox.Folder{}
}

func (f *fakeInboxes) KeepAudit(context.Context, int64, inbox.Audit) error { return nil }

func (f *fakeInboxes) Distrust(_ context.Context, folderID, epoch int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.distrusted = append(f.distrusted, epoch)
	if row := f.row(folderID); row.UIDValidity == epoch {
		row.Reconciled = -1
	}
	return nil
}
