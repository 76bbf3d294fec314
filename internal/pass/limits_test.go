package pass

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// limit sets the limits of this host's passes.
func (r *rig) limit(l limits.Limits) {
	r.t.Helper()
	d, err := db.Open(r.t.Context(), r.db, db.WithNow(r.clock.Now))
	check(r.t, err)
	r.t.Cleanup(func() { _ = d.Close() })
	quota := limits.New(d, limits.Config{
		Host: "127.0.0.1", Port: r.sink.Port(), Limits: l, Lease: r.Config.Lease, Now: r.clock.Now,
	})
	r.Limits, r.Relay = quota, r.relayWith(quota)
}

// named has the times at which the recipients were named to the relay.
type named struct {
	clock *clock
	mu    sync.Mutex
	at    []time.Time
	to    map[string]int
}

// narrowRig is a rig with limits, whose relay answers RCPT as given.
func narrowRig(t *testing.T, l limits.Limits, rcpt smtpsink.Action, rules ...route.Rule) (*rig, *named) {
	n := &named{to: map[string]int{}}
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage != "rcpt" {
			return smtpsink.Action{}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.at = append(n.at, n.clock.Now())
		n.to[e.Arg]++
		return rcpt
	}, rules...)
	n.clock = r.clock
	r.limit(l)
	r.add(inbox.StartAll)
	return r, n
}

// want checks that no minute had more recipients than perMinute, and that there were total in all.
func (n *named) want(t *testing.T, perMinute, total int) {
	t.Helper()
	for _, end := range n.at {
		in := 0
		for _, at := range n.at {
			if !at.After(end) && at.After(end.Add(-time.Minute)) {
				in++
			}
		}
		if in > perMinute {
			t.Errorf("in the minute before %v %d recipients were named, want %d at most", end, in, perMinute)
			break
		}
	}
	if len(n.at) != total {
		t.Errorf("%d recipients were named to the relay, want %d", len(n.at), total)
	}
}

// receipts counts how often tasks are asked for.
type receipts struct {
	tasks.Queue
	n atomic.Int32
}

func (q *receipts) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	q.n.Add(1)
	return q.Queue.Receive(ctx, want)
}

// TestLimit: beyond it tasks wait in their order, and no attempt counts. A pass that reaches it
// claims no more.
func TestLimit(t *testing.T) {
	r, n := narrowRig(t, limits.Limits{PerMinute: 10}, smtpsink.Action{})
	r.Config.Senders = 1 // in order
	asked := &receipts{Queue: r.queue}
	r.Queue = asked
	msgs := mails(25)
	r.put("INBOX", msgs...)
	pass := func(want Counters, limit string) {
		t.Helper()
		rep := r.runCtx(t.Context())
		r.want(rep.Inboxes[0], want)
		if !rep.Clean() || rep.LimitReached != limit || rep.Totals != want {
			t.Errorf("the pass reports %+v, want it clean, with the same totals, and with the limit %q", rep, limit)
		}
	}
	const first = "smtp.limits.per_minute (10) is used up until 10:02 UTC"
	pass(Counters{Registered: 25, Forwarded: 10, Waiting: 15}, first)
	r.wantArrived(msgs[:10])
	for i, task := range r.tasks() {
		want, attempts := tasks.Received, 0
		if i < 10 {
			want, attempts = tasks.Forwarded, 1
		}
		if task.Status != want || task.Attempts != attempts {
			t.Errorf("task %d is %s after %d attempts, want the first ten forwarded after one, "+
				"and the others waiting after none", task.ID, task.Status, task.Attempts)
		}
	}
	if got := r.tasks()[10]; got.Worker != "" {
		t.Errorf("the first waiting task was claimed by %s, want no claim: it cannot go yet", got.Worker)
	}

	asked.n.Store(0)
	r.clock.advance(30 * time.Second)
	pass(Counters{Waiting: 15}, first)
	if got := asked.n.Load(); got != 0 {
		t.Errorf("a pass at its limit asked for tasks %d times, want none", got)
	}
	r.clock.advance(31 * time.Second)
	pass(Counters{Forwarded: 10, Waiting: 5}, "smtp.limits.per_minute (10) is used up until 10:03 UTC")
	r.wantArrived(msgs[:20])
	r.clock.advance(time.Hour)
	pass(Counters{Forwarded: 5}, "")
	r.wantArrived(msgs)
	n.want(t, 10, 25)
}

