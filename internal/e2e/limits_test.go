//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"
)

// limit adds smtp.limits to the configuration.
func (w *world) limit(limits string) {
	w.t.Helper()
	w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, security: none, limits: {%s}", w.smtpPort, limits)
	w.configure()
}

// hourLater makes everything that was sent an hour and a minute older.
func (w *world) hourLater() {
	w.t.Helper()
	w.behind(func(tx *gorm.DB) error {
		var text string
		if err := tx.Raw(`SELECT used FROM relay_usage`).Scan(&text).Error; err != nil {
			return err
		}
		var before, after struct {
			Sent map[string]map[int64]int `json:"sent"`
		}
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			return err
		}
		after.Sent = map[string]map[int64]int{"per_hour": {}}
		for minute, n := range before.Sent["per_hour"] {
			after.Sent["per_hour"][minute-61] = n
		}
		made, err := json.Marshal(after)
		if err != nil {
			return err
		}
		return tx.Exec(`UPDATE relay_usage SET used = ?`, string(made)).Error
	})
}

// limited does a pass under a limit, with `run --json`.
func (w *world) limited(forwarded, waiting int) {
	w.t.Helper()
	res := w.must(0, "run", "--json")
	var r struct {
		Limit  string `json:"limit_reached"`
		Totals struct{ Forwarded, Waiting, Retry int }
	}
	if err := json.Unmarshal([]byte(res.stdout), &r); err != nil {
		w.t.Fatalf("run --json printed %q: %v", res.stdout, err)
	}
	if r.Totals.Forwarded != forwarded || r.Totals.Waiting != waiting || r.Totals.Retry != 0 ||
		strings.HasPrefix(r.Limit, "smtp.limits.per_hour (10) is used up until ") != (waiting > 0) {
		w.t.Errorf("the run reports %+v, want %d forwarded, %d waiting, none to be retried, and the limit",
			r, forwarded, waiting)
	}
}

// TestLimits: 25 messages; 10 may go out in an hour, and 4 over a connection. Waiting for the limit
// is not an error, and what waits goes out later.
func TestLimits(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.extra = "alerts: {due: 0}" // a message that waits for the limit is not due
		w.limit("per_hour: 10, per_connection: 4")
		w.addInbox(desk, "--start", "all")
		msgs := mails(25, "limited")
		w.imap.Append(t, desk, "INBOX", msgs...)
		if res := w.must(0, "run"); res.stdout+res.stderr != "" {
			t.Errorf("a run that meets a limit prints %q, want nothing: cron would mail it", res.stdout+res.stderr)
		}
		if n := len(w.sink.Messages()); n != 10 {
			t.Errorf("%d messages arrived, want 10", n)
		}
		w.limited(0, 15)
		w.wantWaiting(15)

		w.hourLater()
		const due = "15, more than alerts.due (0); smtp.limits allows 10 recipients now; " +
			"see that `postrider run` is started often enough"
		w.must(75, "status").has(t, due)
		w.limited(10, 5)
		w.hourLater()
		w.limited(5, 0)
		w.wantOnce(msgs)
		over := map[int]int{}
		for _, m := range w.sink.Messages() {
			over[m.Conn]++
		}
		for conn, n := range over {
			if n > 4 {
				t.Errorf("%d messages came over connection %d, want 4 at most", n, conn)
			}
		}
		for _, task := range w.tasks() {
			if task.Status != "forwarded" || task.Attempts != 1 {
				t.Errorf("task %d is %s after %d attempts, want it forwarded by one",
					task.ID, task.Status, task.Attempts)
			}
		}
		w.must(0, "status").lacks(t, "waits")
	})
}

