package pass

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// hook is a server at which something happens before the nth call of a kind. It may have lost all
// messages since.
type hook struct {
	Source
	op    string
	left  *atomic.Int32
	do    func()
	blind bool
}

func (h hook) at(op string) (now bool) {
	if now = op == h.op && h.left.Add(-1) == 0; now {
		h.do()
	}
	return now
}

func (h hook) Select(ctx context.Context, name string) (imapsrc.Folder, error) {
	h.at("select")
	return h.Source.Select(ctx, name)
}

func (h hook) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	h.at("uids")
	return h.Source.UIDs(ctx, from, to)
}

func (h hook) Described(ctx context.Context, from, to uint32) ([]imapsrc.Meta, error) {
	h.at("described")
	return h.Source.Described(ctx, from, to)
}

func (h hook) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	h.at("metadata")
	return h.Source.Metadata(ctx, uids)
}

func (h hook) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	if h.at("bodies") && h.blind {
		return imapsrc.Result{Vanished: uids}, nil
	}
	return h.Source.Bodies(ctx, uids, each)
}

func (r *rig) hook(op string, nth int32, blind bool, do func()) {
	var left atomic.Int32
	left.Store(nth)
	r.behind(func(src Source) Source { return hook{src, op, &left, do, blind} })
}

// idle is a queue in which nothing is ever due.
type idle struct{ tasks.Queue }

func (idle) Next(context.Context, tasks.Want) ([]int64, error) { return nil, nil }

func (idle) Receive(context.Context, tasks.Want) ([]tasks.Claim, error) { return nil, nil }

// TestStaleScan: at the worst moment a run is delayed for longer than its lease, and another host
// takes over. Then the first run goes on: it changes nothing more, and says why.
func TestStaleScan(t *testing.T) {
	for name, c := range map[string]struct {
		start inbox.Start
		first func(r *rig) // before the pass that is delayed
		op    string       // where it is delayed: before the nth of these
		nth   int32
	}{
		"before a folder is initialised": {inbox.StartAll, nil, "select", 1},
		"before a new epoch": {inbox.StartAll, func(r *rig) {
			r.run()
			check(r.t, r.imap.SetUIDValidity(address, "INBOX", 777))
		}, "select", 1},
		"before a page is registered": {inbox.StartAll, nil, "bodies", 2},
		"before the baseline":         {inbox.StartLatest, nil, "metadata", 2},
		"before the stamps":           {inbox.StartAll, func(r *rig) { r.run() }, "described", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(c.start)
			msgs := mails(6)
			r.put("INBOX", msgs...)
			if c.first != nil {
				c.first(r)
			}
			a, b := r.host("a:1"), r.host("b:1")
			a.Queue = idle{a.Queue}
			var taken string
			a.hook(c.op, c.nth, false, func() {
				r.clock.advance(2 * time.Minute)
				if rep := b.run(); rep.Error != "" || rep.Busy != "" {
					t.Errorf("the run that takes over reports %+v", rep)
				}
				r.clock.advance(time.Second)
				taken = r.state()
			})
			rep := a.run()
			if !strings.Contains(rep.Error, "another run took over the inbox") || strings.Count(rep.Error, ";") > 1 {
				t.Errorf("the delayed run reports %+v, want that it was taken over, and no more", rep)
			}
			if now := r.state(); now != taken {
				t.Errorf("the delayed run changed\n%s\ninto\n%s", taken, now)
			}
			if c.start == inbox.StartLatest {
				msgs = msgs[5:]
			}
			r.wantArrived(msgs)
		})
	}
}

// TestStaleEpoch: a run looks for a message in an epoch that has ended meanwhile, and does not find
// it. It does not end the task for that.
func TestStaleEpoch(t *testing.T) {
	newEpoch := func(r *rig) {
		check(r.t, r.imap.SetUIDValidity(address, "INBOX", 777))
	}
	t.Run("scan", func(t *testing.T) {
		r := newRig(t, nil)
		r.Config.Lease = 10 * time.Minute // of claims; the scan's is a minute
		r.add(inbox.StartAll)
		msgs := r.waiting("INBOX", 2)
		a, b := r.host("a:1"), r.host("b:1")
		a.hook("bodies", 1, true, func() {
			r.clock.advance(2 * time.Minute)
			newEpoch(r)
			if rep := b.run(); rep.Error != "" || rep.Busy != "" {
				t.Errorf("the run that takes over reports %+v", rep)
			}
		})
		if rep := a.run(); rep.Counters.Skipped > 0 {
			t.Errorf("the delayed run reports %+v, want nothing skipped", rep)
		}
		r.clock.advance(2 * time.Minute)
		r.run()
		r.wantArrived(msgs)
	})
}
