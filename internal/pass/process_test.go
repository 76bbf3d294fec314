package pass

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

func (r *rig) tasks() []tasks.Task {
	r.t.Helper()
	var out []tasks.Task
	check(r.t, r.queue.List(r.t.Context(), tasks.Filter{}, func(t tasks.Task) error {
		out = append(out, t)
		return nil
	}))
	return out
}

// wantTask checks the one task there is.
func (r *rig) wantTask(status tasks.Status, reason string) tasks.Task {
	r.t.Helper()
	all := r.tasks()
	if len(all) != 1 || all[0].Status != status || !strings.Contains(all[0].Reason, reason) {
		r.t.Fatalf("tasks are %+v, want one that is %s with a reason that has %q in it", all, status, reason)
	}
	return all[0]
}

// on answers at one stage with one action, for as long as it should.
func on(stage string, times int, action smtpsink.Action) func(smtpsink.Event) smtpsink.Action {
	var n atomic.Int64
	return func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == stage && int(n.Add(1)) <= times {
			return action
		}
		return smtpsink.Action{}
	}
}

// downUntil is a relay that takes no connection until up is set.
func downUntil(up *atomic.Bool) func(smtpsink.Event) smtpsink.Action {
	return func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "connect" && !up.Load() {
			return smtpsink.Action{Code: 554}
		}
		return smtpsink.Action{}
	}
}

func TestTemporaryRefusalIsRetriedWhenVisible(t *testing.T) {
	r := newRig(t, on("rcpt", 1, smtpsink.Action{Code: 451, Text: "4.7.1 greylisted"}))
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	got := r.wantTask(tasks.Error, "451")
	if got.Attempts != 1 || !got.VisibleAt.Equal(r.clock.Now().Add(time.Minute)) {
		t.Errorf("attempts %d, visible at %v; want 1, and a minute from %v", got.Attempts, got.VisibleAt, r.clock.Now())
	}
	r.want(r.run(), Counters{}) // not due yet
	r.clock.advance(time.Minute)
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(msgs)
}

func TestRefusedForGoodIsDeadAndOthersGoOn(t *testing.T) {
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && strings.HasPrefix(e.Arg, "gone@") {
			return smtpsink.Action{Code: 550, Text: "5.1.1 no such user"}
		}
		return smtpsink.Action{}
	}, route.Rule{Name: "two", To: []string{"gone@firm.example", "here@firm.example"}})
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Dead: 1})
	got := r.wantTask(tasks.Dead, "gone@firm.example: 550 5.1.1 no such user")
	if got.Deliveries[0].Status != tasks.Failed || got.Deliveries[1].Status != tasks.Delivered {
		t.Errorf("deliveries are %+v, want gone@ failed and here@ delivered", got.Deliveries)
	}
	r.wantArrived(msgs)
}

// TestRefusedThoughACopyGoesElsewhere: deduplication is per recipient. A copy goes to its own
// recipients at once; one with the same recipients waits, and is tried when they are given up.
func TestRefusedThoughACopyGoesElsewhere(t *testing.T) {
	var decided atomic.Bool
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		switch {
		case e.Stage == "rcpt" && !decided.Load():
			return smtpsink.Action{Code: 451, Text: "4.7.1 greylisted"}
		case e.Stage == "rcpt" && strings.HasPrefix(e.Arg, "gone@"):
			return smtpsink.Action{Code: 550, Text: "5.1.1 no such user"}
		}
		return smtpsink.Action{}
	},
		route.Rule{Name: "copies", Match: route.Match{Folder: []string{"Copies"}}, To: []string{"here@firm.example"}},
		route.Rule{Name: "all", To: []string{"gone@firm.example"}})
	r.add(inbox.StartAll, "INBOX", "Again", "Copies")
	check(t, r.imap.CreateFolder(address, "Again"))
	check(t, r.imap.CreateFolder(address, "Copies"))
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.put("Again", msgs...)
	r.put("Copies", msgs...)
	r.want(r.run(), Counters{Registered: 2, Retry: 1})
	decided.Store(true)
	for range 2 {
		r.clock.advance(time.Hour)
		r.run()
	}
	got := map[string]tasks.Status{}
	for _, task := range r.tasks() {
		got[task.Folder] = task.Status
	}
	want := map[string]tasks.Status{"INBOX": tasks.Dead, "Again": tasks.Dead, "Copies": tasks.Forwarded}
	if !maps.Equal(got, want) {
		t.Errorf("the tasks are %v, want %v", got, want)
	}
	r.wantArrived(msgs)
}

