package pass

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// dying is a queue whose process is killed after the relay accepted a message, before that is
// recorded.
type dying struct {
	tasks.Queue
	killed atomic.Bool
}

func (q *dying) Finish(ctx context.Context, r tasks.Receipt, res tasks.Result) error {
	if q.killed.CompareAndSwap(false, true) {
		return errors.New("killed")
	}
	return q.Queue.Finish(ctx, r, res)
}

// killedWhileSending is a rig whose first pass was killed that way, with n messages in flight, and
// whose claims have expired.
func killedWhileSending(t *testing.T, msgs [][]byte, rules ...route.Rule) (*rig, []uint32) {
	t.Helper()
	r := newRig(t, nil, rules...)
	r.Queue = &dying{Queue: r.queue}
	r.add(inbox.StartAll)
	uids := r.put("INBOX", msgs...)
	r.run()
	r.wantArrived(msgs)
	if got := r.wantTask(tasks.InProgress, ""); got.Deliveries[0].Status != tasks.Sending {
		t.Fatalf("the deliveries are %+v, want them to be sending", got.Deliveries)
	}
	r.Config.Worker += ":the next"
	r.clock.advance(2 * time.Minute)
	return r, uids
}

func rules(to string, uncertain ...route.Uncertain) []route.Rule {
	var out []route.Rule
	for i, u := range uncertain {
		out = append(out, route.Rule{Name: fmt.Sprint("route", i), To: []string{to}, Continue: true, Uncertain: u})
	}
	return out
}

// TestUncertainByRoute: the next pass decides by the task's routes, as they are now.
func TestUncertainByRoute(t *testing.T) {
	const to = "team@firm.example"
	tests := []struct {
		name    string
		general bool // hold
		rules   []route.Rule
		current []route.Rule // nil: the same
		held    bool
	}{
		{"hold in general", true, rules(to, ""), nil, true},
		{"retry in general", false, rules(to, ""), nil, false},
		{"the route holds", false, rules(to, route.Hold), nil, true},
		{"the route retries", true, rules(to, route.Retry), nil, false},
		{"one of its routes holds", false, rules(to, route.Retry, "", route.Hold), nil, true},
		{"the route holds by now", false, rules(to, ""), rules(to, route.Hold), true},
		{"the route that held is gone", false, rules(to, "", route.Hold), rules(to, ""), false},
		{"the route that retried is gone", true, rules(to, "", route.Retry), rules(to, route.Retry), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			msgs := mails(1)
			r, _ := killedWhileSending(t, msgs, tt.rules...)
			r.Config.Policy.Hold = tt.general
			if tt.current != nil {
				table, err := route.Compile(tt.current)
				check(t, err)
				r.Routes = table
			}
			if tt.held {
				r.want(r.run(), Counters{Uncertain: 1})
				r.want(r.run(), Counters{})
				r.wantTask(tasks.Uncertain, "the outcome is not known: "+to)
				r.wantArrived(msgs)
				return
			}
			r.want(r.run(), Counters{Forwarded: 1})
			r.wantSameTwice()
		})
	}
}

// wantSameTwice: two copies arrived, and a receiver can tell that they are one message.
func (r *rig) wantSameTwice() {
	r.t.Helper()
	got := r.sink.Messages()
	if len(got) != 2 {
		r.t.Fatalf("%d copies arrived, want 2", len(got))
	}
	a, b := got[0], got[1]
	if !bytes.Equal(a.Data, b.Data) || !bytes.HasPrefix(a.Data, []byte("X-Postrider-Trace: ")) {
		r.t.Errorf("the first copy is\n%s\nthe second is\n%s\n"+
			"want both the same octet for octet, with the trace field on top", a.Data, b.Data)
	}
	if a.From != b.From || !slices.Equal(a.To, b.To) || !slices.Equal(a.Params, b.Params) {
		r.t.Errorf("the envelopes are %q %q %q and %q %q %q, want the same",
			a.From, a.To, a.Params, b.From, b.To, b.Params)
	}
}

