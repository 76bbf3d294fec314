package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// deliver acts as a mail server for its own users: it puts what the relay accepted for desk@, from
// the nth message on, into the inbox of the desk. It returns how many messages the relay has
// accepted by now.
func (w *world) deliver(n int) int {
	w.t.Helper()
	msgs := w.sink.Messages()
	for _, m := range msgs[n:] {
		if slices.Contains(m.To, desk) {
			w.imap.Append(w.t, desk, "INBOX", m.Data)
		}
	}
	return len(msgs)
}

// TestOwnAddress: the route of an inbox names the inbox itself, and the relay delivers there. There
// is no loop, and the others get the message. With own_address: forward it comes twice at most.
func TestOwnAddress(t *testing.T) {
	tests := []struct {
		name, routes, extra string
		forwarded           int    // of two messages, by the first pass
		to                  string // the recipients of each at the relay
		inInbox             int    // in the end
		skipped             string // the beginning of each reason
		says                string // in task show 1
		check               string // a note of postrider check, empty for none
	}{
		{
			"alone", "  - {name: self, match: {}, to: [Desk@firm.example]}\n", "", 0, "", 2,
			`loop: the only recipient of route "self" is the inbox's own address, Desk@firm.example; `,
			`own_address: forward`, "forwards only to this inbox's own address",
		},
		{
			"beside others", "  - {name: self, match: {}, to: [desk@firm.example, intake@firm.example]}\n",
			"", 2, "[intake@firm.example]", 2,
			"", "left_out", "",
		},
		{
			"wanted by the route", "  - {name: self, match: {}, to: [desk@firm.example], own_address: forward}\n",
			"", 2, "[desk@firm.example]", 4,
			"loop: it was forwarded from this inbox before", "forwarded", "forwards to this inbox's own address",
		},
		{
			"wanted in general", "  - {name: self, match: {}, to: [desk@firm.example, intake@firm.example]}\n",
			"forward", 2, "[desk@firm.example intake@firm.example]", 4,
			"loop: it was forwarded from this inbox before", "forwarded", "forwards to this inbox's own address",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.routes = tt.routes
			t.Setenv("POSTRIDER_FORWARD_OWN_ADDRESS", tt.extra)
			w.configure()
			w.addInbox(desk, "--start", "all")
			msgs := mails(2, "to the desk")
			w.imap.Append(t, desk, "INBOX", msgs...)
			known := 0
			for range 4 { // enough for a loop to show
				w.pass(0)
				known = w.deliver(known)
			}
			if tt.forwarded > 0 {
				w.wantOnce(msgs)
			} else {
				w.wantOnce()
			}
			for _, m := range w.sink.Messages() {
				if got := fmt.Sprint(m.To); got != tt.to {
					t.Errorf("the relay got the recipients %s, want %s", got, tt.to)
				}
			}
			if got := len(w.tasks()); got != tt.inInbox {
				t.Errorf("%d messages came to the inbox, want %d", got, tt.inInbox)
			}
			skipped := w.tasks("--status", "skipped")
			if want := tt.inInbox - tt.forwarded; len(skipped) != want {
				t.Errorf("%d messages are skipped, want %d", len(skipped), want)
			}
			for _, one := range skipped {
				if !strings.HasPrefix(one.Reason, tt.skipped) {
					t.Errorf("task %d is skipped with the reason %q, want %q", one.ID, one.Reason, tt.skipped)
				}
			}
			w.must(0, "task", "show", "1").has(t, tt.says)
			note := "note    inbox " + desk + ": route self "
			got := w.must(0, "check").stdout
			if strings.Contains(got, note) != (tt.check != "") || !strings.Contains(got, tt.check) {
				t.Errorf("check does not print the note %q:\n%s", tt.check, got)
			}
		})
	}
}
