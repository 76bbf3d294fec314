package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/forward"
	"postrider/internal/limits"
	"postrider/internal/tasks"
)

const (
	oneDead      = "postrider: 1 message is dead"
	oneUncertain = "postrider: 1 message is uncertain"
	unreachable  = "postrider: 1 inbox is unreachable"
	reachable    = "postrider: 1 inbox is reachable again"
)

func TestTellsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.task("fine")
		b.ends(tasks.Forwarded)
		b.wantTold("nothing failed")
		b.dies("one")
		b.dies("two")
		b.wantTold("two are dead", "postrider: 2 messages are dead")
		b.wantTold("at once again")
		b.dies("three")
		b.wantTold("another death within notify.at_most")
		b.later()
		b.wantTold("when that is over", oneDead)
		if raw := body(t, b.relay.sent[0].raw); strings.Count(raw, "Task ") != 1 || !strings.Contains(raw, "Task 4 is dead") {
			t.Errorf("the second digest is\n%s\nwant task 4 alone in it", raw)
		}
		b.later()
		b.wantTold("nothing new")
	})
}

func TestTellsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		id := b.dies("one")
		b.wantTold("dead", oneDead)
		first := messageID(b.relay.sent[0].raw)
		_, err := b.queue.Requeue(b.ctx, "ann", id)
		b.check(err)
		b.later()
		b.wantTold("put back by a person, and not tried yet")
		b.ends(tasks.Uncertain, tasks.Delivery{Recipient: "a@firm.example", Status: tasks.Sending})
		b.wantTold("uncertain now", oneUncertain)
		if !strings.Contains(body(t, b.relay.sent[0].raw), fmt.Sprintf("postrider task resolve --delivered %d", id)) {
			t.Errorf("the digest is\n%s\nwant the command that settles the task", b.relay.sent[0].raw)
		}
		_, err = b.queue.Requeue(b.ctx, "ann", id)
		b.check(err)
		b.ends(tasks.Dead, refused)
		b.later()
		b.wantTold("dead once more", oneDead)
		if again := messageID(b.relay.sent[0].raw); first == again {
			t.Errorf("two digests have the Message-ID %s, want another one for another death", again)
		}
		_, err = b.queue.Requeue(b.ctx, "ann", id)
		b.check(err)
		b.ends(tasks.Dead, refused)
		_, err = b.queue.Skip(b.ctx, "ann", id)
		b.check(err)
		b.later()
		b.wantTold("a person has dealt with it already")
	})
}

func messageID(raw string) string {
	_, rest, _ := strings.Cut(raw, "\r\nMessage-ID: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

func TestTellsOfInboxes(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		for range 2 {
			b.scan("log in: the server refused the password")
			b.scan("log in: the server refused the password")
			b.wantTold("two failures are none yet")
			b.scan("")
		}
		b.wantTold("a blip is over")
		for range 4 {
			b.scan("log in:\n the server refused the password")
		}
		b.wantTold("it fails", unreachable)
		if raw := body(t, b.relay.sent[0].raw); !strings.Contains(raw, "(4 runs in a row)") || !strings.Contains(raw, "log in: the server refused the password") ||
			!strings.Contains(raw, "postrider inbox check desk@firm.example") {
			t.Errorf("the digest is\n%s\nwant how often, the error and the command", raw)
		}
		b.scan("still")
		b.wantTold("it still fails")
		b.scan("")
		b.wantTold("it is over", reachable)
		b.wantTold("nothing new")

		for range 3 {
			b.scan("again")
		}
		b.scan("")
		b.wantTold("it began and was over between two digests", reachable)
		for range 3 {
			b.scan("again")
		}
		b.exec(`UPDATE monitored_emails SET is_active = 0`)
		b.wantTold("a disabled inbox")
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
			b.wantTold(fmt.Sprint("on ", tt.on), tt.want)
		}
	})
}

// TestSpellings: an address that is written in another way is told nothing again.
func TestSpellings(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for i, to := range []string{"Ops@bücher.example", "ops@BÜCHER.example", "OPS@xn--bcher-kva.example"} {
			b.Config.To, b.Config.Worker = []string{to}, fmt.Sprintf("host-%d:1:x", i)
			b.dies("one")
			b.later()
			b.wantTold(to, oneDead)
			if len(b.relay.sent) == 1 && b.relay.sent[0].env.To[0] != to {
				t.Errorf("it went to %s, want it to go to %s as that is written", b.relay.sent[0].env.To[0], to)
			}
		}
	})
}