// TestUncertainMessageIsGone: an operator decides whether it arrived, also when it can no longer be
// read.
func TestUncertainMessageIsGone(t *testing.T) {
	for policy, want := range map[route.Uncertain]string{
		route.Hold:  "the outcome is not known",
		route.Retry: "it may have arrived, and cannot be sent again",
	} {
		t.Run(string(policy), func(t *testing.T) {
			msgs := mails(1)
			r, uids := killedWhileSending(t, msgs, rules("team@firm.example", policy)...)
			check(t, r.imap.Expunge(address, "INBOX", uids...))
			r.want(r.run(), Counters{Uncertain: 1})
			r.wantTask(tasks.Uncertain, want)
			r.wantArrived(msgs)
		})
	}
}

// mixedFates sends a message to three recipients. The first has it, the second was deferred, and it
// is unknown whether the third has it.
func mixedFates(t *testing.T, uncertain route.Uncertain) *rig {
	t.Helper()
	var refused, drops atomic.Int64
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		switch {
		case e.Stage == "rcpt" && strings.HasPrefix(e.Arg, "second@") && refused.Add(1) <= 2:
			return smtpsink.Action{Code: 451}
		case e.Stage == "rcpt" && strings.HasPrefix(e.Arg, "third@") && refused.Load() <= 1:
			return smtpsink.Action{Code: 451}
		case e.Stage == "dot" && slices.Contains(e.Message.To, "third@firm.example") && drops.Add(1) <= 1:
			return smtpsink.Action{AcceptAndDrop: true}
		}
		return smtpsink.Action{}
	}, route.Rule{
		Name: "three", To: []string{"first@firm.example", "second@firm.example", "third@firm.example"},
		Uncertain: uncertain,
	})
	r.Config.Policy.Hold = uncertain == route.Retry // the route overrides it
	r.add(inbox.StartAll)
	r.put("INBOX", mails(1)...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.clock.advance(time.Hour)
	if rep := r.run(); rep.Counters.Retry+rep.Counters.Uncertain != 1 {
		t.Fatalf("the pass reports %+v, want the task to be left", rep)
	}
	r.wantDeliveries(tasks.Delivered, tasks.Pending, tasks.Sending)
	r.clock.advance(time.Hour)
	return r
}

func (r *rig) wantDeliveries(want ...tasks.DeliveryStatus) {
	r.t.Helper()
	var got []tasks.DeliveryStatus
	for _, d := range r.tasks()[0].Deliveries {
		got = append(got, d.Status)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("the deliveries are %q, want %q", got, want)
	}
}

// wantCopies checks how many copies each recipient got.
func (r *rig) wantCopies(first, second, third int) {
	r.t.Helper()
	got := map[string]int{}
	for _, m := range r.sink.Messages() {
		for _, to := range m.To {
			got[strings.TrimSuffix(to, "@firm.example")]++
		}
	}
	want := map[string]int{"first": first, "second": second, "third": third}
	for name, n := range want {
		if n == 0 {
			delete(want, name)
		}
	}
	if !reflect.DeepEqual(got, want) {
		r.t.Errorf("copies that arrived: %v, want %v", got, want)
	}
}