func TestAttemptsEnd(t *testing.T) {
	r := newRig(t, on("rcpt", 100, smtpsink.Action{Code: 450, Text: "later"}))
	r.add(inbox.StartAll)
	r.put("INBOX", mails(1)...)
	for range 4 {
		if rep := r.run(); rep.Counters.Retry != 1 {
			t.Fatalf("the pass reports %+v, want one to be retried", rep)
		}
		r.clock.advance(2 * time.Hour)
	}
	r.want(r.run(), Counters{Dead: 1})
	r.wantTask(tasks.Dead, "given up after 5 attempts")
}

// TestRelayAtFault checks that no attempt counts, that the rest of the backlog is registered, and
// that the fault is logged once.
func TestRelayAtFault(t *testing.T) {
	tests := []struct {
		name, stage, want string
		action            smtpsink.Action
	}{
		{"greeting", "connect", "554", smtpsink.Action{Code: 554, Text: "go away"}},
		{"sender refused", "mail", "envelope_from", smtpsink.Action{Code: 553, Text: "5.7.1 sender not owned"}},
		{"shutting down", "mail", "421", smtpsink.Action{Code: 421, Text: "4.3.2 closing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			down := atomic.Bool{}
			down.Store(true)
			r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
				if e.Stage == tt.stage && down.Load() {
					return tt.action
				}
				return smtpsink.Action{}
			})
			r.add(inbox.StartAll)
			msgs := mails(20)
			r.put("INBOX", msgs...)
			rep := r.runCtx(t.Context())
			if !strings.Contains(rep.RelayError, tt.want) ||
				rep.Totals.Registered != 20 || rep.Totals.Forwarded != 0 || rep.Clean() {
				t.Errorf("the pass reports %+v, want 20 registered, none forwarded and a relay error with %q",
					rep, tt.want)
			}
			if n := strings.Count(r.log.String(), "forwarding stops"); n != 1 {
				t.Errorf("the fault was logged %d times, want once\n%s", n, r.log.String())
			}
			for _, task := range r.tasks() {
				if task.Status != tasks.Received || task.Attempts != 0 {
					t.Errorf("task %d is %s with %d attempts, want received with none",
						task.ID, task.Status, task.Attempts)
				}
			}
			down.Store(false)
			r.want(r.run(), Counters{Forwarded: 20})
			r.wantArrived(msgs)
		})
	}
}

// TestUnknownOutcome loses the connection after the relay took the message.
func TestUnknownOutcome(t *testing.T) {
	for _, hold := range []bool{false, true} {
		r := newRig(t, on("dot", 1, smtpsink.Action{AcceptAndDrop: true}))
		r.Config.Policy.Hold = hold
		r.add(inbox.StartAll)
		msgs := mails(1)
		r.put("INBOX", msgs...)
		if hold {
			r.want(r.run(), Counters{Registered: 1, Uncertain: 1})
			r.clock.advance(time.Hour)
			r.want(r.run(), Counters{})
			r.wantTask(tasks.Uncertain, "not known")
			r.wantArrived(msgs)
			continue
		}
		r.want(r.run(), Counters{Registered: 1, Retry: 1})
		if got := r.wantTask(tasks.Error, ""); got.Deliveries[0].Status != tasks.Sending {
			t.Errorf("the delivery is %s, want sending: it may have arrived", got.Deliveries[0].Status)
		}
		r.clock.advance(time.Hour)
		r.want(r.run(), Counters{Forwarded: 1})
		if n := len(r.sink.Messages()); n != 2 {
			t.Errorf("%d copies arrived, want 2: this is the one window in which a repeat is the policy", n)
		}
	}
}

// TestKilledWhileSending claims and marks as a process would that dies before the relay answers.
func TestKilledWhileSending(t *testing.T) {
	for _, hold := range []bool{false, true} {
		r := newRig(t, on("connect", 1, smtpsink.Action{Code: 554}))
		r.Config.Policy.Hold = hold
		r.add(inbox.StartAll)
		msgs := mails(1)
		r.put("INBOX", msgs...)
		r.run() // registers; the relay is at fault
		in := r.stored()
		claims, err := r.queue.Receive(t.Context(), tasks.Want{
			InboxID: in.ID, Max: 1, Lease: time.Minute, Worker: "dead", MaxLostLeases: 3,
		})
		check(t, err)
		check(t, r.queue.Sending(t.Context(), claims[0], tasks.Form{Mode: "redirect"},
			[]tasks.Delivery{{Recipient: "team@firm.example", Status: tasks.Sending}}))
		r.want(r.run(), Counters{}) // its lease holds
		r.clock.advance(2 * time.Minute)
		if hold {
			r.want(r.run(), Counters{Uncertain: 1})
			r.wantArrived()
			continue
		}
		r.want(r.run(), Counters{Forwarded: 1})
		r.wantArrived(msgs)
	}
}

