package memqueue

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"postrider/internal/tasks/taskstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueue(t *testing.T) { taskstest.Run(t, fixture) }

// fixture is an empty queue whose clock is ahead by as much time as was said to pass.
func fixture(_ *testing.T) taskstest.Fixture {
	var ahead atomic.Int64
	q := New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	return taskstest.Fixture{
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
