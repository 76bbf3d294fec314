package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
)

// asked records each recipient that the relay is asked about, and answers as reply says.
func asked(reply func(smtpsink.Event) smtpsink.Action) (*tally, func(smtpsink.Event) smtpsink.Action) {
	a := &tally{n: map[string]int{}}
	return a, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" {
			a.mu.Lock()
			a.n[e.Arg]++
			a.mu.Unlock()
		}
		return reply(e)
	}
}

type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *tally) of(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n[name]
}

// TestThreeOutcomes: one recipient is refused for good, one for now, one accepted. Each has its own
// row, and the task ends when all three are settled.
func TestThreeOutcomes(t *testing.T) {
	const never, later, taken = "never@firm.example", "later@firm.example", "taken@firm.example"
	onEach(t, all, func(t *testing.T, w *world) {
		var fixed atomic.Bool
		rcpts, reply := asked(func(e smtpsink.Event) smtpsink.Action {
			switch {
			case e.Stage == "rcpt" && e.Arg == never:
				return smtpsink.Action{Code: 550, Text: "5.1.1 there is nobody"}
			case e.Stage == "rcpt" && e.Arg == later && !fixed.Load():
				return smtpsink.Action{Code: 451, Text: "4.2.1 come back later"}
			}
			return smtpsink.Action{}
		})
		w.startSink(reply)
		w.routes = fmt.Sprintf("  - {name: all, match: {}, to: [%s, %s, %s]}\n", never, later, taken)
		w.configure()
		w.addInbox(desk, "--start", "all")
		letter := mails(1, "letter")
		w.imap.Append(t, desk, "INBOX", letter...)

		if r, _ := w.pass(75); r.Totals.Retry != 1 || r.Totals.Dead+r.Totals.Forwarded != 0 {
			t.Errorf("the first pass reports %+v, want one message that is tried again", r.Totals)
		}
		w.wantDeliveries("error", later+" pending 451 4.2.1 come back later",
			never+" failed 550 5.1.1 there is nobody", taken+" delivered 250 2.0.0 taken")
		w.wantShown(
			`(?m)^status +error$`, `(?m)^due +`, `later@firm.example\tpending\t451\t4\.2\.1 come back later`,
			`never@firm.example\tfailed\t550\t5\.1\.1 there is nobody`, `taken@firm.example\tdelivered\t250\t2\.0\.0`)

		fixed.Store(true)
		w.endPauses()
		second := w.start(nil, "run", "--json").wait()
		if second.code != 75 || !strings.Contains(second.stdout, `"dead":1`) {
			t.Errorf("the last pass: exit %d, %s; want 75 and one dead", second.code, second.stdout)
		}
		w.wantDeliveries("dead", later+" delivered 250 2.0.0 taken",
			never+" failed 550 5.1.1 there is nobody", taken+" delivered 250 2.0.0 taken")
		why := w.tasks()[0].Reason
		if !strings.Contains(why, never) || strings.Contains(why, later) || strings.Contains(why, taken) {
			t.Errorf("the reason is %q, want it to name only %s", why, never)
		}
		w.wantShown(`(?m)^status +dead$`, `(?m)^reason +permanently refused: never@firm\.example: 550 5\.1\.1`)

		w.pass(0)
		if r, l, n := rcpts.of(never), rcpts.of(later), rcpts.of(taken); r != 1 || l != 2 || n != 1 {
			t.Errorf("the relay was asked %d, %d and %d times about never@, later@ and taken@, "+
				"want once, twice and once", r, l, n)
		}
		if got := w.perRecipient(); got[taken] != 1 || got[later] != 1 || len(got) != 2 {
			t.Errorf("copies that arrived: %v, want one for each who was accepted", got)
		}
	})
}

// wantDeliveries checks the only task, and each of its deliveries: recipient, status, code and the
// beginning of the reply.
func (w *world) wantDeliveries(status string, want ...string) {
	w.t.Helper()
	one := w.tasks()[0]
	var got []string
	for _, d := range one.Deliveries {
		got = append(got, fmt.Sprintf("%s %s %d %s", d.Recipient, d.Status, d.Code, d.Reply))
	}
	fits := len(got) == len(want)
	for i := range want {
		fits = fits && strings.HasPrefix(got[i], strings.TrimSuffix(want[i], " taken"))
	}
	if one.Status != status || !fits {
		w.t.Errorf("the task is %s with the deliveries\n%s\nwant %s with\n%s",
			one.Status, strings.Join(got, "\n"), status, strings.Join(want, "\n"))
	}
}

// wantShown checks what `task show 1` prints.
func (w *world) wantShown(patterns ...string) {
	w.t.Helper()
	shown := w.must(0, "task", "show", "1").stdout
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(shown) {
			w.t.Errorf("task show does not match %s:\n%s", p, shown)
		}
	}
}

// perRecipient counts the copies that each recipient got.
func (w *world) perRecipient() map[string]int {
	got := map[string]int{}
	for _, m := range w.sink.Messages() {
		for _, to := range m.To {
			got[to]++
		}
	}
	return got
}

// crowd returns n recipients, in the order in which postrider sends to them.
func crowd(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("r%03d@firm.example", i+1))
	}
	return out
}

// inTransactions checks the number of recipients of each transaction, and returns how many copies
// each recipient got.
func (w *world) inTransactions(sizes ...int) map[string]int {
	w.t.Helper()
	var got []int
	for _, m := range w.sink.Messages() {
		got = append(got, len(m.To))
	}
	if !slices.Equal(got, sizes) {
		w.t.Errorf("the transactions had %v recipients, want %v", got, sizes)
	}
	return w.perRecipient()
}