// TestLimitIsFreeInTime: what a pass sent last counts for one window, and not also for its lease.
func TestLimitIsFreeInTime(t *testing.T) {
	r, n := narrowRig(t, limits.Limits{PerMinute: 3}, smtpsink.Action{})
	r.Config.Lease = time.Hour
	for range 3 {
		r.limit(limits.Limits{PerMinute: 3}) // in its own process
		r.put("INBOX", mails(3)...)
		r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
		r.clock.advance(61 * time.Second)
	}
	n.want(t, 3, 9)
}

// turnstile lets one recipient through, and the next one after a while.
type turnstile struct {
	wait time.Duration
	mu   sync.Mutex
	next time.Time
}

func (s *turnstile) Reserve(ctx context.Context, _ int) (int, func(int), error) {
	if _, why, _ := s.Left(ctx); why != nil {
		return 0, nil, why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = time.Now().Add(s.wait)
	return 1, func(int) {}, nil
}

func (s *turnstile) Left(context.Context) (int, *limits.Reached, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.next); left > 0 {
		return 0, &limits.Reached{Key: "turnstile", Until: s.next, Wait: left}, nil
	}
	return 1, nil, nil
}

func (*turnstile) Limited() bool               { return true }
func (*turnstile) Renew(context.Context) error { return nil }
func (*turnstile) Flush(context.Context) error { return nil }

// TestLimitOfAMoment: a pass waits for a short limit. A longer one ends the forwarding of the pass.
func TestLimitOfAMoment(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want Counters
	}{
		{50 * time.Millisecond, Counters{Registered: 6, Forwarded: 6}},
		{limitPatience + time.Minute, Counters{Registered: 6, Forwarded: 1, Waiting: 5}},
	} {
		t.Run(c.wait.String(), func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			stile := &turnstile{wait: c.wait}
			r.Limits, r.Relay, r.Now = stile, r.relayWith(stile), time.Now
			r.Config.Senders = 1
			msgs := mails(6)
			r.put("INBOX", msgs...)
			r.want(r.run(), c.want)
			r.wantArrived(msgs[:c.want.Forwarded])
		})
	}
}

func crowd(n int) (to []string) {
	for i := range n {
		to = append(to, fmt.Sprintf("colleague%03d@firm.example", i))
	}
	return to
}

// TestLimitSplitsAMessage: 150 recipients at 60 a minute take three minutes, and each gets it once.
func TestLimitSplitsAMessage(t *testing.T) {
	all := crowd(150)
	r, n := narrowRig(t, limits.Limits{PerMinute: 60}, smtpsink.Action{}, route.Rule{Name: "all", To: all})
	r.put("INBOX", mails(1)...)
	for minute, want := range []int{60, 120, 150} {
		rep := r.run()
		delivered := 0
		for _, d := range r.tasks()[0].Deliveries {
			if d.Status == tasks.Delivered {
				delivered++
			}
		}
		if delivered != want || rep.Error != "" || rep.Counters.Retry != 0 {
			t.Errorf("after pass %d %d have it (%+v), want %d, and nothing to be retried", minute, delivered, rep, want)
		}
		if minute < 2 {
			if got := r.wantTask(tasks.Received, "waits: smtp.limits.per_minute (60)"); got.Attempts != 0 {
				t.Errorf("it counts %d attempts, want none while it waits", got.Attempts)
			}
			r.want(r.run(), Counters{Waiting: 1})
		}
		r.clock.advance(61 * time.Second)
	}
	if got := r.wantTask(tasks.Forwarded, ""); got.Attempts != 1 {
		t.Errorf("it took %d attempts, want 1", got.Attempts)
	}
	n.want(t, 60, 150)
	for _, to := range all {
		if n.to[to] != 1 {
			t.Errorf("%s got it %d times, want once", to, n.to[to])
		}
	}
}

