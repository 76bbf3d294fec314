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

// TestLabelsDecide: routes look at the labels of the inbox, and a message that waits is decided
// again when they change.
func TestLabelsDecide(t *testing.T) {
	for _, tt := range []struct {
		name string
		uses bool // a route looks at labels
		want string
	}{
		{"a route looks at them", true, "umbrella@firm.example"},
		{"no route looks at them", false, "acme@firm.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tenant := route.Match{Label: []string{"tenant=acme"}}
			acme := route.Rule{Name: "acme", Match: tenant, To: []string{"acme@firm.example"}}
			umbrella := []string{"tenant=umbrella"}
			if !tt.uses {
				acme.Match, umbrella = route.Match{}, nil
			}
			later := true
			r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
				if e.Stage == "rcpt" && later {
					return smtpsink.Action{Code: 451, Text: "4.2.0 later"}
				}
				return smtpsink.Action{}
			}, acme,
				route.Rule{
					Name: "umbrella", Match: route.Match{Label: umbrella}, To: []string{"umbrella@firm.example"},
				},
				route.Rule{Name: "rest", To: []string{"rest@firm.example"}})
			r.add(inbox.StartAll)
			label := func(tenant string) {
				_, err := r.store.Set(t.Context(), address, inbox.Changes{Labels: inbox.Labels{"tenant": tenant}})
				check(t, err)
			}
			label("acme")
			r.put("INBOX", testserver.Mail("a@x.example", address, "x", "The body."))
			r.want(r.run(), Counters{Registered: 1, Retry: 1})
			first := r.wantTask(tasks.Error, "")
			if got := first.Deliveries[0].Recipient; got != "acme@firm.example" {
				t.Fatalf("with the label tenant=acme it goes to %s, want acme@firm.example", got)
			}
			label("umbrella")
			later = false
			r.clock.advance(2 * time.Hour)
			r.want(r.run(), Counters{Forwarded: 1})
			second := r.wantTask(tasks.Forwarded, "")
			if got := second.Deliveries[0].Recipient; got != tt.want {
				t.Errorf("after a change of the label it goes to %s, want %s", got, tt.want)
			}
			if changed := first.Revision != second.Revision; changed != tt.uses || len(second.Revision) > 64 {
				t.Errorf("the revision was %s and is %s, of 64 octets; changed: %t, want %t",
					first.Revision, second.Revision, changed, tt.uses)
			}
		})
	}
}
