package pass

import (
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

// TestContactsAreFixedAtTheFirstDecision: what the directory says later changes nothing for a message that is under way.
func TestContactsAreFixedAtTheFirstDecision(t *testing.T) {
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
	if len(task.Deliveries) != 1 || task.Deliveries[0].Recipient != "ann@firm.example" {
		t.Errorf("the deliveries are %+v, want one to ann@firm.example", task.Deliveries)
	}
}

// TestContactWithoutAddress ends without a recipient, with the reason.
func TestContactWithoutAddress(t *testing.T) {
	r := newRig(t, nil, toContacts())
	r.Routes = r.Routes.With(route.NewDirectory([]route.Contact{{Name: "Ann"}}))
	r.add(inbox.StartAll)
	r.put("INBOX", testserver.Mail("a@x.example", address, "for ann", "x"))
	r.want(r.run(), Counters{Registered: 1, SkippedNoMatch: 1})
	r.wantTask(tasks.SkippedNoMatch, `no route matches; route "people": contact "Ann" is named in the subject and has no email address`)
}