func TestNotTold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		relay  *fakeRelay
		logged string
	}{
		{"the relay is down", &fakeRelay{err: &forward.Error{Relay: "r:25", Stage: forward.StageConnect, Err: errors.New("refused")}}, "relay r:25: connect: refused"},
		{"refused", &fakeRelay{status: forward.Refused}, "refused: the relay says 550 5.1.1 no"},
		{"put off", &fakeRelay{status: forward.Deferred}, "deferred: the relay says 550"},
		{"the reply is lost", &fakeRelay{status: forward.Unknown}, "unknown: the relay says 550"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, config(t, "sqlite"))
			b.dies("one")
			b.relay.err, b.relay.status = tt.relay.err, tt.relay.status
			for i := range 4 { // after the third time it pauses
				b.wantTold("it cannot be told")
				if got := strings.Count(b.logs.String(), tt.logged); got != min(i+1, 3) {
					t.Fatalf("after %d passes the log has %q %d times, want %d:\n%s", i+1, tt.logged, got, min(i+1, 3), b.logs)
				}
			}
			waiting, err := b.Store.Waiting(b.ctx, b.Config)
			b.check(err)
			if len(waiting) != 1 || waiting[0].Channel != "mail:"+operator || waiting[0].Waiting != 1 || !strings.Contains(waiting[0].LastError, tt.logged) {
				t.Errorf("what waits is %+v, want one message for %s and %q", waiting, operator, tt.logged)
			}
			b.relay.err, b.relay.status = nil, ""
			b.later()
			b.wantTold("it can be told", oneDead)
			if waiting, err = b.Store.Waiting(b.ctx, b.Config); err != nil || len(waiting) != 0 {
				t.Errorf("what waits is %+v, error %v, want nothing", waiting, err)
			}
		})
	}
}

// TestLimited: a notice waits for a limit of the provider, and that is no failure.
func TestLimited(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	b.relay.err = &limits.Reached{Key: "smtp.limits.per_hour", Limit: 5, Until: time.Now(), Wait: time.Minute}
	for range 5 {
		b.wantTold("the limit is used up")
	}
	if log := b.logs.String(); strings.Contains(log, "WARN") || strings.Count(log, "smtp.limits.per_hour (5) is used up") != 5 {
		t.Errorf("the log is\n%s\nwant the limit each time, and no warning", log)
	}
	b.relay.err = nil
	b.wantTold("there is room again", oneDead)
}

// TestOneOfTwo: what one operator cannot be told is told to the other, once.
func TestOneOfTwo(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.Config.To = []string{"gone@firm.example", operator}
	b.dies("one")
	b.relay.status = forward.Refused
	b.wantTold("both are refused")
	b.relay.status = ""
	b.wantTold("both get it", oneDead, oneDead)
	if a, z := b.relay.sent[0], b.relay.sent[1]; a.env.To[0] != "gone@firm.example" || z.env.To[0] != operator || a.env.From != "" || !a.env.NullOnly {
		t.Errorf("the envelopes are %+v and %+v, want one for each, with a null reverse-path", a.env, z.env)
	}
	b.relay.err = &forward.Error{Relay: "r:25", Err: errors.New("down")}
	b.later()
	b.dies("two")
	b.wantTold("the relay is down")
	if got := strings.Count(b.logs.String(), "down"); got != 1 {
		t.Errorf("the relay was tried %d times, want once:\n%s", got, b.logs)
	}
}

// TestClock: the time between two digests is that of the database.
func TestClock(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	b.wantTold("dead", oneDead)
	b.dies("two")
	b.ahead = 59 * time.Minute
	b.wantTold("a minute too early")
	b.ahead = 61 * time.Minute
	b.wantTold("in time", oneDead)
	b.ahead = 0
	b.dies("three")
	b.wantTold("a clock that was put back keeps nothing", oneDead)
}

func TestPause(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 0, 1: 0, 2: 0, 3: time.Minute, 4: 2 * time.Minute, 8: 32 * time.Minute, 9: time.Hour, 1 << 30: time.Hour} {
		if got := pause(n); got != want {
			t.Errorf("after %d failures there is a pause of %s, want %s", n, got, want)
		}
	}
}

// TestForgets: a task that is gone leaves nothing behind, and neither does an inbox.
func TestForgets(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.Config.AtMost = 0
		id := b.dies("one")
		for range 3 {
			b.scan("no")
		}
		b.wantTold("both", "postrider: 1 message is dead, 1 inbox is unreachable")
		if _, err := b.queue.Purge(b.ctx, "ann", id); err != nil {
			t.Fatal(err)
		}
		b.dies("two")
		b.wantTold("another", oneDead)
		if n := b.count(`SELECT COUNT(*) FROM monitored_emails_told`); n != 2 {
			t.Errorf("%d things are known as told, want 2: the inbox, and the task that is still there", n)
		}
	})
}

