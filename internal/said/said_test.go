package said

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/health"
	"postrider/internal/pass"
	"postrider/internal/testserver"
)

// world is a database with a clock, and several stores of it.
type world struct {
	t          *testing.T
	now        time.Time
	db         *db.DB
	statements testserver.Statements
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	w.db, err = db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")},
		db.WithNow(func() time.Time { return w.now }), db.WithPool(w.statements.Pool))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	return w
}

func (w *world) pass(r pass.Report, alerts ...health.Alert) []string {
	w.t.Helper()
	return w.partOf(r, true, alerts...)
}

// partOf is a pass over some inboxes unless whole is set.
func (w *world) partOf(r pass.Report, whole bool, alerts ...health.Alert) []string {
	w.t.Helper()
	lines, err := New(w.db, time.Hour).AfterPass(w.t.Context(), r, alerts, whole)
	if err != nil {
		w.t.Fatal(err)
	}
	return texts(lines)
}

func texts(lines []Line) []string {
	var out []string
	for _, l := range lines {
		s := l.Failure + l.Good + l.Sentence
		if l.NoInbox {
			s = "no inbox"
		}
		out = append(out, strings.Trim(l.Who()+": "+s+": "+l.Error, ": "))
	}
	return out
}

func (w *world) want(when string, got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s it says\n%q\nwant\n%q", when, got, want)
	}
}

func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

// reports of one inbox.
func inbox(in pass.InboxReport) pass.Report {
	in.Email = "desk@firm.example"
	return pass.Report{Inboxes: []pass.InboxReport{in}}
}

var (
	works  = inbox(pass.InboxReport{})
	fails  = inbox(pass.InboxReport{Error: "refused"})
	others = inbox(pass.InboxReport{Busy: "host b scans it"})
)

func TestInbox(t *testing.T) {
	w := newWorld(t)
	w.want("a pass without trouble:", w.pass(works))
	w.want("an inbox that begins to fail:", w.pass(fails), "desk@firm.example: the inbox failed: refused")
	w.after(59 * time.Minute)
	w.want("before the reminder:", w.pass(fails))
	w.after(time.Minute)
	w.want("the reminder:", w.pass(fails), "desk@firm.example: the inbox still fails after 1 h: refused")
	w.want("right after it:", w.pass(fails))
	w.after(2*time.Hour + 20*time.Minute)
	w.want("while another run scans it:", w.pass(others))
	stopped := works
	stopped.Interrupted = true
	w.want("a pass that was stopped:", w.pass(stopped))
	w.want("its end:", w.pass(works), "desk@firm.example: works again after 3 h 20 min")
	w.want("after its end:", w.pass(works))
	w.want("the next failure:", w.pass(fails), "desk@firm.example: the inbox failed: refused")
}

// TestIdle: a pass with nothing to say asks once, and writes nothing.
func TestIdle(t *testing.T) {
	w := newWorld(t)
	w.pass(fails)
	w.statements.Taken()
	w.pass(fails)
	if texts, commits := w.statements.Taken(); len(texts) != 1 || commits != 0 {
		t.Errorf("it takes %d commits and the statements %q, want one that reads", commits, texts)
	}
}

func TestServer(t *testing.T) {
	w := newWorld(t)
	r := pass.Report{Inboxes: []pass.InboxReport{{Email: "a", Error: "refused"}}}
	for range 25 {
		email := string(rune('b' + len(r.Inboxes)))
		r.Inboxes = append(r.Inboxes, pass.InboxReport{Email: email, Error: "not tried", Left: "imap:993"})
	}
	r.Inboxes[25].Error = "tried at the same time, and refused"
	got := w.pass(r)
	const skipped = " and 5 more: the server cannot be reached; " +
		"its remaining inboxes are skipped in this pass: not tried"
	if len(got) != 2 || !strings.HasSuffix(got[1], skipped) {
		t.Errorf("it says %q, want one line for all that were not tried", got)
	}
	for i := range r.Inboxes {
		r.Inboxes[i].Error = ""
	}
	if got := w.pass(r); len(got) != 1 {
		t.Errorf("at the end it says %q, want one line", got)
	}
}

const relayFailed = "the relay failed: forwarding stops for this pass; " +
	"the remaining messages wait for the next: connection refused"

func TestRelay(t *testing.T) {
	w := newWorld(t)
	down := works
	down.RelayTried, down.RelayError = true, "connection refused"
	w.want("a relay that begins to fail:", w.pass(down), relayFailed)
	w.want("again:", w.pass(down))
	w.after(90 * time.Minute)
	w.want("without mail:", w.pass(works))
	w.want("the reminder:", w.pass(down), "the relay still fails after 1 h 30 min: connection refused")
	sent := works
	sent.RelayTried = true
	w.want("its end:", w.pass(sent), "the relay takes mail again after 1 h 30 min")
}