// TestRecipientsThatHaveItAreNotSentToAgain, whatever happens to the others.
func TestRecipientsThatHaveItAreNotSentToAgain(t *testing.T) {
	t.Run("retry", func(t *testing.T) {
		r := mixedFates(t, route.Retry)
		r.want(r.run(), Counters{Forwarded: 1})
		r.wantDeliveries(tasks.Delivered, tasks.Delivered, tasks.Delivered)
		r.wantCopies(1, 1, 2) // the third was unknown
	})
	t.Run("hold", func(t *testing.T) {
		r := mixedFates(t, route.Hold)
		r.want(r.run(), Counters{})
		r.wantTask(tasks.Uncertain, "third@firm.example")
		r.wantCopies(1, 0, 1)
	})
	t.Run("hold, it arrived", func(t *testing.T) {
		r := mixedFates(t, route.Hold)
		n, err := r.queue.Resolve(t.Context(), tasks.By{Who: "ann"}, r.tasks()[0].ID)
		if err != nil || n != 1 {
			t.Fatalf("Resolve = %d, %v; want one task", n, err)
		}
		r.wantDeliveries(tasks.Delivered, tasks.Pending, tasks.Delivered)
		r.want(r.run(), Counters{Forwarded: 1})
		r.wantDeliveries(tasks.Delivered, tasks.Delivered, tasks.Delivered)
		r.wantCopies(1, 1, 1)
	})
	t.Run("hold, send again", func(t *testing.T) {
		r := mixedFates(t, route.Hold)
		n, err := r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, r.tasks()[0].ID)
		if err != nil || n != 1 {
			t.Fatalf("Requeue = %d, %v; want one task", n, err)
		}
		r.wantDeliveries(tasks.Delivered, tasks.Pending, tasks.Pending)
		r.want(r.run(), Counters{Forwarded: 1})
		r.wantCopies(1, 1, 2)
	})
	t.Run("retry, killed while sending to the others", func(t *testing.T) {
		r := mixedFates(t, route.Retry)
		r.Queue = &dying{Queue: r.queue}
		r.run()
		r.wantDeliveries(tasks.Delivered, tasks.Sending, tasks.Sending)
		r.clock.advance(2 * time.Minute)
		r.want(r.run(), Counters{Forwarded: 1})
		r.wantCopies(1, 2, 3)
	})
}

// TestGivenUpInDoubt: a message that is sent again and again with an unknown outcome ends
// uncertain. A copy waits until an operator decides.
func TestGivenUpInDoubt(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" && !up.Load() {
			return smtpsink.Action{Drop: true}
		}
		return smtpsink.Action{}
	}, rules("team@firm.example", route.Retry)...)
	r.Config.Policy.MaxAttempts = 2
	check(t, r.imap.CreateFolder(address, "Copies"))
	r.add(inbox.StartAll, "INBOX", "Copies")
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Uncertain: 1})
	up.Store(true)
	r.put("Copies", msgs...)
	r.want(r.run(), Counters{Registered: 1})
	owner := r.tasks()[0]
	const givenUp = "given up after 2 attempts in 1h0m0s: the outcome is not known: team@firm.example"
	if !strings.Contains(owner.Reason, givenUp) {
		t.Errorf("the reason is %q; want how often it was tried, and who may have it", owner.Reason)
	}
	if n, err := r.queue.Purge(t.Context(), tasks.By{Who: "ann"}, owner.ID); n != 0 || err != nil {
		t.Errorf("Purge = %d, %v; want the task to stay", n, err)
	}
	n, err := r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, owner.ID) // task resolve --retry
	if n != 1 || err != nil {
		t.Fatalf("Requeue = %d, %v; want one task", n, err)
	}
	r.want(r.run(), Counters{Forwarded: 1, Skipped: 1})
	r.wantArrived(msgs)
}

