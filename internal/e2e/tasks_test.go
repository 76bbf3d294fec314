package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// TestTasksByFilter: the relay refused many messages, and the connection broke after others. An
// operator settles all of them by filter while a run is active, purges them, and moves the cursor
// back: each arrives once.
func TestTasksByFilter(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		var fixed atomic.Bool
		w.startSink(refuseAndBreak(&fixed))
		w.routes = "  - {name: refused, match: {subject: bad}, to: [closed@firm.example]}\n" +
			"  - {name: lost, match: {subject: lost}, to: [lost@firm.example], uncertain: hold}\n" + w.routes
		w.configure()
		w.addInbox(desk, "--start", "all")
		good, bad, lost := mails(20, "good"), mails(60, "bad"), mails(7, "lost")
		for _, group := range [][][]byte{good, bad, lost} {
			w.imap.Append(t, desk, "INBOX", group...)
		}
		if r, _ := w.pass(75); r.Totals.Forwarded != 20 || r.Totals.Dead != 60 || r.Totals.Uncertain != 7 {
			t.Fatalf("the pass reports %+v, want 20 forwarded, 60 dead, 7 uncertain", r.Totals)
		}

		fixed.Store(true)
		asked := w.must(2, "task", "retry", "--inbox", desk).stderr
		if want := "Retry 67 tasks: 7 uncertain, 60 dead, in " + desk + "?"; !strings.Contains(asked, want) {
			t.Errorf("retry asked %q, want %q", asked, want)
		}
		run := w.start(nil, "run")
		w.change(60, "retry", "--route", "refused")
		w.change(7, "resolve", "--delivered", "--older-than", "0s")
		if res := run.wait(); res.code != 0 {
			t.Errorf("the run beside it: exit %d, want 0\n%s", res.code, res.stderr)
		}
		w.pass(0)
		w.wantOnce(good, bad, lost)
		w.wantTrail(w.tasks("--route", "refused")[0].ID, "dead", "requeued")
		uncertain := w.tasks("--route", "lost")[0]
		w.wantTrail(uncertain.ID, "uncertain", "resolved")

		w.change(0, "purge", "--older-than", "1h")
		w.change(87, "purge", "--older-than", "0s")
		w.wantTrail(uncertain.ID, "uncertain", "resolved", "purged")
		w.must(0, "inbox", "rewind", desk, "--to-start", "--yes")
		w.pass(0)
		w.wantOnce(good, bad, lost)
	})
}

// TestPurgeDuplicate: who got which content stays known after tasks are purged.
func TestPurgeDuplicate(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.addInbox(desk, "--start", "all")
	msg := mails(1, "twice")
	w.imap.Append(t, desk, "INBOX", msg[0], msg[0])
	w.pass(0)
	w.change(1, "purge", "--status", "skipped")
	w.change(1, "purge", "--status", "forwarded")
	w.imap.Append(t, desk, "INBOX", msg[0])
	w.again(1, 1, "a copy of what was purged")
	w.wantOnce(msg)
}

// refuseAndBreak refuses one recipient until fixed is set, and breaks the connection after the
// content for another.
func refuseAndBreak(fixed *atomic.Bool) func(smtpsink.Event) smtpsink.Action {
	return func(e smtpsink.Event) smtpsink.Action {
		switch {
		case e.Stage == "rcpt" && e.Arg == "closed@firm.example" && !fixed.Load():
			return smtpsink.Action{Code: 550, Text: "5.2.1 mailbox disabled"}
		case e.Stage == "dot" && e.Message.To[0] == "lost@firm.example":
			return smtpsink.Action{AcceptAndDrop: true}
		}
		return smtpsink.Action{}
	}
}

// change runs a task command with a filter, and expects that many tasks to be changed.
func (w *world) change(want int, args ...string) {
	w.t.Helper()
	out := w.must(0, append(append([]string{"task"}, args...), "--yes", "--json")...).stdout
	text := fmt.Sprintf(`{"dry_run":false,"changed":%d,"not_changed":[],"moved_on":0,"left":0}`, want)
	if strings.TrimSpace(out) != text {
		w.t.Errorf("task %s printed %q, want %s", strings.Join(args, " "), out, text)
	}
}

// wantTrail checks the audit trail of a task, which may be purged. The first line is by a worker,
// the others are by an operator.
func (w *world) wantTrail(id int64, want ...string) {
	w.t.Helper()
	var shown struct {
		Events []struct{ Event, Worker string }
	}
	if err := json.Unmarshal([]byte(w.must(0, "task", "show", fmt.Sprint(id), "--json").stdout), &shown); err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for i, e := range shown.Events {
		got = append(got, e.Event)
		if person := strings.Contains(e.Worker, "@"); person != (i > 0) {
			w.t.Errorf("event %d of task %d, %s, is by %q", i, id, e.Event, e.Worker)
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the trail of task %d is %q, want %q", id, got, want)
	}
}