// TestLimitKillsNothing: a task that waits for days is not given up, for its age or its attempts.
func TestLimitKillsNothing(t *testing.T) {
	r, n := narrowRig(t, limits.Limits{PerDay: 2}, smtpsink.Action{})
	r.Config.Policy.MaxAttempts, r.Config.Policy.GiveUpAfter = 2, time.Hour
	msgs := mails(9)
	r.put("INBOX", msgs...)
	received := func(t tasks.Task) bool { return t.Status == tasks.Received }
	passes := 0
	for ; passes < 200 && slices.ContainsFunc(r.tasks(), received) || passes == 0; passes++ {
		if rep := r.run(); rep.Error != "" || rep.Counters.Retry+rep.Counters.Dead != 0 {
			t.Fatalf("pass %d reports %+v, want nothing dead, and nothing to be retried\n%s", passes, rep, r.log)
		}
		r.clock.advance(time.Hour)
	}
	r.wantArrived(msgs)
	n.want(t, 2, 9)
	if passes < 4*24 {
		t.Errorf("nine messages took %d hours, want more than four days at two a day", passes)
	}
}

// TestLimitBeforeAnUnwillingRelay: the relay defers all recipients, and there are more than the
// limit allows in one attempt. All are tried equally often, and in the end the task is given up.
func TestLimitBeforeAnUnwillingRelay(t *testing.T) {
	all := crowd(5)
	r, n := narrowRig(t, limits.Limits{PerMinute: 2}, smtpsink.Action{Code: 450, Text: "4.2.1 later"},
		route.Rule{Name: "all", To: all})
	r.Config.Policy.MaxAttempts = 5
	r.put("INBOX", mails(1)...)
	for range 20 {
		r.run()
		r.clock.advance(2 * time.Hour)
	}
	r.wantTask(tasks.Dead, "given up after 5 attempts")
	least, most := n.to[all[0]], n.to[all[0]]
	for _, to := range all {
		least, most = min(least, n.to[to]), max(most, n.to[to])
	}
	if least < 2 || most > least+1 {
		t.Errorf("recipients were tried %d to %d times, want them to take turns: %v", least, most, n.to)
	}
	n.want(t, 2, len(n.at))
}

// TestLimitAndUnknownOutcome: the connection is lost after the final dot to the first two of four
// recipients, and then a limit is reached. With hold an operator decides, and no one gets anything
// meanwhile.
func TestLimitAndUnknownOutcome(t *testing.T) {
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		return smtpsink.Action{AcceptAndDrop: e.Stage == "dot"}
	}, route.Rule{Name: "all", To: crowd(4)})
	r.limit(limits.Limits{PerMinute: 2})
	r.Config.Policy.Hold = true
	r.add(inbox.StartAll)
	r.put("INBOX", mails(1)...)
	r.want(r.run(), Counters{Registered: 1, Uncertain: 1})
	r.wantTask(tasks.Uncertain, "the outcome is not known")
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{})
	if got := len(r.sink.Messages()); got != 1 {
		t.Errorf("%d copies went out, want one", got)
	}
}

// TestLimitOverInboxesAndHosts: one host scans one of two inboxes while another host helps. All
// share the same limit.
func TestLimitOverInboxesAndHosts(t *testing.T) {
	r, n := narrowRig(t, limits.Limits{PerHour: 15}, smtpsink.Action{})
	const second = "sales@firm.example"
	r.addOther(second)
	msgs := r.waiting("INBOX", 30)
	_, err := r.imap.Append(second, "INBOX", mails(20)...)
	check(t, err)
	release := r.scannedBy("c:1")
	defer release()
	b := r.host("b:1")
	b.limit(limits.Limits{PerHour: 15})
	ends := []<-chan InboxReport{r.start(), b.start()}
	for _, done := range ends {
		if rep := r.ended(done); rep.Error != "" || rep.Counters.Retry != 0 {
			t.Errorf("a host reports %+v, want everything unsent to wait", rep)
		}
	}
	n.want(t, 15, 15)
	waits := 0
	for _, task := range r.tasks() {
		waiting := task.Reason == "" ||
			strings.HasPrefix(task.Reason, "waits: ") || strings.Contains(task.Reason, "relay")
		if task.Status == tasks.Received && task.Attempts == 0 && waiting {
			waits++
		}
	}
	if want := len(msgs) + 20 - 15; waits != want {
		t.Errorf("%d tasks wait, want %d", waits, want)
	}
}
