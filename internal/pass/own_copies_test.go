package pass

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// TestOwnAddressAndCopies: a message is skipped because its inbox already has it. A copy for
// someone else, in another inbox or folder, is then no duplicate of it, whichever is found first,
// and whatever the routes were then.
func TestOwnAddressAndCopies(t *testing.T) {
	const other = "sales@firm.example"
	self := route.Rule{Name: "self", To: []string{address}}
	junk := route.Rule{Name: "junk", Match: route.Match{Folder: []string{"Junk"}}, To: []string{"team@firm.example"}}
	forward, refused := self, self
	forward.OwnAddress = route.ForwardOwnAddress
	refused.To = []string{address, "nobody@firm.example"}
	type place struct{ inbox, folder string }
	desk, bin, sales := place{address, "INBOX"}, place{address, "Junk"}, place{other, "INBOX"}
	const loop, sent = "skipped loop: the only recipient of", "forwarded "
	tests := []struct {
		name   string
		dedupe tasks.Dedupe
		places []place    // where the copies lie, in the order they are found
		before route.Rule // the route while the relay is down; empty when it is up
		rules  []route.Rule
		to     []string // the recipients that the relay gets, each once
		ends   []string // how each copy ends
	}{
		{
			name: "another inbox", dedupe: tasks.DedupeAll, places: []place{desk, sales},
			rules: []route.Rule{self}, to: self.To, ends: []string{loop, sent},
		},
		{
			name: "another inbox, found first", dedupe: tasks.DedupeAll, places: []place{sales, desk},
			rules: []route.Rule{self}, to: self.To, ends: []string{sent, loop},
		},
		{
			name: "another inbox, each its own", dedupe: tasks.DedupeInbox, places: []place{sales, desk},
			rules: []route.Rule{self}, to: self.To, ends: []string{sent, loop},
		},
		{
			name: "another folder", dedupe: tasks.DedupeInbox, places: []place{desk, bin},
			rules: []route.Rule{junk, self}, to: junk.To, ends: []string{loop, sent},
		},
		{
			name: "another folder, found first", dedupe: tasks.DedupeInbox, places: []place{bin, desk},
			rules: []route.Rule{junk, self}, to: junk.To, ends: []string{sent, loop},
		},
		{
			name: "another folder of the same route", dedupe: tasks.DedupeInbox, places: []place{desk, bin},
			rules: []route.Rule{self}, ends: []string{loop, loop},
		},
		{
			name: "it was to be forwarded when it was found", dedupe: tasks.DedupeAll, places: []place{desk, sales},
			before: forward, rules: []route.Rule{self}, to: self.To, ends: []string{loop, sent},
		},
		{
			name: "the others were refused", dedupe: tasks.DedupeAll, places: []place{desk, sales},
			rules: []route.Rule{refused}, to: self.To, ends: []string{"dead ", "dead "},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
				if e.Stage == "rcpt" && e.Arg == "nobody@firm.example" {
					return smtpsink.Action{Code: 550}
				}
				return smtpsink.Action{}
			}, tt.rules...)
			r.Config.Dedupe = tt.dedupe
			check(t, r.imap.CreateFolder(address, "Junk"))
			r.add(inbox.StartAll, "INBOX", "Junk")
			r.addOther(other)
			relay := r.Relay
			if tt.before.Name != "" {
				r.routes(tt.before)
				r.Relay = unreachable{relay}
			}
			msg := mails(1)[0]
			for _, at := range tt.places {
				_, err := r.imap.Append(at.inbox, at.folder, msg)
				check(t, err)
				r.runCtx(t.Context())
			}
			r.Relay = relay
			r.routes(tt.rules...)
			for range 2 { // a copy may have to wait until its own inbox was processed
				r.runCtx(t.Context())
			}
			var to []string
			for _, m := range r.sink.Messages() {
				to = append(to, m.To...)
			}
			if !slices.Equal(to, tt.to) {
				t.Errorf("the relay got the recipients %q, want %q", to, tt.to)
			}
			for i, task := range r.tasks() {
				if got := fmt.Sprintf("%s %s", task.Status, task.Reason); !strings.HasPrefix(got, tt.ends[i]) {
					t.Errorf("copy %d ends as %q, want %q", i+1, got, tt.ends[i])
				}
			}
		})
	}
}
