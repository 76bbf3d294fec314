package notify

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

const (
	oneDead      = "postrider: 1 message is dead"
	oneUncertain = "postrider: 1 message is uncertain"
	unreachable  = "postrider: 1 inbox is unreachable"
	reachable    = "postrider: 1 inbox is reachable again"
)

func TestReportsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.task("fine")
		b.ends(tasks.Forwarded)
		b.wantSent("nothing failed")
		b.dies("one")
		b.dies("two")
		b.wantSent("two are dead", "postrider: 2 messages are dead")
		b.wantSent("at once again")
		b.dies("three")
		b.wantSent("another death within notify.at_most")
		b.later()
		b.wantSent("when that is over", oneDead)
		if raw := body(t, b.relay.sent[0].raw); strings.Count(raw, "Task ") != 1 ||
			!strings.Contains(raw, "Task 4 has been dead") {
			t.Errorf("the second digest is\n%s\nwant only task 4 in it", raw)
		}
		b.later()
		b.wantSent("nothing new")
	})
}

func TestReportsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		id := b.dies("one")
		b.wantSent("dead", oneDead)
		first := messageID(b.relay.sent[0].raw)
		_, err := b.queue.Requeue(b.ctx, tasks.By{Who: "ann"}, id)
		b.check(err)
		b.later()
		b.wantSent("requeued, and not tried yet")
		b.ends(tasks.Uncertain, tasks.Delivery{Recipient: "a@firm.example", Status: tasks.Sending})
		b.wantSent("uncertain now", oneUncertain)
		if !strings.Contains(body(t, b.relay.sent[0].raw), fmt.Sprintf("postrider task resolve --delivered %d", id)) {
			t.Errorf("the digest is\n%s\nwant the command that settles the task", b.relay.sent[0].raw)
		}
		_, err = b.queue.Requeue(b.ctx, tasks.By{Who: "ann"}, id)
		b.check(err)
		b.ends(tasks.Dead, refused)
		b.later()
		b.wantSent("dead once more", oneDead)
		if again := messageID(b.relay.sent[0].raw); first == again {
			t.Errorf("two digests have the Message-ID %s, want another one for another death", again)
		}
		_, err = b.queue.Requeue(b.ctx, tasks.By{Who: "ann"}, id)
		b.check(err)
		b.ends(tasks.Dead, refused)
		_, err = b.queue.Skip(b.ctx, tasks.By{Who: "ann"}, id)
		b.check(err)
		b.later()
		b.wantSent("already settled by an operator")
	})
}

// TestReportsBounces: each bounce once; one that was retried before is not reported.
func TestReportsBounces(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		bounces := func(id int64, to string) {
			t.Helper()
			bounce := tasks.Arrival{Status: tasks.Bounced, Code: 550, Reply: "no such user"}
			changed, err := b.queue.Arrived(b.ctx, "reports", id, to, bounce)
			if b.check(err); !changed {
				t.Fatalf("the bounce of task %d for %s changed nothing", id, to)
			}
		}
		sent := []tasks.Delivery{
			{Recipient: "a@firm.example", Status: tasks.Delivered},
			{Recipient: "b@firm.example", Status: tasks.Delivered},
		}
		one := b.task("one")
		b.ends(tasks.Forwarded, sent...)
		bounces(one, "a@firm.example")
		b.wantSent("bounced", "postrider: 1 message bounced")
		text := body(t, b.relay.sent[0].raw)
		for _, want := range []string{
			fmt.Sprintf("Task %d bounced after the relay had accepted it (reported ", one),
			"  lacks it: a@firm.example (bounced: 550 no such user, 0 seconds after it was accepted)\n" +
				"  has it:   b@firm.example\n",
			fmt.Sprintf("  try:      postrider task show %d\n            postrider task retry %[1]d\n", one),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the digest is\n%s\nwant %q in it", text, want)
			}
		}
		b.wantSent("nothing new")
		bounces(one, "b@firm.example")
		b.wantSent("bounced for another recipient", "postrider: 1 message bounced")
		b.wantSent("nothing new again")
		two := b.task("two")
		b.ends(tasks.Forwarded, sent...)
		bounces(two, "a@firm.example")
		_, err := b.queue.Requeue(b.ctx, tasks.By{Who: "ann"}, two)
		b.check(err)
		b.wantSent("retried before it was reported")
		b.ends(tasks.Forwarded, sent[0])
		bounces(two, "a@firm.example")
		b.Config.On = []Kind{Dead}
		b.wantSent("not asked for")
		b.Config.On = Kinds()
		b.wantSent("bounced once more", "postrider: 1 message bounced")
		_, err = b.queue.Purge(b.ctx, tasks.By{Who: "ann"}, one)
		b.check(err)
		b.dies("three")
		b.wantSent("another", oneDead)
		if n := b.count(`SELECT COUNT(*) FROM monitored_emails_told`); n != 2 {
			t.Errorf("monitored_emails_told has %d rows, want 2: those of the tasks that are left", n)
		}
	})
}

