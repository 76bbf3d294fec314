package after

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// twoInboxes is an outbox with an action in each of the inboxes 1 and 2. The database takes long to
// answer about the first.
type twoInboxes struct {
	*rig
	answer chan struct{}
	asked  chan int64
	ended  chan int64 // inboxes whose action has ended
	done   map[int64]bool
}

func (o *twoInboxes) InboxesDue(context.Context, string) ([]int64, error) { return []int64{1, 2}, nil }

func (o *twoInboxes) Receive(_ context.Context, want outbox.Want) ([]outbox.Claim, error) {
	o.asked <- want.InboxID
	if want.InboxID == 1 {
		<-o.answer
		return nil, nil
	}
	if o.done[want.InboxID] {
		return nil, nil
	}
	o.done[want.InboxID] = true
	return []outbox.Claim{{Entry: outbox.Entry{ID: 1, InboxID: want.InboxID, TaskID: 9, Action: "seen"}}}, nil
}

func (o *twoInboxes) Finish(_ context.Context, outcomes ...outbox.Outcome) ([]outbox.Claim, error) {
	for _, one := range outcomes {
		o.ended <- one.Claim.InboxID
	}
	return nil, nil
}

// workerFor works on inboxes.
func workerFor(o Outbox, boxes []inbox.Inbox) *Worker {
	return &Worker{
		Outbox: o, Lease: time.Minute, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Inbox: func(_ context.Context, address string) (inbox.Inbox, error) {
			return boxes[slices.IndexFunc(boxes, func(in inbox.Inbox) bool { return in.Address == address })], nil
		},
		Inboxes: func(context.Context) ([]inbox.Inbox, error) { return boxes, nil },
	}
}

// TestBusyInbox: an inbox whose actions take long holds up no other, and is not worked on twice.
func TestBusyInbox(t *testing.T) {
	o := &twoInboxes{
		rig:    &rig{t: t, due: map[int64]time.Duration{}},
		answer: make(chan struct{}),
		asked:  make(chan int64, 9),
		ended:  make(chan int64, 9),
		done:   map[int64]bool{},
	}
	boxes := []inbox.Inbox{
		{ID: 1, Address: "a@firm.example", Active: true},
		{ID: 2, Address: "b@firm.example", Active: true},
	}
	w := workerFor(o, boxes)
	w.Registry, w.Wants = o, func(outbox.Kind, string, string) (time.Duration, bool) { return 0, true }
	check(t, w.Begin(t.Context()))
	if id := <-o.ended; id != 2 {
		t.Errorf("the action of inbox %d has ended, want that of inbox 2", id)
	}
	check(t, w.Begin(t.Context()))
	close(o.answer)
	check(t, w.Wait())
	close(o.asked)
	times := 0
	for id := range o.asked {
		if id == 1 {
			times++
		}
	}
	if times != 1 {
		t.Errorf("inbox 1 was worked on %d times, want once", times)
	}
}

// manyInboxes is an outbox with something due in many inboxes. The database does not answer about
// any of them.
type manyInboxes struct {
	*rig
	due    []int64
	answer chan struct{}
	asked  atomic.Int32
}

func (o *manyInboxes) InboxesDue(context.Context, string) ([]int64, error) { return o.due, nil }

func (o *manyInboxes) Receive(context.Context, outbox.Want) ([]outbox.Claim, error) {
	o.asked.Add(1)
	<-o.answer
	return nil, nil
}

// TestInboxesAtOnce: eight inboxes are worked on at the same time, and the others after them.
func TestInboxesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &manyInboxes{answer: make(chan struct{})}
		var boxes []inbox.Inbox
		for id := range int64(20) {
			o.due = append(o.due, id+1)
			boxes = append(boxes, inbox.Inbox{ID: id + 1, Address: fmt.Sprint(id), Active: true})
		}
		w := workerFor(o, boxes)
		check(t, w.Begin(t.Context()))
		synctest.Wait()
		if n := o.asked.Load(); n != 8 {
			t.Errorf("%d of 20 inboxes are worked on at the same time, want 8", n)
		}
		close(o.answer)
		check(t, w.Wait())
		if n := o.asked.Load(); n != 20 {
			t.Errorf("%d of 20 inboxes were worked on in the end, want all", n)
		}
	})
}

// TestArrived: each recipient has the message, from whichever task.
func TestArrived(t *testing.T) {
	has := func(to string) tasks.Delivery { return tasks.Delivery{Recipient: to, Status: tasks.Delivered} }
	copied := func(to string, of int64) tasks.Delivery {
		return tasks.Delivery{Recipient: to, Status: tasks.Duplicated, DuplicateOf: of}
	}
	y := func(s tasks.DeliveryStatus) tasks.Delivery {
		return tasks.Delivery{Recipient: "y@firm.example", Status: s}
	}
	known := map[int64]tasks.Task{
		5: {ID: 5, Deliveries: []tasks.Delivery{has("x@FIRM.example"), y(tasks.Failed)}},
	}
	for _, c := range []struct {
		name string
		ds   []tasks.Delivery
		want bool
	}{
		{"delivered", []tasks.Delivery{has("x@firm.example")}, true},
		{"by another task", []tasks.Delivery{copied("x@firm.example", 5)}, true},
		{"by a task that is purged", []tasks.Delivery{has("z@firm.example"), copied("x@firm.example", 4)}, false},
		{"by a task that failed", []tasks.Delivery{copied("y@firm.example", 5)}, false},
		{"by half", []tasks.Delivery{has("x@firm.example"), y(tasks.Pending)}, false},
	} {
		if got := arrived(tasks.Task{Deliveries: c.ds}, known); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestKeeps: what is known of a task keeps its message from being moved, and from being deleted.
func TestKeeps(t *testing.T) {
	for _, c := range []struct {
		name                 string
		task                 tasks.Task
		fromMove, fromDelete bool
	}{
		{"nothing", tasks.Task{}, false, false},
		{"a notice", tasks.Task{Form: tasks.Form{Mode: "notice"}}, true, true},
		{"a route may match", tasks.Task{Keep: tasks.KeepUndecided}, true, true},
		{"somebody without an address", tasks.Task{Keep: tasks.KeepUnreached}, true, true},
		{"the inbox's own copy", tasks.Task{Keep: tasks.KeepOwnCopy}, false, true},
	} {
		fromMove, fromDelete := keeps(c.task, false) != "", keeps(c.task, true) != ""
		if fromMove != c.fromMove || fromDelete != c.fromDelete {
			t.Errorf("%s: kept from a move %t, from a deletion %t; want %t, %t",
				c.name, fromMove, fromDelete, c.fromMove, c.fromDelete)
		}
	}
}