// wantCopies checks that each of the recipients got n copies.
func wantCopies(t *testing.T, got map[string]int, n int, who []string) {
	t.Helper()
	for _, to := range who {
		if got[to] != n {
			t.Errorf("%s got %d copies, want %d", to, got[to], n)
		}
	}
}

// toCrowd is a world with one message to 250 recipients.
func (w *world) toCrowd(reply func(smtpsink.Event) smtpsink.Action) {
	w.t.Helper()
	w.startSink(reply)
	w.routes = "  - {name: all, match: {}, to: [" + strings.Join(crowd(250), ", ") + "]}\n"
	w.configure()
	w.addInbox(desk, "--start", "all")
	w.imap.Append(w.t, desk, "INBOX", mails(1, "letter")...)
}

// TestManyRecipients: more than a hundred are split (RFC 5321 4.5.3.1.8).
func TestManyRecipients(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.toCrowd(nil)
		if r, _ := w.pass(0); r.Totals.Forwarded != 1 {
			t.Errorf("the pass reports %+v, want one forwarded", r.Totals)
		}
		wantCopies(t, w.inTransactions(100, 100, 50), 1, crowd(250))
		w.pass(0)
		if n := len(w.sink.Messages()); n != 3 {
			t.Errorf("%d transactions after the second pass, want the same three", n)
		}
	})
}

// TestOneOfManyIsDeferred: a 4xx for only the 101st recipient gives no other recipient a second
// copy.
func TestOneOfManyIsDeferred(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		var fixed atomic.Bool
		w.toCrowd(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "rcpt" && e.Arg == "r101@firm.example" && !fixed.Load() {
				return smtpsink.Action{Code: 450, Text: "4.2.0 greylisted"}
			}
			return smtpsink.Action{}
		})
		if r, _ := w.pass(75); r.Totals.Retry != 1 {
			t.Errorf("the first pass reports %+v, want one message that is tried again", r.Totals)
		}
		w.inTransactions(100, 99, 50)
		one := w.tasks()[0]
		for _, d := range one.Deliveries {
			if pending := d.Status == "pending"; pending != (d.Recipient == "r101@firm.example") {
				t.Errorf("the delivery to %s is %s, want pending only for r101@", d.Recipient, d.Status)
			}
		}
		fixed.Store(true)
		w.untilState("forwarded")
		wantCopies(t, w.inTransactions(100, 99, 50, 1), 1, crowd(250))
	})
}

// endPauses makes due what failed, as if the pauses of the backoff were over. Leases stay.
func (w *world) endPauses() {
	w.t.Helper()
	w.sql("UPDATE monitored_emails_tasks SET visible_at = 1 WHERE status = 'error'")
}

// untilState runs passes until the only task has that status.
func (w *world) untilState(state string) {
	w.t.Helper()
	w.eventually(func() bool {
		w.endPauses()
		w.start(nil, "run").wait()
		return w.tasks()[0].Status == state
	})
}

// TestKilledBetweenTransactions: a pass is killed when the first hundred have the message, and
// nothing of the second transaction went out. Each recipient gets the message once.
func TestKilledBetweenTransactions(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		at, answer := make(chan struct{}, 1), make(chan struct{})
		w.toCrowd(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage != "mail" || e.N != 2 {
				return smtpsink.Action{}
			}
			at <- struct{}{}
			return smtpsink.Action{Block: answer, Drop: true}
		})
		w.killedAt(at)
		close(answer)
		w.untilState("forwarded")
		wantCopies(t, w.inTransactions(100, 100, 50), 1, crowd(250))
	})
}

// TestKilledInSecondTransaction: only the recipients of the transaction with the unknown outcome
// get the message again, or wait for an operator.
func TestKilledInSecondTransaction(t *testing.T) {
	for _, policy := range []string{"retry", "hold"} {
		t.Run(policy, func(t *testing.T) {
			t.Setenv("POSTRIDER_FORWARD_UNCERTAIN", policy)
			onEach(t, all, func(t *testing.T, w *world) {
				at, answer := make(chan struct{}, 1), make(chan struct{})
				w.toCrowd(func(e smtpsink.Event) smtpsink.Action {
					if e.Stage != "dot" || e.N != 2 {
						return smtpsink.Action{}
					}
					at <- struct{}{}
					return smtpsink.Action{Block: answer, AcceptAndDrop: true}
				})
				w.killedAt(at)
				close(answer)
				w.eventually(func() bool { return len(w.sink.Messages()) == 2 })
				everybody := crowd(250)
				if policy == "retry" {
					w.untilState("forwarded")
					got := w.inTransactions(100, 100, 100, 50)
					wantCopies(t, got, 1, slices.Concat(everybody[:100], everybody[200:]))
					wantCopies(t, got, 2, everybody[100:200])
					return
				}
				w.untilState("uncertain")
				w.must(0, "task", "resolve", "--delivered", "1")
				w.untilState("forwarded")
				wantCopies(t, w.inTransactions(100, 100, 50), 1, everybody)
			})
		})
	}
}

// killedAt kills a pass when the relay gives the signal, and ends its leases.
func (w *world) killedAt(at <-chan struct{}) {
	w.t.Helper()
	p := w.start(nil, "run")
	select {
	case <-at:
	case <-time.After(time.Minute):
		w.t.Fatal("the relay did not come to that recipient")
	}
	_ = p.cmd.Process.Kill()
	<-p.ended()
	w.endLeases()
}