// TestRetriedInDoubtAndGone: an operator retries a message with an unknown outcome, and the message
// is no longer there. It never counts as settled.
func TestRetriedInDoubtAndGone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		copied bool // a copy lies in another folder
		status tasks.Status
		reason string
	}{
		{"gone", false, tasks.Dead, "it is unknown who has it: third@firm.example"},
		{"gone, and a copy is there", true, tasks.Dead, "it is unknown who has it: third@firm.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var up atomic.Bool
			r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
				if e.Stage == "dot" && !up.Load() {
					return smtpsink.Action{AcceptAndDrop: true}
				}
				return smtpsink.Action{}
			}, route.Rule{Name: "one", To: []string{"third@firm.example"}, Uncertain: route.Hold})
			r.add(inbox.StartAll, "INBOX", "Copies")
			check(t, r.imap.CreateFolder(address, "Copies"))
			msgs := mails(1)
			uids := r.put("INBOX", msgs...)
			r.want(r.run(), Counters{Registered: 1, Uncertain: 1})
			if tt.copied {
				r.put("Copies", msgs...)
				r.want(r.run(), Counters{Registered: 1}) // it waits for the other task
			}
			_, err := r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, r.tasks()[0].ID)
			check(t, err)
			check(t, r.imap.Expunge(address, "INBOX", uids...))
			up.Store(true)
			r.clock.advance(time.Hour)
			_, err = r.queue.ExpireEvents(t.Context(), time.Minute, 1000) // the operator took too long
			check(t, err)
			want := Counters{Dead: 1}
			if tt.copied {
				want.Forwarded = 1
			}
			r.want(r.run(), want)
			if got := r.tasks()[0]; got.Status != tt.status || !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("the task is %s (%s), want %s with %q", got.Status, got.Reason, tt.status, tt.reason)
			}
		})
	}
}

// TestRefusedForNowAfterAnUnknownOutcome: what an earlier attempt may have delivered stays unknown.
// So it waits for an operator once the message is gone.
func TestRefusedForNowAfterAnUnknownOutcome(t *testing.T) {
	var tried atomic.Int64
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		switch {
		case e.Stage == "rcpt" && tried.Add(1) == 2:
			return smtpsink.Action{Code: 451}
		case e.Stage == "dot":
			return smtpsink.Action{AcceptAndDrop: true}
		}
		return smtpsink.Action{}
	})
	r.add(inbox.StartAll)
	uids := r.put("INBOX", mails(1)...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Retry: 1})
	r.wantDeliveries(tasks.Sending)
	check(t, r.imap.Expunge(address, "INBOX", uids...))
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Uncertain: 1})
	r.wantTask(tasks.Uncertain, "it may have arrived")
}

// TestAbandonedInADisabledInbox: a process dies while it is sending a message to ann, and the inbox
// is disabled. bob gets the copy in another inbox. When an operator says that ann has the message,
// the copy is done.
func TestAbandonedInADisabledInbox(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up), route.Rule{Name: "all", To: []string{"ann@firm.example", "bob@firm.example"}})
	r.Config.Dedupe = tasks.DedupeAll
	r.add(inbox.StartAll)
	m := mails(1)
	r.put("INBOX", m...)
	r.run() // registers; the relay is at fault
	up.Store(true)
	want := tasks.Want{InboxID: r.stored().ID, Max: 1, Lease: time.Minute, Worker: "killed:1"}
	cs, err := r.queue.Receive(t.Context(), want)
	check(t, err)
	ds := cs[0].Task.Deliveries
	ds[0].Status = tasks.Sending
	check(t, r.queue.Sending(t.Context(), cs[0], tasks.Form{Mode: "redirect"}, ds))
	r.disable()
	r.addOther("other@firm.example")
	_, err = r.imap.Append("other@firm.example", "INBOX", m...)
	check(t, err)
	r.want(r.run(), Counters{Registered: 1})
	if n := len(r.sink.Messages()); n != 0 {
		t.Errorf("%d messages arrived while the claim was good, want none", n)
	}
	r.clock.advance(2 * time.Minute)
	r.run() // ends the claim
	r.want(r.run(), Counters{})
	if got := r.sink.Messages(); len(got) != 1 || !slices.Equal(got[0].To, []string{"bob@firm.example"}) {
		t.Errorf("%d messages arrived, want one, for bob", len(got))
	}
	n, err := r.queue.Resolve(t.Context(), tasks.By{Who: "ann"}, cs[0].Task.ID)
	check(t, err)
	r.run()
	if copied := r.tasks()[1]; n != 1 || copied.Status != tasks.Forwarded || len(r.sink.Messages()) != 1 {
		t.Errorf("%d tasks were resolved, the copy is %s; want 1, forwarded", n, copied.Status)
	}
}