func messageID(raw string) string {
	_, rest, _ := strings.Cut(raw, "\r\nMessage-ID: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

func TestReportsInboxes(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		for range 2 {
			b.scan("log in: the server refused the password")
			b.scan("log in: the server refused the password")
			b.wantSent("two failures are no outage yet")
			b.scan("")
		}
		b.wantSent("short failures are over")
		for range 4 {
			b.scan("log in:\n the server refused the password")
		}
		b.wantSent("it fails", unreachable)
		if raw := body(t, b.relay.sent[0].raw); !strings.Contains(raw, "(failed runs in a row: 4)") ||
			!strings.Contains(raw, "log in: the server refused the password") ||
			!strings.Contains(raw, "postrider inbox check desk@firm.example") {
			t.Errorf("the digest is\n%s\nwant the number of failed runs, the error and the command in it", raw)
		}
		b.scan("still")
		b.wantSent("it still fails")
		b.scan("")
		b.wantSent("it is over", reachable)
		raw := body(t, b.relay.sent[len(b.relay.sent)-1].raw)
		if !strings.Contains(raw, "good news") || !strings.Contains(raw, "has been reachable again since") {
			t.Errorf("the digest is\n%s\nwant that there is nothing to do", raw)
		}
		b.wantSent("nothing new")

		for range 3 {
			b.scan("again")
		}
		b.scan("")
		b.wantSent("it began and was over between two digests", reachable)
		for range 3 {
			b.scan("again")
		}
		b.exec(`UPDATE monitored_emails SET is_active = 0`)
		b.wantSent("a disabled inbox")

		enable := func() {
			b.exec(`UPDATE monitored_emails SET is_active = 0`)
			b.check(b.boxes.Enable(b.ctx, b.in.Address, "ann", "inbox enable"))
		}
		enable()
		for range 3 {
			b.scan("again")
		}
		b.wantSent("it fails", unreachable)
		enable()
		b.scan("again")
		b.scan("again")
		b.wantSent("two failures after it was enabled")
		b.scan("again")
		b.wantSent("it still fails after it was enabled", unreachable)
	})
}

// TestReportsLogins: that a login is needed is reported once, at the first scan.
func TestReportsLogins(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		needed := inbox.ScanEnd{Failure: "needs login: corp refuses the login", LoginNeeded: true}
		for _, on := range [][]Kind{{Unreachable}, Kinds()} {
			b.Config.On = on
			b.scanEnds(needed)
			if len(on) == 1 {
				b.wantSent("it is not of these kinds")
				b.scan("connection reset")
				b.wantSent("one other failure makes it no other kind")
				continue
			}
			b.wantSent("it needs a login", "postrider: 1 inbox needs a login")
			if len(b.relay.sent) == 0 {
				t.FailNow()
			}
			raw := body(t, b.relay.sent[0].raw)
			if !strings.Contains(raw, "Inbox desk@firm.example has needed a login since ") ||
				!strings.Contains(raw, "corp refuses the login") ||
				!strings.Contains(raw, "postrider inbox login desk@firm.example") {
				t.Errorf("the digest is\n%s\nwant the reason and the command in it", raw)
			}
		}
		for range 4 {
			b.scanEnds(needed)
			b.wantSent("it still needs one")
		}
		b.scan("")
		b.wantSent("somebody logged in", reachable)
	})
}

