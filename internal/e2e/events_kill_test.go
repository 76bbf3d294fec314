//go:build linux

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// TestEventsKilled kills a pass while a receiver has the events of registrations and has not
// answered, and the next one while it has those of the ends. None is lost, a repeat has the same ID
// and octets, and what belongs to one task stays in order. Nobody sends what may still be under
// way.
func TestEventsKilled(t *testing.T) {
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) {
			testEventsKilled(t, newWorld(t, kind))
		})
	}
}

func testEventsKilled(t *testing.T, w *world) {
	const n = 3
	h := withHook(t, w, "[registered, forwarded]")
	w.addInbox(desk, "--start", "all")
	w.imap.Append(t, desk, "INBOX", mails(n, "letter")...)
	h.status.Store(503) // until all is forwarded
	w.pass(0)
	h.status.Store(0)
	w.must(0, "event", "enable", "crm")
	w.must(0, "event", "retry", "--status", "waiting", "--yes")
	for _, held := range []string{"registered", "forwarded"} {
		h.killIn(w, held, n)
		_, before := h.events()
		w.aged("monitored_emails", "scan_until")
		w.pass(0)
		if _, after := h.events(); after != before {
			t.Errorf("%d events came while those of the killed pass may still be under way, want none", after-before)
		}
		w.aged("monitored_outbox", "visible_at")
	}
	h.hold(nil)
	w.pass(0)
	want := []string{
		"task.forwarded.v1 1", "task.forwarded.v1 2", "task.forwarded.v1 3",
		"task.registered.v1 1", "task.registered.v1 2", "task.registered.v1 3",
	}
	if types, all := h.events(); !slices.Equal(types, want) || all != 2*len(want) {
		t.Errorf("the events are %q, %d in all; want %q, twice each", types, all, want)
	}
	h.wantOrder(t)
	w.wantEventsDone()
}

// wantEventsDone checks that no event is left.
func (w *world) wantEventsDone() {
	w.t.Helper()
	if left := w.must(0, "event", "list", "--status", "waiting,in_progress,dead", "--json").stdout; left != "" {
		w.t.Errorf("left are\n%s\nwant all done", left)
	}
}

// TestEventsKilledAtDatabase kills passes when they make events, and when they record that events
// have arrived: before the database hears that, and before its answer is heard.
func TestEventsKilledAtDatabase(t *testing.T) {
	for _, kind := range []string{"mariadb", "mysql"} {
		t.Run(kind, func(t *testing.T) { testEventsKilledAtDatabase(t, newWorld(t, kind)) })
	}
}

func testEventsKilledAtDatabase(t *testing.T, w *world) {
	h := withHook(t, w, "[registered, forwarded]")
	server := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	proxy := testserver.NewCutProxy(t, server.FindString(w.database))
	w.database = server.ReplaceAllString(w.database, fmt.Sprintf("127.0.0.1:%d", proxy.Port))
	w.configure()
	w.addInbox(desk, "--start", "all")
	places := []string{
		"DELETE FROM monitored_occurrences", "INSERT INTO monitored_outbox (", "UPDATE monitored_outbox SET status",
	}
	n := 0
	for _, text := range places {
		for _, at := range []finder{asks(text), answerTo(text)} {
			w.imap.Append(t, desk, "INBOX", mails(1, fmt.Sprint("letter ", n))...)
			if n++; !w.killWhere(proxy, at, func() {}) {
				t.Errorf("no pass was killed at %q", text)
			}
			w.endLeases()
			w.aged("monitored_outbox", "visible_at")
		}
	}
	w.pass(0)
	var want []string
	for _, one := range w.tasks() { // a transaction that was rolled back may have used up IDs
		want = append(want, fmt.Sprint("task.forwarded.v1 ", one.ID), fmt.Sprint("task.registered.v1 ", one.ID))
	}
	slices.Sort(want)
	if len(want) != 2*n {
		t.Errorf("%d tasks, want %d", len(want)/2, n)
	}
	if types, _ := h.events(); !slices.Equal(types, want) {
		t.Errorf("the events are %q, want %q", types, want)
	}
	h.wantOrder(t)
	w.wantEventsDone()
}

// killIn starts a pass, and kills it once n events of a kind wait for their answers.
func (h *hook) killIn(w *world, kind string, n int) {
	w.t.Helper()
	came := make(chan struct{}, 10*n)
	h.hold(func(e event) bool {
		holds := strings.Contains(e.Type, kind)
		if holds {
			came <- struct{}{}
		}
		return holds
	})
	p := w.start(nil, "run")
	for range n {
		select {
		case <-came:
		case <-p.ended():
			w.t.Fatalf("the pass ended before it sent %d events of the kind %s:\n%s", n, kind, p.wait().stderr)
		case <-time.After(time.Minute):
			w.t.Fatalf("the pass does not send %d events of the kind %s", n, kind)
		}
	}
	_ = p.cmd.Process.Kill()
	if res := p.wait(); res.code != -1 {
		w.t.Fatalf("exit %d, want it killed\n%s", res.code, res.stderr)
	}
}

func (h *hook) hold(holds func(event) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = holds
}

// wantOrder checks that repeats are the same, and that no registration comes after the end of its
// task.
func (h *hook) wantOrder(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := map[string]bool{}
	for _, e := range h.order {
		if e.octets != h.got[e.ID][0].octets {
			t.Errorf("the event %s has the octets\n%s\nand before it had\n%s", e.ID, e.octets, h.got[e.ID][0].octets)
		}
		ended[e.Subject] = ended[e.Subject] || strings.Contains(e.Type, "forwarded")
		if ended[e.Subject] && strings.Contains(e.Type, "registered") {
			t.Errorf("task %s is registered after it was forwarded", e.Subject)
		}
	}
}