// TestMessages: each death is said, and that messages wait once in a while.
func TestMessages(t *testing.T) {
	w := newWorld(t)
	r := inbox(pass.InboxReport{Counters: pass.Counters{Retry: 2, Dead: 1, Waiting: 3}})
	const dead = "1 dead (see `postrider task list --status dead`), 3 waiting for smtp.limits"
	w.want("the first:", w.pass(r), "desk@firm.example: 2 to be retried, "+dead)
	w.want("the second:", w.pass(r), "desk@firm.example: "+dead)
	r.Inboxes[0].Counters.Dead = 0
	w.want("without deaths:", w.pass(r))
	w.after(time.Hour)
	w.want("the reminder:", w.pass(r), "desk@firm.example: 2 to be retried, 3 waiting for smtp.limits")
	w.want("on a terminal:", Troubles(r, nil), "desk@firm.example: 2 to be retried, 3 waiting for smtp.limits")
}

func TestAlerts(t *testing.T) {
	w := newWorld(t)
	alert := health.Alert{Inbox: "desk@firm.example", Kind: health.Dead, Message: "desk: too many"}
	w.want("an alert:", w.pass(works, alert), "desk: too many")
	w.want("while it lasts:", w.pass(works, alert))
	w.want("a pass over other inboxes:", w.partOf(works, false))
	w.want("while it lasts:", w.pass(works, alert))
	w.want("its end:", w.pass(works))
	w.want("again:", w.pass(works, alert), "desk: too many")
	crm := health.Alert{Destination: "crm", Kind: health.EventsDead, Message: "crm: too many"}
	bus := health.Alert{Destination: "bus", Kind: health.EventsDead, Message: "bus: too many"}
	w.want("of a destination:", w.pass(works, alert, crm), "crm: too many")
	w.want("of another:", w.pass(works, alert, crm, bus), "bus: too many")
}

func TestNoInbox(t *testing.T) {
	w := newWorld(t)
	w.want("no inbox:", w.pass(pass.Report{}), "no inbox")
	w.after(2 * time.Hour)
	w.want("later:", w.pass(pass.Report{}))
	w.want("an inbox:", w.pass(works))
	w.want("none again:", w.pass(pass.Report{}), "no inbox")
}

// TestForgotten: what nobody has seen for a month is no longer known.
func TestForgotten(t *testing.T) {
	w := newWorld(t)
	w.pass(fails)
	w.after(31 * 24 * time.Hour)
	w.pass(pass.Report{Inboxes: []pass.InboxReport{{Email: "other@firm.example", Error: "refused"}}})
	w.want("the removed inbox, added again:", w.pass(works))
}

// TestOneSays: of many processes that see the same change, one says it.
func TestOneSays(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		name   string
		report pass.Report
		after  time.Duration
	}{{"it begins", fails, 0}, {"it lasts", fails, time.Hour}, {"it ends", works, 0}} {
		w.after(step.after)
		var said atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				lines, err := New(w.db, time.Hour).AfterPass(t.Context(), step.report, nil, true)
				if err != nil {
					t.Error(err)
				}
				said.Add(int64(len(lines)))
			})
		}
		all.Wait()
		if said.Load() != 1 {
			t.Errorf("%s: %d processes say it, want 1", step.name, said.Load())
		}
	}
}

// TestNoDatabase: without the database everything that holds is said.
func TestNoDatabase(t *testing.T) {
	w := newWorld(t)
	w.pass(fails)
	_ = w.db.Close()
	lines, err := New(w.db, time.Hour).AfterPass(t.Context(), fails, nil, true)
	if err == nil {
		t.Error("there is no error, want that the database is closed")
	}
	w.want("without a database:", texts(lines), "desk@firm.example: the inbox failed: refused")
}

// TestMeanwhile: a process that stays up does not repeat what a pass said, nor a pass what that
// said. Of a relay that was not tried it says nothing.
func TestMeanwhile(t *testing.T) {
	w := newWorld(t)
	meanwhile := func(r pass.Report, inboxes ...pass.InboxReport) []string {
		t.Helper()
		r.Inboxes = inboxes
		lines, err := New(w.db, time.Hour).Meanwhile(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return texts(lines)
	}
	a := pass.InboxReport{Email: "a", Error: "no route", Left: "imap"}
	b := pass.InboxReport{Email: "b", Error: "no route", Left: "imap"}
	w.want("two inboxes:", meanwhile(pass.Report{}, a, b),
		"a, b: the server cannot be reached; postrider tries again with growing pauses: no route")
	failed := pass.Report{Inboxes: []pass.InboxReport{a, b}, RelayTried: true, RelayError: "connection refused"}
	w.want("a pass:", w.pass(failed), relayFailed)
	w.want("after it:", meanwhile(failed, a, b))
	a.Error, b.Error, b.Busy = "", "", "not known yet"
	w.want("one works:", meanwhile(pass.Report{}, a, b), "a: works again")
	w.want("the relay works:", meanwhile(pass.Report{RelayTried: true}, a, b), "the relay takes mail again")
	b.Busy = ""
	w.want("the other works:", w.pass(pass.Report{Inboxes: []pass.InboxReport{a, b}}), "b: works again")
	w.want("no inbox:", meanwhile(pass.Report{}), "no inbox")
}
