package pass

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// host is the pass of another process.
func (r *rig) host(worker string) *rig {
	r.t.Helper()
	p, other := *r.Pass, *r
	p.Config.Worker = worker
	other.store, other.queue = r.open(r.clock.Now)
	p.Inboxes, p.Queue, p.Relay = other.store, other.queue, r.relay()
	other.Pass = &p
	return &other
}

// start begins a pass.
func (r *rig) start() <-chan InboxReport { return r.startCtx(r.t.Context()) }

func (r *rig) startCtx(ctx context.Context) <-chan InboxReport {
	r.t.Helper()
	boxes, err := r.store.Active(r.t.Context())
	check(r.t, err)
	done := make(chan InboxReport, 1)
	go func() { done <- r.Run(ctx, boxes).Inboxes[0] }()
	return done
}

func (r *rig) ended(done <-chan InboxReport) InboxReport {
	r.t.Helper()
	select {
	case rep := <-done:
		return rep
	case <-time.After(30 * time.Second):
		r.t.Fatalf("the pass does not end\n%s", r.log.String())
		return InboxReport{}
	}
}

// until waits until cond holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.After(30 * time.Second); !cond(); {
		select {
		case <-deadline:
			r.t.Fatalf("waited for 30 s in vain until %s\n%s", what, r.log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// scannedBy lets a run hold the scan lease of the inbox until it is released.
func (r *rig) scannedBy(worker string) (release func()) {
	r.t.Helper()
	in, err := r.store.Get(r.t.Context(), address)
	check(r.t, err)
	lease, busy, err := r.store.AcquireScan(r.t.Context(), in.ID, worker, time.Hour)
	check(r.t, err)
	if busy != nil {
		r.t.Fatalf("the scan is held: %+v", busy)
	}
	return func() { check(r.t, r.store.ReleaseScan(r.t.Context(), lease.Scan())) }
}

// waiting registers messages and forwards none.
func (r *rig) waiting(folder string, n int) [][]byte {
	r.t.Helper()
	msgs := mails(n)
	r.put(folder, msgs...)
	relay := r.Relay
	r.Relay = unreachable{relay}
	if rep := r.run(); rep.Counters.Registered != n {
		r.t.Fatalf("%d were registered, want %d", rep.Counters.Registered, n)
	}
	r.Relay = relay
	return msgs
}

// state is everything that a pass may change.
func (r *rig) state() string {
	r.t.Helper()
	in, err := r.store.Get(r.t.Context(), address)
	check(r.t, err)
	return fmt.Sprintf("%+v\n%+v", in, r.tasks())
}

// TestBusyScan: while another run holds the scan lease, this one delivers what is due, and
// registers nothing.
func TestBusyScan(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := r.waiting("INBOX", 6)
	release := r.scannedBy("a:1")
	b := r.host("b:1")
	r.put("INBOX", mails(1)...)
	rep := b.run()
	b.want(rep, Counters{Forwarded: 6})
	if !strings.HasPrefix(rep.Busy, "a:1 scans it") {
		t.Errorf("the pass reports %+v, want that a:1 scans the inbox", rep)
	}
	r.wantArrived(msgs)
	for _, one := range r.tasks() {
		if one.Worker != "b:1" {
			t.Errorf("task %d was sent by %s, want b:1", one.ID, one.Worker)
		}
	}
	release()
	b.want(b.run(), Counters{Registered: 1, Forwarded: 1})
}

// TestBusyScanNothingDue: a run that has nothing to do makes no connection.
func TestBusyScanNothingDue(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.run()
	r.put("INBOX", mails(1)...)
	release := r.scannedBy("a:1")
	before, state := r.imap.Connections(), r.state()
	r.want(r.host("b:1").run(), Counters{})
	if now := r.imap.Connections(); now != before || r.state() != state {
		t.Errorf("%d connections were made, and the state is\n%s\nwant none, and\n%s", now-before, r.state(), state)
	}
	release()
}

// TestBusyScanLimitedServer: that the server takes no second connection is not an error: the other
// run has one.
func TestBusyScanLimitedServer(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := r.waiting("INBOX", 1)
	release := r.scannedBy("a:1")
	b := r.host("b:1")
	b.Dial = func(context.Context, inbox.Inbox) (Source, error) {
		return nil, &imapsrc.Error{Kind: imapsrc.KindLimit, Op: "log in", Err: context.DeadlineExceeded}
	}
	if rep := b.run(); rep.Error != "" {
		t.Errorf("the pass reports %+v, want no error", rep)
	}
	release()
	r.run()
	r.wantArrived(msgs)
}

// TestBusyScanNewEpoch: what may still find its message again does not vanish.
func TestBusyScanNewEpoch(t *testing.T) {
	for name, arrange := range map[string]func(r *rig){
		"not seen by a scan": func(*rig) {},
		"a scan compares": func(r *rig) {
			f := r.stored().Folders[0]
			_, err := r.store.UnderScan(r.t.Context(), f.InboxID, "a:0", func(by inbox.Scan) error {
				return r.store.ResetEpoch(r.t.Context(), by, f.ID, f.UIDValidity, 1<<32|777)
			})
			check(r.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			msgs := r.waiting("INBOX", 2)
			check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
			arrange(r)
			release := r.scannedBy("a:1")
			if rep := r.host("b:1").run(); rep.Error != "" || rep.Counters.Skipped > 0 || rep.Counters.Forwarded > 0 {
				t.Errorf("the pass reports %+v, want nothing skipped or forwarded", rep)
			}
			release()
			r.clock.advance(2 * time.Minute)
			r.want(r.run(), Counters{Forwarded: 2})
			r.wantArrived(msgs)
		})
	}
}
