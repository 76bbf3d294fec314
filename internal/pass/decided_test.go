package pass

import (
	"context"
	"errors"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// killedQueue is the queue of a process that is killed before it can record the end of a claim.
type killedQueue struct{ tasks.Queue }

func (killedQueue) Finish(context.Context, tasks.Receipt, tasks.Result) error {
	return errors.New("killed")
}

// bodiless is a source that cannot fetch bodies.
type bodiless struct{ Source }

func (bodiless) Bodies(_ context.Context, uids []uint32, _ eachMessage) (imapsrc.Result, error) {
	res := imapsrc.Result{Failed: map[uint32]error{}}
	for _, uid := range uids {
		res.Failed[uid] = errors.New("not now")
	}
	return res, nil
}

// TestKilledAfterTheDecision: a decision that nobody gets a message was recorded at its claim, and
// the end of the claim was not. The next run ends the task as that decision says.
func TestKilledAfterTheDecision(t *testing.T) {
	nothing := route.Rule{Name: "other", Match: subject("nothing like it"), To: []string{"x@firm.example"}}
	junk := route.Rule{Name: "junk", Skip: true}
	for name, tt := range map[string]struct {
		rule route.Rule
		// unread: it is decided at its claim because it could not be read before, else because the
		// rules have changed.
		unread bool
		want   tasks.Status
	}{
		"no route":             {nothing, false, tasks.SkippedNoMatch},
		"skipped":              {junk, false, tasks.Skipped},
		"no route, read later": {nothing, true, tasks.SkippedNoMatch},
		"skipped, read later":  {junk, true, tasks.Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			if tt.unread {
				r.routes(tt.rule)
				r.put("INBOX", mails(1)...)
				restore := r.behind(func(s Source) Source { return bodiless{s} })
				r.run()
				restore()
			} else {
				r.waiting("INBOX", 1)
				r.routes(tt.rule)
			}
			q := r.Queue
			r.Queue = killedQueue{q}
			r.clock.advance(2 * time.Hour)
			r.run()
			r.Queue = q
			r.clock.advance(time.Hour)
			r.run()
			if got := r.tasks()[0]; got.Status != tt.want || got.Reason == "" {
				t.Errorf("the task is %s (%q), want %s and why", got.Status, got.Reason, tt.want)
			}
			if n := len(r.sink.Messages()); n > 0 {
				t.Errorf("the relay got %d messages, want none", n)
			}
		})
	}
}
