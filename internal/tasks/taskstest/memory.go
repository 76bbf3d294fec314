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
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return Fixture{
		Queue: q, Other: q,
		Inbox: func(_ *testing.T, address string) int64 { return q.AddInbox(address) },
		Folder: func(t *testing.T, inboxID int64, name string, epoch int64) int64 {
			id, err := q.AddFolder(inboxID, name, epoch)
			check(t, err)
			return id
		},
		SetEpoch: func(t *testing.T, folderID, epoch int64) { check(t, q.SetEpoch(folderID, epoch)) },
		Cursor: func(t *testing.T, folderID int64) (uint32, uint32) {
			lastSeen, baseline, err := q.Cursor(folderID)
			check(t, err)
			return lastSeen, baseline
		},
		Age: func(_ *testing.T, d time.Duration) { ahead.Add(int64(d)) },
		TakeOver: func(t *testing.T, inboxID int64) int64 {
			token, err := q.TakeOver(inboxID)
			check(t, err)
			return token
		},
		Enable: func(t *testing.T, inboxID int64) { check(t, q.Enable(inboxID)) },
	}
}
