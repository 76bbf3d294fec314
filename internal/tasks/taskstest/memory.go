package taskstest

import (
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/tasks/memqueue"
)

// InMemory is an empty memqueue whose clock is ahead of now by as much time as was said to pass.
func InMemory(now func() time.Time) Fixture {
	var ahead atomic.Int64
	q := memqueue.New(func() time.Time { return now().Add(time.Duration(ahead.Load())) })
	return Fixture{
		Queue: q, Other: q,
		Inbox: func(_ *testing.T, address string) int64 { return q.AddInbox(address) },
		Folder: func(_ *testing.T, inboxID int64, name string, epoch int64) int64 {
			return q.AddFolder(inboxID, name, epoch)
		},
		SetEpoch: func(_ *testing.T, folderID, epoch int64) { q.SetEpoch(folderID, epoch) },
		Cursor:   func(_ *testing.T, folderID int64) (uint32, uint32) { return q.Cursor(folderID) },
		Age:      func(_ *testing.T, d time.Duration) { ahead.Add(int64(d)) },
		TakeOver: func(_ *testing.T, inboxID int64) int64 { return q.TakeOver(inboxID) },
		Enable:   func(_ *testing.T, inboxID int64) { q.Enable(inboxID) },
	}
}