// wantWaiting checks what an operator sees of tasks that wait for a limit. They were never claimed.
func (w *world) wantWaiting(n int) {
	w.t.Helper()
	const limit = "smtp.limits.per_hour (10) is used up until "
	waiting := w.tasks("--status", "received")
	if len(waiting) != n || len(w.tasks("--status", "error")) != 0 {
		w.t.Fatalf("%d tasks wait, want %d, and none in error", len(waiting), n)
	}
	for _, task := range waiting {
		if task.Attempts != 0 || task.Reason != "" {
			w.t.Errorf("task %d waits after %d attempts with the reason %q, want no attempt and no reason",
				task.ID, task.Attempts, task.Reason)
		}
	}
	w.must(0, "status").has(w.t, "Mail waits: "+limit)
}

// TestLimitsOfHosts: three hosts share the limit at the same time, and use all of it.
func TestLimitsOfHosts(t *testing.T) {
	onHosts(t, func(t *testing.T, h *hosts) {
		h.limit("per_hour: 40")
		msgs := h.fill("desk@firm.example", 100)
		msgs = append(msgs, h.fill("team@firm.example", 30)...)
		a := h.on("a")
		h.eventually(h.gotten(3))
		for _, p := range []*process{a, h.on("b"), h.on("c")} {
			if r := h.ended(p, 0); r.Totals.Retry != 0 {
				t.Errorf("a host reports %+v, want nothing to be retried", r.Totals)
			}
		}
		if n := len(h.sink.Messages()); n != 40 {
			t.Errorf("%d messages arrived, want 40", n)
		}
		h.limit("per_hour: 1000")
		h.ended(h.on("b"), 0)
		h.wantOnce(msgs)
	})
}

// TestLimitsAfterAKill: messages that a killed host had in flight count as sent. No more than the
// limit goes out, and the rest later.
func TestLimitsAfterAKill(t *testing.T) {
	onHosts(t, func(t *testing.T, h *hosts) {
		h.victim = "a"
		h.limit("per_hour: 40")
		msgs := h.fill("desk@firm.example", 60)
		a := h.on("a")
		h.eventually(h.gotten(10))
		_ = a.cmd.Process.Kill()
		a.wait()
		sending := h.sending("a")
		if n := len(h.sink.Messages()); n >= 40 {
			t.Fatalf("%d messages arrived before the kill, want the kill in the middle of the backlog", n)
		}
		h.eventually(func() bool { // the leases of the killed host have to end first
			p := h.on("b")
			h.ended(p, 0, 75)
			return strings.Contains(p.stdout.String(), "limit_reached")
		})
		if n := len(h.sink.Messages()); n < 30 || n > 40 {
			t.Errorf("%d messages arrived, want nearly 40, and no more", n)
		}
		h.hourLater()
		h.eventually(func() bool { // until then b does not register the rest
			h.ended(h.on("b"), 0)
			return len(h.arrived()) == len(msgs)
		})
		h.wantAll(msgs, sending)
	})
}

// TestLimitsDamaged: the count of what was sent cannot be read. New messages are registered and
// wait, status shows them, and the error says what to do.
func TestLimitsDamaged(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.extra = "retry: {base: 1s}"
	w.limit("per_hour: 10")
	w.addInbox(desk, "--start", "all")
	first, later := mails(1, "first"), mails(2, "later")
	w.imap.Append(t, desk, "INBOX", first...)
	w.must(0, "run")
	w.sql(`UPDATE relay_usage SET used = 'gone'`)
	const damaged = "its row in the table relay_usage is damaged"
	w.imap.Append(t, desk, "INBOX", later...)
	for _, res := range []result{w.must(75, "run"), w.must(0, "status")} {
		if !strings.Contains(res.stderr, damaged) || !strings.Contains(res.stderr, "delete it") {
			t.Errorf("run says %q, want what is damaged, and the fix", res.stderr)
		}
	}
	w.must(0, "status").has(t, "2 received")
	w.sql(`DELETE FROM relay_usage`)
	w.eventually(func() bool { // after retry.base
		w.start(nil, "run").wait()
		return len(w.tasks("--status", "forwarded")) == 3
	})
	w.wantOnce(append(first, later...))
}
