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

// host is a run of another host over the same database, with connections of its own.
func (r *rig) host(worker string) *rig {
	r.t.Helper()
	p, other := *r.Pass, *r
	p.Config.Host, p.Config.Worker = worker[:strings.Index(worker, ":")], worker
	other.store, other.queue = r.open(r.clock.Now)
	p.Inboxes, p.Queue, p.Relay = other.store, other.queue, r.relay()
	other.Pass = &p
	return &other
}

// start begins a pass.
func (r *rig) start() <-chan InboxReport { return r.startCtx(r.t.Context()) }

func (r *rig) startCtx(ctx context.Context) <-chan InboxReport {
	r.t.Helper()
	boxes, err := r.store.List(r.t.Context(), true)
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

// until waits for something to come about.
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
	token, busy, err := r.store.AcquireScan(r.t.Context(), in.ID, worker, time.Hour)
	check(r.t, err)
	if busy != nil {
		r.t.Fatalf("the scan is held: %+v", busy)
	}
	return func() { check(r.t, r.store.ReleaseScan(r.t.Context(), in.ID, token)) }
}

// waiting registers messages that nobody has forwarded yet.
func (r *rig) waiting(folder string, n int) [][]byte {
	r.t.Helper()
	msgs := mails(n)
	r.put(folder, msgs...)
	relay := r.Relay
	r.Relay = unreachable{relay}
	if rep := r.run(); rep.Registered != n {
		r.t.Fatalf("%d were registered, want %d", rep.Registered, n)
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

const helping = "helping to work off what is due"

func (r *rig) logs(text string) func() bool {
	return func() bool {
		r.log.mu.Lock()
		defer r.log.mu.Unlock()
		return strings.Contains(r.log.String(), text)
	}
}

func (r *rig) arrived(n int) func() bool {
	return func() bool { return len(r.sink.Messages()) >= n }
}

// TestHelp: what is due is forwarded while another host scans; once the scan is free, this one goes on as a pass.
func TestHelp(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := r.waiting("INBOX", 12)
	release := r.scannedBy("a:1")
	b := r.host("b:1")
	done := b.start()
	r.until("all that was registered has arrived", r.arrived(12))
	fresh := mails(1)
	r.put("INBOX", fresh...)
	if len(done) > 0 {
		t.Errorf("the helper has ended while the other host scans: %+v", <-done)
	}
	if n := len(r.tasks()); n != 12 {
		t.Errorf("%d tasks are registered, want the 12 from before: a helper registers nothing", n)
	}
	release()
	r.want(b.ended(done), Counters{Registered: 1, Forwarded: 13})
	r.wantArrived(msgs, fresh)
	for _, one := range r.tasks() {
		if one.Worker != "b:1" {
			t.Errorf("task %d was worked on by %s, want b:1", one.ID, one.Worker)
		}
	}
	if got, err := r.store.AcquireHelp(t.Context(), inbox.Help{InboxID: 1, Host: "b", Holder: "b:2"}, time.Minute); err != nil || !got {
		t.Errorf("the helper's lease: %v, %v; want it to be free", got, err)
	}
}

// TestHelperTakesOver the scan of a host that died.
func TestHelperTakesOver(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := r.waiting("INBOX", 2)
	r.scannedBy("a:1")
	b := r.host("b:1")
	done := b.start()
	r.until("b helps", r.arrived(2))
	fresh := mails(5)
	r.put("INBOX", fresh...)
	r.clock.advance(2 * time.Hour)
	r.want(b.ended(done), Counters{Registered: 5, Forwarded: 7})
	r.wantArrived(msgs, fresh)
}

func TestOneHelperAHost(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.waiting("INBOX", 1)
	release := r.scannedBy("a:1")
	first, second, other := r.host("b:1"), r.host("b:2"), r.host("c:1")
	done := first.start()
	r.until("the first run helps", r.logs(helping))
	before := r.imap.Connections()
	if rep := second.run(); rep.Busy == "" || rep.Error != "" {
		t.Errorf("the second run of the host reports %+v, want that it stepped aside", rep)
	}
	if now := r.imap.Connections(); now > before {
		t.Errorf("the second run of the host made %d connections, want none", now-before)
	}
	also := other.start()
	r.until("the run of a third host helps", func() bool { return r.imap.Connections() > before })
	release()
	for _, d := range []<-chan InboxReport{done, also} {
		if rep := r.ended(d); rep.Error != "" {
			t.Errorf("a helper reports %+v, want no error", rep)
		}
	}
}

// TestOwnHostScans: there is nothing to help with then, runs would pile up.
func TestOwnHostScans(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.waiting("INBOX", 1)
	release := r.scannedBy("b:1")
	if rep := r.ended(r.host("b:2").start()); !strings.HasPrefix(rep.Busy, "b:1 is") || rep.Counters != (Counters{}) {
		t.Errorf("the pass reports %+v, want that it stepped aside for b:1", rep)
	}
	release()
}

// TestHelpNeedsFoldersInOrder: what needs a scan first is left to it.
func TestHelpNeedsFoldersInOrder(t *testing.T) {
	for name, arrange := range map[string]func(r, b *rig){
		"never scanned": func(r, _ *rig) { r.put("INBOX", mails(1)...) },
		"UIDVALIDITY has changed": func(r, _ *rig) {
			r.waiting("INBOX", 1)
			check(r.t, r.imap.SetUIDValidity(address, "INBOX", 777))
		},
		"UIDNEXT went backwards": func(r, b *rig) {
			r.waiting("INBOX", 5)
			b.behind(func(src Source) Source { return forgetful{src} })
		},
		"tasks have not been found again": func(r, _ *rig) {
			r.waiting("INBOX", 1)
			check(r.t, r.imap.SetUIDValidity(address, "INBOX", 777))
			in, err := r.store.Get(r.t.Context(), address)
			check(r.t, err)
			_, err = r.store.UnderScan(r.t.Context(), in.ID, "a:0", func(by inbox.Scan) error {
				return r.store.ResetEpoch(r.t.Context(), by, in.Folders[0].ID, in.Folders[0].UIDValidity, 1<<32|777)
			})
			check(r.t, err)
		},
		"the server allows no more connections": func(r, b *rig) {
			r.waiting("INBOX", 1)
			b.Dial = func(context.Context, inbox.Inbox) (Source, error) {
				return nil, &imapsrc.Error{Kind: imapsrc.KindLimit, Op: "log in", Err: context.DeadlineExceeded}
			}
		},
		"disabled": func(r, _ *rig) {
			r.waiting("INBOX", 1)
			r.disable()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			b := r.host("b:1")
			boxes, err := b.store.List(t.Context(), true)
			check(t, err)
			arrange(r, b)
			release := r.scannedBy("a:1")
			before := r.state()
			rep := b.Run(t.Context(), boxes).Inboxes[0]
			if !strings.HasPrefix(rep.Busy, "a:1 is working on it") || rep.Error != "" || rep.Counters != (Counters{}) {
				t.Errorf("the pass reports %+v, want that it stepped aside for a:1", rep)
			}
			if after := r.state(); after != before {
				t.Errorf("the helper changed\n%s\ninto\n%s", before, after)
			}
			release()
		})
	}
}

// TestHelperEnds with its relay, its lease, and its context; a dry run does not help at all.
func TestHelperEnds(t *testing.T) {
	setUp := func(t *testing.T) (r, b *rig) {
		r = newRig(t, nil)
		r.add(inbox.StartAll)
		r.waiting("INBOX", 1)
		r.scannedBy("a:1")
		return r, r.host("b:1")
	}
	t.Run("relay", func(t *testing.T) {
		_, b := setUp(t)
		b.Relay = unreachable{b.Relay}
		b.want(b.ended(b.start()), Counters{Retry: 1})
	})
	t.Run("lease", func(t *testing.T) {
		r, b := setUp(t)
		b.Config.Lease = 300 * time.Millisecond
		done := b.start()
		r.until("b helps", r.arrived(1))
		r.clock.advance(30 * time.Minute)
		r.until("another run of b has the lease", func() bool {
			got, err := r.store.AcquireHelp(t.Context(), inbox.Help{InboxID: 1, Host: "b", Holder: "b:2"}, time.Hour)
			check(t, err)
			r.clock.advance(time.Second)
			return got
		})
		if rep := b.ended(done); !strings.Contains(rep.Error, "the lease of this helper ran out") {
			t.Errorf("the pass reports %+v, want that its lease ran out", rep)
		}
	})
	t.Run("context", func(t *testing.T) {
		r, b := setUp(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := b.startCtx(ctx)
		r.until("b helps", r.arrived(1))
		cancel()
		b.want(b.ended(done), Counters{Forwarded: 1})
		if got, err := r.store.AcquireHelp(t.Context(), inbox.Help{InboxID: 1, Host: "b", Holder: "b:2"}, time.Hour); err != nil || !got {
			t.Errorf("the helper's lease: %v, %v; want it to be free", got, err)
		}
	})
	t.Run("dry run", func(t *testing.T) {
		_, b := setUp(t)
		b.Config.DryRun = true
		b.want(b.ended(b.start()), Counters{})
		b.wantArrived()
	})
}

// TestHelpComesLast: an inbox that is free does not wait for one that another host scans.
func TestHelpComesLast(t *testing.T) {
	r := newRig(t, nil)
	r.Config.Inboxes = 1
	r.add(inbox.StartAll)
	r.waiting("INBOX", 1)
	const second = "second@firm.example"
	r.addOther(second)
	_, err := r.imap.Append(second, "INBOX", mails(1)...)
	check(t, err)
	release := r.scannedBy("a:1")
	done := r.host("b:1").start()
	r.until("both have arrived", r.arrived(2))
	release()
	r.ended(done)
	if first := string(r.sink.Messages()[0].Header); !strings.Contains(first, "; task=2\r\n") {
		t.Errorf("the first to arrive is\n%s\nwant task 2, of the inbox that is free", first)
	}
}

// lingering is a run that ends its scan only when it is told to.
type lingering struct {
	Inboxes
	end <-chan struct{}
}

func (l lingering) FinishScan(ctx context.Context, inboxID, token int64, errText string) error {
	<-l.end
	return l.Inboxes.FinishScan(ctx, inboxID, token, errText)
}

// TestHelperLearnsOfFolders that were added while it helps.
func TestHelperLearnsOfFolders(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	check(t, r.imap.CreateFolder(address, "Cases"))
	old := r.waiting("INBOX", 1)
	r.scannedBy("a:1")
	a, b := r.host("a:1"), r.host("b:1")
	helped := b.start()
	r.until("b helps", r.arrived(1))
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX", "Cases"}})
	check(t, err)
	fresh := mails(3)
	r.put("Cases", fresh...)
	end := make(chan struct{})
	a.Relay, a.Inboxes = unreachable{a.Relay}, lingering{a.Inboxes, end}
	scanned := a.start()
	r.until("b has forwarded what a registered", r.arrived(4))
	close(end)
	if rep := r.ended(scanned); rep.Registered != 3 {
		t.Errorf("the scan reports %+v, want 3 registered", rep)
	}
	r.want(r.ended(helped), Counters{Forwarded: 4})
	r.wantArrived(old, fresh)
}
