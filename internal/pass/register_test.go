package pass

import (
	"context"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// blind is the pass of a host whose configuration does not say who gets what.
func (r *rig) blind() *Pass {
	p := *r.Pass
	p.Routes, p.Composer, p.Relay, p.Limits = nil, nil, nil, nil
	p.Config.Senders, p.Config.MaxReceived, p.Config.Policy = 0, 0, tasks.Policy{}
	return &p
}

// register is one run of such a host.
func (r *rig) register() InboxReport {
	r.t.Helper()
	boxes, err := r.store.List(r.t.Context(), true)
	check(r.t, err)
	return r.blind().Register(r.t.Context(), boxes).Inboxes[0]
}

// TestRegister: what is registered without routes waits, and the next pass forwards it as if it had registered it.
func TestRegister(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	old := mails(3)
	r.put("INBOX", old...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	fresh := mails(6) // more than a page
	r.put("INBOX", append(fresh, old[0], fresh[0])...)
	r.want(r.register(), Counters{Registered: 8, Skipped: 1})
	r.want(r.register(), Counters{})
	for _, one := range r.tasks()[3:] {
		if one.Status != tasks.Skipped && (one.Status != tasks.Received || one.Route != "" || one.Attempts != 0) {
			t.Errorf("task %d is %s by route %q after %d attempts, want it received and nothing else", one.ID, one.Status, one.Route, one.Attempts)
		}
	}
	r.wantArrived(old)
	r.want(r.run(), Counters{Forwarded: 6, Skipped: 1}) // the copy turns out to be one
	r.wantArrived(old, fresh)
}

// TestRegisterFirstScan: folders without a cursor stay without one, and those beside them are scanned.
func TestRegisterFirstScan(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartNow)
	r.run()
	check(t, r.imap.CreateFolder(address, "Junk"))
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX", "Junk"}})
	check(t, err)
	r.put("Junk", mails(1)...)
	fresh := mails(1)
	r.put("INBOX", fresh...)
	r.want(r.register(), Counters{Registered: 1})
	in, err := r.store.Get(t.Context(), address)
	check(t, err)
	for _, f := range in.Folders {
		if (f.InitializedAt != nil) != (f.Name == "INBOX") {
			t.Errorf("folder %s was initialised at %v, want INBOX alone initialised", f.Name, f.InitializedAt)
		}
	}
	r.put("Junk", mails(1)...)
	r.want(r.run(), Counters{Forwarded: 1}) // what lies in Junk was there before the start
	r.wantArrived(fresh)
}

// TestRegisterNewEpoch: after a change of UIDVALIDITY what is known is found again, and what was registered without routes goes on.
func TestRegisterNewEpoch(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	old := mails(3)
	r.put("INBOX", old...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	fresh := mails(3)
	r.put("INBOX", fresh...)
	r.want(r.register(), Counters{Registered: 3})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	late := mails(1)
	r.put("INBOX", late...)
	r.want(r.register(), Counters{Registered: 1})
	r.want(r.run(), Counters{Forwarded: 4})
	r.wantArrived(old, fresh, late)
}

// TestRegisterTooLarge: what is too large is skipped, or stays one of which a notice goes out.
func TestRegisterTooLarge(t *testing.T) {
	for name, tt := range map[string]struct {
		notices bool
		blind   Counters
		then    Counters
	}{
		"skipped":  {false, Counters{Registered: 1, Skipped: 1}, Counters{}},
		"a notice": {true, Counters{Registered: 1}, Counters{Forwarded: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			r.run()
			r.Config.Notices, r.Config.MaxSize = tt.notices, 2000
			r.put("INBOX", testserver.Mail("alice@client.example", address, "large", string(make([]byte, 3000))))
			r.want(r.register(), tt.blind)
			r.want(r.run(), tt.then)
			if n := len(r.sink.Messages()); n != tt.then.Forwarded {
				t.Errorf("%d messages arrived, want %d", n, tt.then.Forwarded)
			}
		})
	}
}

// TestRegisterBesideAnother: another host that knows who gets what forwards at once what this one registers; while it scans, this
// one steps aside, and claims nothing.
func TestRegisterBesideAnother(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.run()
	fresh := mails(2)
	r.put("INBOX", fresh...)
	release := r.scannedBy("a:1")
	if rep := r.register(); rep.Busy == "" || rep.Registered != 0 || len(r.tasks()) != 0 {
		t.Errorf("beside another scan it reports %+v, want it to step aside", rep)
	}
	release()
	r.want(r.register(), Counters{Registered: 2})
	release = r.scannedBy("a:1")
	b := r.host("b:1")
	done := b.start()
	r.until("the other host has forwarded it", r.arrived(2))
	release()
	r.ended(done)
	r.wantArrived(fresh)
}

// TestRegisterStopped: stopped between two pages, and again, nothing is registered twice and nothing is passed over.
func TestRegisterStopped(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.run()
	fresh := mails(10)
	r.put("INBOX", fresh...)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		mend := r.behind(func(src Source) Source { return &stopping{Source: src, stop: cancel} })
		boxes, err := r.store.List(t.Context(), true)
		check(t, err)
		r.blind().Register(ctx, boxes)
		cancel()
		mend()
	}
	n := len(r.tasks())
	if n == 0 || n == len(fresh) {
		t.Errorf("%d of %d are registered by runs that were stopped, want some and not all", n, len(fresh))
	}
	r.want(r.register(), Counters{Registered: len(fresh) - n})
	r.want(r.run(), Counters{Forwarded: len(fresh)})
	r.wantArrived(fresh)
}

// stopping ends the pass with the second page that is fetched.
type stopping struct {
	Source
	stop  func()
	pages int
}

func (s *stopping) Bodies(ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (res imapsrc.Result, err error) {
	if s.pages++; s.pages == 2 {
		s.stop()
	}
	return s.Source.Bodies(ctx, uids, each)
}