// TestDamaged: what somebody wrote into the database is not believed, is named with its row, and keeps nothing else from being told.
func TestDamaged(t *testing.T) {
	for _, tt := range []struct{ name, sql, told, logged string }{
		{"no time", `UPDATE monitored_emails_tasks SET finished_at = 'gone' WHERE id = 1`, oneDead + ", 1 inbox is unreachable", `task 1 cannot be told of: finished_at of its row in the table monitored_emails_tasks is \"gone\", and no time`},
		{"an empty time", `UPDATE monitored_emails_tasks SET finished_at = NULL WHERE id = 1`, oneDead + ", 1 inbox is unreachable", "is NULL, and no time"},
		{"a time as SQLite writes it", `UPDATE monitored_emails_tasks SET finished_at = datetime('now') WHERE id = 1`, "postrider: 2 messages are dead, 1 inbox is unreachable", ""},
		{"a time of another zone", `UPDATE monitored_emails_tasks SET finished_at = '2026-11-20 11:00:00+01:00' WHERE id = 1`, "postrider: 2 messages are dead, 1 inbox is unreachable", ""},
		{"an outage with a T", `UPDATE monitored_emails SET outage_since = '2026-11-20T10:00:00Z'`, "postrider: 2 messages are dead, 1 inbox is unreachable", ""},
		{"an outage since never", `UPDATE monitored_emails SET outage_since = 'gone'`, "postrider: 2 messages are dead", `inbox desk@firm.example cannot be told of: in its row in the table monitored_emails outage_since is \"gone\"`},
		{"an outage until never", `UPDATE monitored_emails SET outage_until = 'gone'`, "postrider: 2 messages are dead", `outage_until \"gone\"`},
		{"less than no scans", `UPDATE monitored_emails SET failed_scans = -7`, "postrider: 2 messages are dead", "failed_scans -7"},
		{"a word for a number", `UPDATE monitored_emails SET failed_scans = 'many'`, "", "in the table monitored_emails: "},
		{"a delivery without sense", `UPDATE monitored_emails_deliveries SET status = 'odd'`, "postrider: 2 messages are dead, 1 inbox is unreachable", ""},
		{"a holder from the future", `INSERT INTO monitored_emails_channels (channel, told_at, failures, failed_at, last_error, holder, held_at)
			VALUES ('mail:ops@firm.example', 9000000000000000000, 9000000000000000000, 9000000000000000000, '', 'odd', 9000000000000000000)`, "postrider: 2 messages are dead, 1 inbox is unreachable", ""},
		{"less than no failures", `INSERT INTO monitored_emails_channels (channel, told_at, failures, failed_at, last_error, holder, held_at)
			VALUES ('mail:ops@firm.example', -9000000000000000000, -9000000000000000000, 0, '', 'odd', -9000000000000000000)`, "postrider: 2 messages are dead, 1 inbox is unreachable", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, config(t, "sqlite"))
			b.Config.AtMost = 0
			b.dies("one")
			b.dies("two")
			for range 3 {
				b.scan("no")
			}
			b.exec(tt.sql)
			var want []string
			if tt.told != "" {
				want = append(want, tt.told)
			}
			b.wantTold(tt.name, want...)
			if !strings.Contains(b.logs.String(), tt.logged) || strings.Contains(b.logs.String(), "WARN") != (tt.logged != "") {
				t.Errorf("the log is\n%s\nwant %q", b.logs, tt.logged)
			}
			b.wantTold("once more")
		})
	}
}

func TestStopped(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	b.Tell(ctx, true)
	for range 4 { // no failures, after which there would be a pause
		ctx, cancel = context.WithCancel(b.ctx)
		b.Relay = relayFunc(func() { cancel() })
		b.Tell(ctx, true)
	}
	b.Relay = b.relay
	if b.logs.Len() > 0 {
		t.Errorf("the log is %q, want nothing about what was stopped", b.logs)
	}
	b.wantTold("the next run", oneDead)
}

// relayFunc fails after something has happened.
type relayFunc func()

func (f relayFunc) Begin(context.Context, forward.Envelope, *forward.Content) (Transaction, error) {
	f()
	return &fakeTransaction{}, context.Canceled
}

// TestIndex: what there is to tell is found without reading all tasks.
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
