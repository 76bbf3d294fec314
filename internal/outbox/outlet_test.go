package outbox

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"
)

// TestFresh: a destination that works and waits gets what happens without anybody looking for it.
// When it fails, what was claimed for it waits like all others.
func TestFresh(t *testing.T) {
	d := newDesk(t)
	d.alone()
	o := d.outlets()[0]
	happen := func(task int64) {
		d.happen(Occurrence{Kind: Dead, TaskID: task})
		d.must(d.Dispatcher.expand(t.Context(), []*outlet{o}))
	}
	publish := func() { d.must(o.publish(t.Context(), t.Context())) }
	happen(1)
	if all := d.all(); all[0].Status != Waiting {
		t.Errorf("it is %+v, want it to wait: nothing is known of the destination", all[0])
	}
	publish()
	happen(2)
	if all := d.all(); all[1].Status != InProgress || all[1].Attempts != 1 {
		t.Errorf("it is %+v, want it claimed", all[1])
	}
	happen(3)
	publish()
	d.want(d.crm, "dead task:1", "dead task:2", "dead task:3")
	d.crm.takes(func(Message) error { return errDown })
	happen(4)
	publish()
	d.crm.takes(nil)
	happen(5)
	o.hand(Expanded{Claims: d.receive("crm")}, time.Now()) // as if it had failed meanwhile
	publish()
	if all := d.all(); all[4].Status != Waiting || all[4].Attempts != 0 {
		t.Errorf("it is %+v, want it to wait, and no attempt counted", all[4])
	}
	d.want(d.crm, "dead task:1", "dead task:2", "dead task:3")
	d.ahead.Add(int64(LongestPause))
	publish()
	slices.Sort(d.crm.got)
	d.want(d.crm, "dead task:1", "dead task:2", "dead task:3", "dead task:4", "dead task:5")
	happen(6)
	o.since = o.since.Add(-2 * time.Minute) // its lease may be over before a batch with it is
	publish()
	if all := d.all(); all[5].Status != Done || all[5].Attempts != 1 {
		t.Errorf("it is %+v, want it claimed again, and one attempt counted", all[5])
	}
	d.wantOnce()
}

// TestFreshBound: what is made at once is claimed at once, up to six hundred events; the rest
// waits.
func TestFreshBound(t *testing.T) {
	d := newDesk(t)
	d.Plan = to("crm")
	o := d.outlet()
	d.must(o.publish(t.Context(), t.Context()))
	os := make([]Occurrence, 700)
	for i := range os {
		os[i] = Occurrence{Kind: Dead, TaskID: int64(i + 1)}
	}
	d.happen(os...)
	d.must(d.Dispatcher.expand(t.Context(), []*outlet{o}))
	claimed := 0
	for _, e := range d.all() {
		if e.Status == InProgress {
			claimed++
		}
	}
	if claimed != 600 {
		t.Errorf("%d of 700 events were claimed as they were made, want 600", claimed)
	}
}

// TestLooks: what this process does not know of is looked for once a second, and what it knows of
// at once.
func TestLooks(t *testing.T) {
	d := newDesk(t)
	d.Plan = to("crm")
	o := d.outlet()
	publish := func() { d.must(o.publish(t.Context(), t.Context())) }
	publish()
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	d.must(d.Dispatcher.expand(t.Context(), nil)) // as another process does
	o.looked = time.Now().Add(time.Hour)
	publish()
	d.want(d.crm)
	o.looked = time.Time{}
	publish()
	d.want(d.crm, "dead task:1")
	o.looked, o.room = time.Now().Add(time.Hour), 1
	d.happen(Occurrence{Kind: Dead, TaskID: 2}, Occurrence{Kind: Dead, TaskID: 3})
	d.must(d.Dispatcher.expand(t.Context(), []*outlet{o})) // it claims one
	publish()
	d.want(d.crm, "dead task:1", "dead task:2", "dead task:3")
}

