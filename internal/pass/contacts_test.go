package pass

import (
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

func toContacts() route.Rule {
	return route.Rule{Name: "people", ToContacts: &route.ToContacts{In: []string{"subject", "body"}}}
}

// TestContactsDecideAgain: while no recipient has the message, a changed directory decides again.
func TestContactsDecideAgain(t *testing.T) {
	busy := true
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if busy && e.Stage == "rcpt" {
			return smtpsink.Action{Code: 451, Text: "4.2.0 try again later"}
		}
		return smtpsink.Action{}
	}, toContacts())
	r.Routes = r.Routes.With(route.NewDirectory([]route.Contact{{Name: "Ann", Email: "ann@firm.example"}}))
	r.add(inbox.StartAll)
	r.put("INBOX", testserver.Mail("a@x.example", address, "x", "For Ann and Bert."))
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	busy = false
	r.Routes = r.Routes.With(route.NewDirectory([]route.Contact{{Name: "Bert", Email: "bert@firm.example"}}))
	r.clock.advance(2 * time.Minute)
	r.want(r.run(), Counters{Forwarded: 1})
	task := r.wantTask(tasks.Forwarded, "")
	if len(task.Deliveries) != 1 || task.Deliveries[0].Recipient != "bert@firm.example" {
		t.Errorf("the deliveries are %+v, want one to bert@firm.example", task.Deliveries)
	}
}

// TestContactWithoutAddress ends without a recipient, with the reason.
func TestContactWithoutAddress(t *testing.T) {
	r := newRig(t, nil, toContacts())
	r.Routes = r.Routes.With(route.NewDirectory([]route.Contact{{Name: "Ann"}}))
	r.add(inbox.StartAll)
	r.put("INBOX", testserver.Mail("a@x.example", address, "for ann", "x"))
	r.want(r.run(), Counters{Registered: 1, SkippedNoMatch: 1})
	task := r.wantTask(tasks.SkippedNoMatch,
		`no route matches; route "people": contact "Ann" is named in the subject and has no email address`)
	if task.Keep != tasks.KeepUnreached {
		t.Errorf("the keep reason is %q, want %q", task.Keep, tasks.KeepUnreached)
	}
}

// unreadable is a message whose parts cannot be separated.
func unreadable(text string) []byte {
	return []byte("From: a@x.example\r\nSubject: x\r\nContent-Type: multipart/mixed\r\n\r\n" + text + "\r\n")
}

// TestContactsNotLookedFor: the audit trail says which contacts may be missing, and why.
func TestContactsNotLookedFor(t *testing.T) {
	r := newRig(t, nil, route.Rule{
		Name: "all", To: []string{"desk2@firm.example"}, ToContacts: &route.ToContacts{In: []string{"body"}},
	})
	r.Routes = r.Routes.With(route.NewDirectory([]route.Contact{{Name: "Ann", Email: "ann@firm.example"}}))
	r.add(inbox.StartAll)
	r.put("INBOX", unreadable("for Ann"))
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	want := `not_used: route "all": to_contacts is undecided: it has parts, but no valid boundary between them`
	if got := r.trail(); !slices.Contains(got, want) {
		t.Errorf("the trail says %q, want %q", got, want)
	}
}

// TestUndecided: a message that a route may match, and no other matches, is marked as such: when it
// is registered, and when it is decided at its claim.
func TestUndecided(t *testing.T) {
	word := route.Rule{Name: "word", Match: route.Match{Body: []string{"invoice"}}, To: []string{"team@firm.example"}}
	reason := `no route matches; route "word": body is undecided: it has parts, but no valid boundary between them`
	r := newRig(t, nil, word)
	r.add(inbox.StartAll)
	r.put("INBOX", unreadable("the invoice"))
	r.want(r.run(), Counters{Registered: 1, SkippedNoMatch: 1})
	task := r.wantTask(tasks.SkippedNoMatch, reason)
	_, err := r.queue.Requeue(t.Context(), tasks.By{Who: "a person"}, task.ID)
	check(t, err)
	if task.Keep != tasks.KeepUndecided {
		t.Errorf("the keep reason is %q, want %q", task.Keep, tasks.KeepUndecided)
	}
	r.want(r.run(), Counters{SkippedNoMatch: 1})
	if task := r.wantTask(tasks.SkippedNoMatch, reason); task.Keep != tasks.KeepUndecided {
		t.Errorf("decided at its claim, the keep reason is %q, want %q", task.Keep, tasks.KeepUndecided)
	}
	r2 := newRig(t, nil, word)
	r2.add(inbox.StartAll)
	r2.put("INBOX", testserver.Mail("a@x.example", address, "x", "no such word"))
	r2.want(r2.run(), Counters{Registered: 1, SkippedNoMatch: 1})
	if task := r2.wantTask(tasks.SkippedNoMatch, "no route matches"); task.Keep != "" {
		t.Errorf("of a message that was read the keep reason is %q, want none", task.Keep)
	}
}

// TestUndecidedAndTaken: a message that a route may match, and another one takes, is marked as
// such, and the trail says which route that is: when it is registered, and when it is decided at
// its claim.
func TestUndecidedAndTaken(t *testing.T) {
	r := newRig(t, nil,
		route.Rule{Name: "court", Match: route.Match{Body: []string{"hearing"}}, To: []string{"court@firm.example"}},
		route.Rule{Name: "rest", To: []string{"desk2@firm.example"}})
	r.add(inbox.StartAll)
	r.put("INBOX", unreadable("a hearing"))
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	task := r.wantTask(tasks.Forwarded, "")
	want := `undecided: route "court": body is undecided: it has parts, but no valid boundary between them`
	if trail := r.trail(); task.Keep != tasks.KeepUndecided || !slices.Contains(trail, want) {
		t.Errorf("the keep reason is %q, and the trail says %q; want it undecided, and %q", task.Keep, trail, want)
	}
}

// TestNotUsed: a contact without an address and a capture that makes none are in the audit trail,
// once, of what others get.
func TestNotUsed(t *testing.T) {
	captured := route.Rule{Name: "file", Match: subject(`/ref (?P<file>\S+)/`), To: []string{"${file}"}}
	r := newRig(t, on("rcpt", 1, smtpsink.Action{Code: 450}), captured, toContacts(),
		route.Rule{Name: "all", To: []string{"team@firm.example"}})
	r.Routes = r.Routes.With(route.NewDirectory([]route.Contact{{Name: "Ann"}}))
	r.add(inbox.StartAll)
	r.put("INBOX", testserver.Mail("a@x.example", address, "ref 4711 for ann", "x"))
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Forwarded: 1})
	if task := r.wantTask(tasks.Forwarded, ""); task.Keep != tasks.KeepUnreached {
		t.Errorf("the keep reason is %q, want %q", task.Keep, tasks.KeepUnreached)
	}
	got := slices.DeleteFunc(r.trail(), func(line string) bool { return !strings.HasPrefix(line, "not_used: ") })
	if len(got) != 1 || !strings.Contains(got[0], `"4711"`) || !strings.Contains(got[0], `contact "Ann"`) {
		t.Errorf("the trail says %q of what was not used, want one line with what was captured and the contact\n%q",
			got, r.trail())
	}
}
