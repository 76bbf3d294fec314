package pass

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// TestRoutesDecideTheSameLater: a message that an operator requeues weeks later is as old as when
// it was registered.
func TestRoutesDecideTheSameLater(t *testing.T) {
	r := newRig(t, nil,
		route.Rule{
			Name: "fresh", Match: route.Match{Age: &route.Age{Under: 24 * time.Hour}, Body: []string{"read me"}},
			Skip: true,
		},
		route.Rule{Name: "rest", To: []string{"team@firm.example"}})
	r.add(inbox.StartAll)
	received := r.clock.Now().Add(-time.Hour).Format(time.RFC1123Z)
	r.put("INBOX", testserver.Mail("a@x.example", address, "x", "Please read me.", "Received: by mx; "+received))
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	task := r.wantTask(tasks.Skipped, `by_route: route "fresh" skips it`)
	r.clock.advance(40 * 24 * time.Hour)
	_, err := r.queue.Requeue(t.Context(), tasks.By{Who: "a person"}, task.ID)
	check(t, err)
	r.want(r.run(), Counters{Skipped: 1})
}

// TestCaptureThatIsNoAddress: the next route gets the message. The log says so, without the words
// of the message.
func TestCaptureThatIsNoAddress(t *testing.T) {
	r := newRig(t, nil,
		route.Rule{
			Name: "who", Match: route.Match{Body: []string{"/attention of (?P<who>[^.]+)/"}},
			To: []string{"${who}@firm.example"},
		},
		route.Rule{Name: "rest", To: []string{"team@firm.example"}})
	r.add(inbox.StartAll)
	msg := testserver.Mail("a@x.example", address, "x", "For the attention of somebody downstairs.")
	r.put("INBOX", msg)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	r.wantArrived([][]byte{msg})
	log := r.log.String()
	if !strings.Contains(log, "could not use what it captured") || strings.Contains(log, "downstairs") {
		t.Errorf("the log is\n%s\nwant that a capture could not be used, and not what it was", log)
	}
	r2 := newRig(t, nil,
		route.Rule{Name: "who", Match: subject("/^(?P<who>.*)/"), To: []string{"${who}@firm.example"}})
	r2.add(inbox.StartAll)
	r2.put("INBOX", testserver.Mail("a@x.example", address, "two words", "x"))
	r2.want(r2.run(), Counters{Registered: 1, SkippedNoMatch: 1})
	r2.wantTask(tasks.SkippedNoMatch, `no route matches; route "who": to[0] ("${who}@firm.example") `+
		`becomes "two words@firm.example", which is not an address`)
}