func TestOn(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		b.dies("one")
		b.task("two")
		b.ends(tasks.Uncertain)
		for range 3 {
			b.scan("no")
		}
		for _, tt := range []struct {
			on   []Kind
			want string
		}{{[]Kind{Uncertain}, oneUncertain}, {[]Kind{Unreachable}, unreachable}, {[]Kind{Dead, Uncertain}, oneDead}} {
			b.Config.On = tt.on
			b.wantSent(fmt.Sprint("on ", tt.on), tt.want)
		}
	})
}

// TestSpellings checks that another spelling of an address gets nothing again.
func TestSpellings(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for i, to := range []string{"Ops@bücher.example", "ops@BÜCHER.example", "OPS@xn--bcher-kva.example"} {
			b.Config.To, b.Config.Worker = []string{to}, fmt.Sprintf("host-%d:1:x", i)
			b.dies("one")
			b.later()
			b.wantSent(to, oneDead)
			if len(b.relay.sent) == 1 && b.relay.sent[0].env.To[0] != to {
				t.Errorf("the mail went to %s, want the configured spelling %s", b.relay.sent[0].env.To[0], to)
			}
		}
	})
}

// TestOneOfTwo checks that each address gets each notice once, also when another address fails.
func TestOneOfTwo(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.Config.To = []string{"gone@firm.example", operator}
	b.dies("one")
	b.relay.status = forward.Refused
	b.wantSent("both are refused")
	b.relay.status = ""
	b.wantSent("both get it", oneDead, oneDead)
	if a, z := b.relay.sent[0], b.relay.sent[1]; a.env.To[0] != "gone@firm.example" || z.env.To[0] != operator ||
		a.env.From != "" || !a.env.NullOnly {
		t.Errorf("the envelopes are %+v and %+v, want one for each, with a null reverse-path", a.env, z.env)
	}
	b.relay.err = &forward.Error{Relay: "r:25", Err: errors.New("down")}
	b.later()
	b.dies("two")
	b.wantSent("the relay is down")
	if got := strings.Count(b.logs.String(), "down"); got != 1 {
		t.Errorf("the relay was tried %d times, want once:\n%s", got, b.logs)
	}
}

// TestClock checks that the time between two digests is measured by the database's clock.
func TestClock(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	b.wantSent("dead", oneDead)
	b.dies("two")
	b.ahead = 59 * time.Minute
	b.wantSent("a minute too early")
	b.ahead = 61 * time.Minute
	b.wantSent("in time", oneDead)
	b.ahead = 0
	b.dies("three")
	b.wantSent("the clock was set back", oneDead)
}

func TestPause(t *testing.T) {
	for n, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: 0, 3: time.Minute, 4: 2 * time.Minute,
		8: 32 * time.Minute, 9: time.Hour, 1 << 30: time.Hour,
	} {
		if got := pause(n); got != want {
			t.Errorf("pause(%d) = %s, want %s", n, got, want)
		}
	}
}

// TestForgets checks that the rows of a removed task are deleted.
func TestForgets(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		id := b.dies("one")
		for range 3 {
			b.scan("no")
		}
		b.wantSent("both", "postrider: 1 message is dead, 1 inbox is unreachable")
		if _, err := b.queue.Purge(b.ctx, tasks.By{Who: "ann"}, id); err != nil {
			t.Fatal(err)
		}
		b.dies("two")
		b.wantSent("another", oneDead)
		if n := b.count(`SELECT COUNT(*) FROM monitored_emails_told`); n != 2 {
			t.Errorf("monitored_emails_told has %d rows, want 2: the inbox, and the remaining task", n)
		}
	})
}

// TestIndex checks that the query for new failures does not read all tasks.
func TestIndex(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		if b.db.Dialect() == db.MySQL {
			for range 8 {
				b.task("fine")
			}
			b.ends(tasks.Forwarded)
			b.exec(`ANALYZE TABLE monitored_emails_tasks`)
		}
		plan := b.plan(sqlEndings, hookKey, []int64{b.in.ID}, []Kind{Dead, Uncertain})
		if !strings.Contains(plan, "monitored_emails_tasks_ended") {
			t.Errorf("the plan is %s, want it to use monitored_emails_tasks_ended", plan)
		}
	})
}