func TestRoutesDecide(t *testing.T) {
	r := newRig(t, nil,
		route.Rule{Name: "drop", Match: route.Match{Subject: []string{"message 0"}}, Skip: true},
		route.Rule{Name: "one", Match: route.Match{Subject: []string{"message 1"}}, To: []string{"a@firm.example"}},
	)
	r.add(inbox.StartAll)
	msgs := mails(3)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 1, Skipped: 1, SkippedNoMatch: 1})
	r.wantArrived(msgs[1:2])
}

func TestLoopIsSkipped(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	r.put("INBOX", r.sink.Messages()[0].Data) // it comes back
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	r.wantArrived(msgs)
}

// TestSenderThatMakesTheRelayHangUp does not keep the others waiting for ever.
func TestSenderThatMakesTheRelayHangUp(t *testing.T) {
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		return smtpsink.Action{Drop: e.Stage == "mail" && e.Arg == ""}
	})
	r.add(inbox.StartAll)
	bounce := append([]byte("Return-Path: <>\r\n"), mails(1)[0]...)
	msgs := mails(8)
	r.put("INBOX", append([][]byte{bounce}, msgs...)...)
	for range 4 {
		r.run()
		r.clock.advance(time.Hour)
	}
	r.wantArrived(msgs)
	if got := r.tasks()[0]; got.Status != tasks.Error || got.Attempts < 2 {
		t.Errorf("the bounce is %s after %d attempts, want it tried again and counted", got.Status, got.Attempts)
	}
}

// TestRetryByTheCurrentRoutes: a requeued task that reached no one goes by the current routes.
func TestRetryByTheCurrentRoutes(t *testing.T) {
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && e.Arg == "team@firm.example" {
			return smtpsink.Action{Code: 550}
		}
		return smtpsink.Action{}
	})
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Dead: 1})
	table, err := route.Compile([]route.Rule{{Name: "fixed", To: []string{"intake@firm.example"}}})
	check(t, err)
	r.Routes = table
	_, err = r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, r.tasks()[0].ID)
	check(t, err)
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(msgs)
}

// TestSuspectsAreWorkedOnAlone: tasks that a dead pass had claimed are processed one by one, with
// no other task of any inbox at the same time. All go out.
func TestSuspectsAreWorkedOnAlone(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		mu.Lock()
		defer mu.Unlock()
		switch e.Stage {
		case "mail":
			now++
			most = max(most, now)
		case "dot":
			now--
		}
		return smtpsink.Action{}
	})
	r.add(inbox.StartAll)
	check(t, r.imap.AddUser("second@firm.example", password))
	in := inbox.Inbox{
		Address: "second@firm.example", Host: "127.0.0.1", Port: r.imap.Port(), Security: inbox.None,
		Start: inbox.StartAll,
	}
	_, err := r.store.Add(t.Context(), in, password)
	check(t, err)
	first, second := mails(6), mails(6)
	down := r.Relay
	r.put("INBOX", first...)
	_, err = r.imap.Append("second@firm.example", "INBOX", second...)
	check(t, err)
	r.Relay = unreachable{down}
	r.runCtx(t.Context()) // registers
	r.Relay = down
	boxes, err := r.store.Active(t.Context())
	check(t, err)
	for _, box := range boxes {
		_, err := r.queue.Receive(t.Context(), tasks.Want{
			InboxID: box.ID, Max: 10, Lease: time.Minute, Worker: "dead", MaxLostLeases: 3,
		})
		check(t, err)
	}
	r.clock.advance(2 * time.Minute)
	if rep := r.runCtx(t.Context()); rep.Totals.Forwarded != 12 {
		t.Errorf("the pass reports %+v, want 12 forwarded", rep.Totals)
	}
	if most != 1 {
		t.Errorf("%d messages were with the relay at once, want one at a time", most)
	}
	r.wantArrived(first, second)
}

// unreachable is a relay that is down.
type unreachable struct{ Relay }

func (unreachable) Begin(context.Context, forward.Envelope, *forward.Content) (Transaction, error) {
	err := &forward.Error{Relay: "relay", Stage: forward.StageConnect, Err: context.DeadlineExceeded}
	return &forward.Transaction{}, err
}
