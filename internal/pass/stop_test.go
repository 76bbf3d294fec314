package pass

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// TestStopReleases ends the context while the relay holds one message back: that one finishes, the
// rest is released.
func TestStopReleases(t *testing.T) {
	hold := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var once atomic.Bool
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" && once.CompareAndSwap(false, true) {
			cancel()
			time.AfterFunc(50*time.Millisecond, func() { close(hold) })
			return smtpsink.Action{Block: hold}
		}
		return smtpsink.Action{}
	})
	r.Config.Senders = 1
	r.add(inbox.StartAll)
	msgs := mails(12)
	r.put("INBOX", msgs...)
	rep := r.runCtx(ctx)
	if rep.Totals.Forwarded != 1 || !rep.Interrupted || rep.Clean() {
		t.Errorf("the pass reports %+v, want the one on the wire forwarded, and interrupted", rep)
	}
	for _, task := range r.tasks() {
		if task.Status != tasks.Forwarded && (task.Status != tasks.Received || task.Attempts != 0) {
			t.Errorf("task %d is %s with %d attempts, want forwarded, or received without attempts",
				task.ID, task.Status, task.Attempts)
		}
	}
	if rep := r.run(); rep.Error != "" || rep.Counters.Backlog != 0 {
		t.Errorf("the next pass reports %+v", rep)
	}
	r.wantArrived(msgs)
}

// breaking is a queue whose database fails when a delivery is to be marked.
type breaking struct {
	tasks.Queue
	fail atomic.Bool
}

func (q *breaking) Sending(ctx context.Context, c tasks.Claim, as tasks.Form, ds []tasks.Delivery) error {
	if q.fail.Load() {
		return context.DeadlineExceeded
	}
	return q.Queue.Sending(ctx, c, as, ds)
}

// TestNoDotWithoutTheDatabase sends nothing that could not be marked first.
func TestNoDotWithoutTheDatabase(t *testing.T) {
	r := newRig(t, nil)
	q := &breaking{Queue: r.queue}
	q.fail.Store(true)
	r.Queue = q
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs...)
	if rep := r.run(); rep.Error == "" || rep.Counters.Forwarded != 0 {
		t.Errorf("the pass reports %+v, want an error and nothing forwarded", rep)
	}
	r.wantArrived()
	if got := r.wantTask(tasks.Received, ""); got.Attempts != 0 {
		t.Errorf("%d attempts are counted, want none", got.Attempts)
	}
	q.fail.Store(false)
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(msgs)
}
