package pass

import (
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// In these tests the first of two equal messages is gone when UIDVALIDITY changes. The one that is
// left is that of the second task.

// TestFirstCopyRefusedInANewEpoch: the second task still has to be sent.
func TestFirstCopyRefusedInANewEpoch(t *testing.T) {
	codes := []int{550, 451}
	var n atomic.Int64
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if i := n.Load(); e.Stage == "rcpt" && int(i) < len(codes) {
			n.Add(1)
			return smtpsink.Action{Code: codes[i]}
		}
		return smtpsink.Action{}
	})
	r.add(inbox.StartAll)
	m := mails(1)
	first := r.put("INBOX", m...)
	r.put("INBOX", m...)
	r.want(r.run(), Counters{Registered: 2, Dead: 1, Retry: 1})
	check(t, r.imap.Expunge(address, "INBOX", first...))
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(m)
}

// TestFirstCopyForNobodyInANewEpoch: a route for it was added since.
func TestFirstCopyForNobodyInANewEpoch(t *testing.T) {
	r := newRig(t, on("rcpt", 1, smtpsink.Action{Code: 451}),
		route.Rule{Name: "other", To: []string{"team@firm.example"}, Match: route.Match{Subject: []string{"nothing"}}})
	r.add(inbox.StartAll)
	m := mails(1)
	first := r.put("INBOX", m...)
	r.want(r.run(), Counters{Registered: 1, SkippedNoMatch: 1})
	r.sendTo("team@firm.example")
	r.put("INBOX", m...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	check(t, r.imap.Expunge(address, "INBOX", first...))
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(m)
}

// TestFirstCopyVanishedInANewEpoch: the second one was forwarded. It does not go out again, neither
// without deduplication, nor to the recipients of rules that changed since.
func TestFirstCopyVanishedInANewEpoch(t *testing.T) {
	for _, c := range []struct {
		dedupe tasks.Dedupe
		to     string
	}{
		{tasks.DedupeOff, "team@firm.example"},
		{tasks.DedupeInbox, "newteam@firm.example"},
	} {
		t.Run(string(c.dedupe), func(t *testing.T) {
			var up atomic.Bool
			r := newRig(t, downUntil(&up))
			r.Config.Dedupe = c.dedupe
			r.add(inbox.StartAll)
			m := mails(1)
			first := r.put("INBOX", m...)
			r.run() // registers; the relay is at fault
			check(t, r.imap.Expunge(address, "INBOX", first...))
			r.put("INBOX", m...)
			up.Store(true)
			r.clock.advance(time.Hour)
			r.want(r.run(), Counters{Registered: 1, Forwarded: 1, Skipped: 1})
			r.sendTo(c.to)
			check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
			r.want(r.run(), Counters{})
			r.wantArrived(m)
		})
	}
}

// sendTo changes the rules: all mail goes to one recipient.
func (r *rig) sendTo(to string) {
	r.t.Helper()
	table, err := route.Compile([]route.Rule{{Name: "all", To: []string{to}}})
	check(r.t, err)
	r.Routes = table
}