// TestLane: what was made by others comes at once, one event of a task after the other.
func TestLane(t *testing.T) {
	d := newDesk(t)
	d.Plan = to("crm")
	d.happen(
		Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Forwarded, TaskID: 1},
		Occurrence{Kind: Dead, TaskID: 1},
	)
	d.must(d.Dispatcher.expand(t.Context(), nil))
	o := d.outlet()
	d.must(o.publish(t.Context(), t.Context()))
	d.want(d.crm, "registered task:1", "forwarded task:1", "dead task:1")
}

// TestFollows: what follows an event that was handed over just before a look comes after it.
func TestFollows(t *testing.T) {
	d := newDesk(t)
	d.Plan = to("crm")
	o := d.outlet()
	o.room = 1
	d.happen(Occurrence{Kind: Registered, TaskID: 1}, Occurrence{Kind: Forwarded, TaskID: 1})
	d.must(d.Dispatcher.expand(t.Context(), []*outlet{o}))
	if claims, err := o.due(t.Context()); err != nil || len(claims) > 0 {
		t.Fatalf("due are %v, %v; want none", claims, err)
	}
	d.must(o.publish(t.Context(), t.Context()))
	d.want(d.crm, "registered task:1", "forwarded task:1")
}

// TestLastLook: before it ends, Run publishes what others left, even if it has just looked for
// that.
func TestLastLook(t *testing.T) {
	d := newDesk(t)
	d.Plan, d.Drain = to("crm"), time.Minute
	came, woken, last, done := make(chan struct{}, 2), make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	d.crm.takes(func(Message) error { came <- struct{}{}; return nil })
	go func() {
		defer close(done)
		d.Run(t.Context(), woken, last)
	}()
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	wake(woken)
	<-came
	d.happen(Occurrence{Kind: Dead, TaskID: 2})
	d.must(d.Dispatcher.expand(t.Context(), nil)) // as another process does
	close(last)
	<-done
	d.want(d.crm, "dead task:1", "dead task:2")
}

// TestGivenBack: what was claimed as it was made, and is not handed over before the end, waits like
// all else.
func TestGivenBack(t *testing.T) {
	d := newDesk(t)
	d.Plan, d.Grace = to("crm"), time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	came, woken, done := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	d.crm.takes(func(Message) error {
		close(came)
		<-ctx.Done()
		return nil
	})
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	go func() {
		defer close(done)
		d.Run(ctx, woken, nil)
	}()
	<-came
	d.happen(Occurrence{Kind: Dead, TaskID: 2})
	for wake(woken); len(d.all()) < 2; {
		runtime.Gosched()
	}
	if e := d.all()[1]; e.Status != InProgress {
		t.Errorf("it is %+v, want it claimed", e)
	}
	cancel()
	<-done
	d.want(d.crm, "dead task:1")
	if e := d.all()[1]; e.Status != Waiting || e.Attempts != 0 {
		t.Errorf("it is %+v, want it to wait, and no attempt counted", e)
	}
}

// TestGiveBackFails: what could not be given back is not forgotten.
func TestGiveBackFails(t *testing.T) {
	d := newDesk(t)
	d.Plan = to("crm")
	d.happen(Occurrence{Kind: Dead, TaskID: 1})
	d.must(d.Dispatcher.expand(t.Context(), nil))
	o := d.outlet()
	o.hand(Expanded{Claims: d.receive("crm")}, time.Now())
	rename := func(from, to string) {
		d.must(d.db.Tx(t.Context(), func(tx *gorm.DB) error {
			return tx.Exec("ALTER TABLE " + from + " RENAME TO " + to).Error
		}))
	}
	rename("monitored_outbox", "away")
	if err := o.giveBack(t.Context(), o.close()); err == nil {
		t.Fatal("giving back succeeds without the table")
	}
	rename("away", "monitored_outbox")
	o.hand(Expanded{}, time.Now())
	d.must(o.publish(t.Context(), t.Context()))
	d.want(d.crm, "dead task:1")
	if e := d.all()[0]; e.Status != Done || e.Attempts != 1 {
		t.Errorf("it is %+v, want it given back, claimed again, and one attempt counted", e)
	}
}
