package pass

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

const month = 30 * 24 * time.Hour

// TestRetention deletes what was forwarded long ago, and nothing else.
func TestRetention(t *testing.T) {
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && strings.HasPrefix(e.Arg, "gone@") {
			return smtpsink.Action{Code: 550}
		}
		return smtpsink.Action{}
	}, route.Rule{Name: "dead", Match: route.Match{Subject: []string{"message 0"}}, To: []string{"gone@firm.example"}},
		route.Rule{Name: "all", To: []string{"team@firm.example"}})
	r.add(inbox.StartAll)
	r.put("INBOX", mails(3)...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 2, Dead: 1})
	r.clock.advance(2 * month)
	r.put("INBOX", mails(3)[1:]...)
	r.want(r.run(), Counters{Registered: 2, Forwarded: 2})
	if n := len(r.tasks()); n != 5 {
		t.Fatalf("%d tasks are left, want all 5: nothing is deleted unless retention is set", n)
	}
	r.Config.Retention = Retention{Forwarded: month, Events: month}
	r.want(r.run(), Counters{})
	left := r.tasks()
	if len(left) != 3 || left[0].Status != tasks.Dead || left[1].ID != 4 || left[2].ID != 5 {
		t.Errorf("these tasks are left: %+v; want the dead one and the two that were forwarded just now", left)
	}
	if events, err := r.queue.Events(t.Context(), left[0].ID); err != nil || len(events) != 0 {
		t.Errorf("the dead task has these lines in the audit trail: %+v, error %v; "+
			"want none, they are older than a month", events, err)
	}
}

// TestPurgedIsNotForwardedAgain shows each message again in the ways that a server can.
func TestPurgedIsNotForwardedAgain(t *testing.T) {
	r := newRig(t, nil)
	r.Config.Retention = Retention{Forwarded: month, Events: month}
	r.add(inbox.StartAll, "INBOX", "Done")
	check(t, r.imap.CreateFolder(address, "Done"))
	msgs := mails(9)
	uids := r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 9, Forwarded: 9})
	r.clock.advance(2 * month)
	r.want(r.run(), Counters{})
	if left := r.tasks(); len(left) != 0 {
		t.Fatalf("these tasks are left: %+v; want none", left)
	}

	in := r.stored()
	r.rewind(in.Folders[1])
	r.want(r.run(), Counters{})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.want(r.run(), Counters{})
	r.put("Done", msgs[0])
	check(t, r.imap.Expunge(address, "INBOX", uids[0]))
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	r.put("INBOX", msgs[1]) // moved out and back
	check(t, r.imap.Expunge(address, "INBOX", uids[1]))
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	check(t, r.imap.SetUIDValidity(address, "Done", 888))
	r.want(r.run(), Counters{})
	r.wantArrived(msgs)
}

// expiring is a queue that has more to delete than one portion.
type expiring struct {
	tasks.Queue
	tasks, events []int // what the calls delete
	called        func()
	err           error
	down          bool
}

func (q *expiring) Expire(_ context.Context, _ []int64, _ time.Duration, limit int) (int, error) {
	return q.next(&q.tasks, limit)
}

func (q *expiring) ExpireEvents(_ context.Context, _ time.Duration, limit int) (int, error) {
	return q.next(&q.events, limit)
}

func (q *expiring) next(left *[]int, limit int) (int, error) {
	if q.called != nil {
		q.called()
	}
	if q.err != nil || len(*left) == 0 {
		return 0, q.err
	}
	n := (*left)[0]
	*left = (*left)[1:]
	return min(n, limit), nil
}

func (q *expiring) DueOf(ctx context.Context, inboxIDs []int64) (map[int64]int, error) {
	if q.down {
		return nil, errors.New("connection refused")
	}
	return q.Queue.DueOf(ctx, inboxIDs)
}

func TestRetentionInPortions(t *testing.T) {
	tests := []struct {
		name     string
		set      func(r *rig, q *expiring, stop func())
		left     int // calls that were not made
		reported bool
	}{
		{"until less than a portion is deleted", func(*rig, *expiring, func()) {}, 2, false},
		{"unset", func(r *rig, _ *expiring, _ func()) { r.Config.Retention = Retention{} }, 7, false},
		{"tasks alone", func(r *rig, _ *expiring, _ func()) { r.Config.Retention.Events = 0 }, 4, false},
		{"a dry run", func(r *rig, _ *expiring, _ func()) { r.Config.DryRun = true }, 7, false},
		{"a pass that was stopped", func(_ *rig, _ *expiring, stop func()) { stop() }, 7, false},
		{"stopped between two portions", func(_ *rig, q *expiring, stop func()) { q.called = stop }, 6, false},
		{"when the time is up", func(r *rig, q *expiring, _ func()) {
			q.called = func() { r.clock.advance(40 * time.Second) }
		}, 5, false},
		{"another run is at it", func(r *rig, _ *expiring, _ func()) {
			in, err := r.store.Get(r.t.Context(), address)
			check(r.t, err)
			_, _, err = r.store.AcquireScan(r.t.Context(), in.ID, r.Config.Worker+":another", time.Hour)
			check(r.t, err)
		}, 7, false},
		{"an error", func(_ *rig, q *expiring, _ func()) { q.err = errors.New("deadlock") }, 7, false},
		{"a database that is gone", func(_ *rig, q *expiring, _ func()) {
			q.err, q.down = errors.New("connection refused"), true
		}, 7, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			q := &expiring{Queue: r.queue, tasks: []int{500, 500, 499, 1}, events: []int{500, 0, 1}}
			r.Queue = q
			r.Config.Retention = Retention{Forwarded: month, Events: month}
			r.add(inbox.StartAll)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			tt.set(r, q, stop)
			rep := r.runCtx(ctx)
			if left := len(q.tasks) + len(q.events); left != tt.left {
				t.Errorf("tasks %v and events %v were not asked for, want %d of 7 calls not to be made",
					q.tasks, q.events, tt.left)
			}
			if got := rep.Inboxes[0].Error; (got != "") != tt.reported {
				t.Errorf("the inbox's error is %q, want one: %v", got, tt.reported)
			}
			if logged := strings.Contains(r.log.String(), "could be deleted"); logged != (q.err != nil) {
				t.Errorf("it is logged: %v, want %v\n%s", logged, q.err != nil, r.log.String())
			}
		})
	}
}

// TestStoppedWhileDeleting is not a pass that was interrupted: all mail was handled.
func TestStoppedWhileDeleting(t *testing.T) {
	r := newRig(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r.Queue = &expiring{Queue: r.queue, tasks: []int{500, 500}, called: stop}
	r.Config.Retention = Retention{Forwarded: month}
	r.add(inbox.StartAll)
	if rep := r.runCtx(ctx); !rep.Clean() {
		t.Errorf("the pass reports %+v, want it clean", rep)
	}
}

// TestTwoRunsDelete at once, as two hosts do: neither minds what the other has deleted.
func TestTwoRunsDelete(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.put("INBOX", mails(30)...)
	r.want(r.run(), Counters{Registered: 30, Forwarded: 30})
	r.clock.advance(2 * month)
	r.Config.Retention = Retention{Forwarded: month, Events: month}
	boxes, err := r.store.Active(t.Context())
	check(t, err)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			reports := make([]InboxReport, 1)
			r.expire(t.Context(), boxes, reports)
			if reports[0].Error != "" {
				t.Errorf("a run reports %q, want no error", reports[0].Error)
			}
		})
	}
	both.Wait()
	if left := len(r.tasks()); left > 0 || strings.Contains(r.log.String(), "could be deleted") {
		t.Errorf("%d tasks are left, want none, and no warning in the log:\n%s", left, r.log.String())
	}
}
