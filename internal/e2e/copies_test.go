package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

const sales = "sales@firm.example"

// busyRelay starts a relay that answers 450 to recipients that begin with who, while busy is set.
func (w *world) busyRelay(who string) *atomic.Bool {
	w.t.Helper()
	var busy atomic.Bool
	busy.Store(true)
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && strings.HasPrefix(e.Arg, who) && busy.Load() {
			return smtpsink.Action{Code: 450, Text: "4.2.1 try later"}
		}
		return smtpsink.Action{}
	})
	w.configure()
	return &busy
}

// labelled is a message in two folders, as Gmail shows a label.
func (w *world) labelled() [][]byte {
	w.t.Helper()
	w.addInbox(desk, "--start", "all", "--folder", "INBOX", "--folder", "Label")
	msg := mails(1, "labelled")
	w.imap.Append(w.t, desk, "INBOX", msg...)
	w.imap.Append(w.t, desk, "Label", msg...)
	return msg
}

// retry requeues tasks, as an operator does.
func (w *world) retry(ids ...int64) {
	w.t.Helper()
	args := []string{"task", "retry"}
	for _, id := range ids {
		args = append(args, fmt.Sprint(id))
	}
	w.must(0, args...)
}

// wantTask checks where a task stands, and why.
func (w *world) wantTask(id int64, status, reason string) {
	w.t.Helper()
	for _, one := range w.tasks() {
		if one.ID == id && (one.Status != status || one.Reason != reason) {
			w.t.Errorf("task %d is %s for %q, want %s for %q", id, one.Status, one.Reason, status, reason)
		}
	}
}

func waitsFor(id int64) string { return fmt.Sprintf("waits: the same message is task %d", id) }

func duplicateOf(id int64) string { return fmt.Sprintf("duplicate: the same message is task %d", id) }

// TestRetryCopiesWithoutRoute: an operator adds the missing route and requeues everything. One of
// two copies goes out, also if the run is killed after it reserved the recipient and before it sent
// the message.
func TestRetryCopiesWithoutRoute(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			onEach(t, all, func(t *testing.T, w *world) {
				routes := w.routes
				w.routes = "  - {name: other, match: {subject: other}, to: [intake@firm.example]}\n"
				w.extra = patient
				w.configure()
				msg := w.labelled()
				if r, _ := w.pass(0); r.Totals.SkippedNoMatch != 2 {
					t.Fatalf("the pass reports %+v, want both copies skipped_no_match", r.Totals)
				}
				w.routes = routes
				w.configure()
				w.change(2, "retry", "--status", "skipped_no_match")
				if killed {
					w.killedAtRecipient()
				}
				w.eventually(func() bool {
					w.must(0, "run")
					return len(w.tasks("--status", "received", "--status", "in_progress")) == 0
				})
				w.wantOnce(msg)
				sent, left := w.tasks("--status", "forwarded"), w.tasks("--status", "skipped")
				if len(sent) != 1 || len(left) != 1 || left[0].Reason != duplicateOf(sent[0].ID) {
					t.Errorf("forwarded are %+v, skipped %+v; want one each, and the second as duplicate of the first",
						sent, left)
				}
			})
		})
	}
}

// killedAtRecipient is a run that is killed while it names the first recipient to the relay.
func (w *world) killedAtRecipient() {
	w.t.Helper()
	port := w.smtpPort
	real := w.sink
	at, never := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage != "rcpt" {
			return smtpsink.Action{}
		}
		once.Do(func() { close(at) })
		return smtpsink.Action{Block: never}
	})
	w.configure()
	p := w.start(nil, "run")
	<-at
	_ = p.cmd.Process.Kill()
	<-p.ended()
	close(never)
	w.sink, w.smtpPort = real, port
	w.configure()
	w.endLeases()
}

// TestRetryDuplicate: a copy waits for the message that came first, and is its duplicate when that
// is forwarded, also if an operator requeues the copy.
func TestRetryDuplicate(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		busy := w.busyRelay("")
		msg := w.labelled()
		w.pass(75)
		w.wantTask(2, "received", waitsFor(1))
		busy.Store(false)
		w.retry(1)
		w.pass(0)
		w.retry(2)
		w.pass(0)
		w.wantTask(2, "skipped", duplicateOf(1))
		w.wantOnce(msg)
	})
}

// TestRetryAfterCopy requeues a task that ended because its message was gone, after a copy went to
// those who did not have it.
func TestRetryAfterCopy(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.routes = "  - {name: two, match: {}, to: [ann@firm.example, bob@firm.example]}\n"
		w.extra = patient
		busy := w.busyRelay("bob@")
		w.addInbox(desk, "--start", "all", "--folder", "INBOX", "--folder", "Label")
		msg := mails(1, "labelled")
		uids := w.imap.Append(t, desk, "INBOX", msg...)
		w.imap.Append(t, desk, "Label", msg...)
		w.pass(75)
		w.imap.Expunge(t, desk, "INBOX", uids...)
		busy.Store(false)
		w.eventually(func() bool {
			w.start(nil, "run").wait()
			return len(w.tasks("--status", "forwarded")) == 1
		})
		dead := w.tasks("--status", "dead")
		if len(dead) != 1 || dead[0].ID != 1 ||
			len(dead[0].Deliveries) != 2 || dead[0].Deliveries[1].Status != "failed" {
			t.Fatalf("dead are %+v, want task 1, with bob failed", dead)
		}
		w.retry(1)
		w.pass(0)
		w.wantTask(1, "forwarded", "")
		got := map[string]int{}
		for _, m := range w.sink.Messages() {
			for _, to := range m.To {
				got[to]++
			}
		}
		if len(got) != 2 || got["ann@firm.example"] != 1 || got["bob@firm.example"] != 1 {
			t.Errorf("it arrived %v, want once at each", got)
		}
	})
}

// TestInboxDisabledOrRemoved: with dedupe over all inboxes, a message that waits in an inbox that
// is disabled or removed is forwarded from another one.
func TestInboxDisabledOrRemoved(t *testing.T) {
	for _, how := range []string{"disable", "remove"} {
		t.Run(how, func(t *testing.T) {
			onEach(t, all, func(t *testing.T, w *world) {
				w.extra = "dedupe: all"
				busy := w.busyRelay("")
				w.addInbox(desk, "--start", "all")
				w.addInbox(sales, "--start", "all")
				msg := mails(1, "circular")
				w.imap.Append(t, desk, "INBOX", msg...)
				w.pass(75)
				w.imap.Append(t, sales, "INBOX", msg...)
				w.pass(0)
				w.wantTask(2, "received", waitsFor(1))
				args := []string{"inbox", how, desk}
				if how == "remove" {
					args = append(args, "--yes")
				}
				w.must(0, args...)
				busy.Store(false)
				w.pass(0)
				w.wantTask(2, "forwarded", "")
				if how == "disable" {
					w.must(0, "inbox", "enable", desk)
					w.retry(1) // otherwise it is due only after the backoff
					w.pass(0)
					w.wantTask(1, "skipped", duplicateOf(2))
				}
				w.wantOnce(msg)
			})
		})
	}
}

// TestSkippedByOperator: a copy of what an operator skipped is skipped, too, before and after that
// is purged. The requeued task is sent.
func TestSkippedByOperator(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		busy := w.busyRelay("")
		w.addInbox(desk, "--start", "all", "--folder", "INBOX", "--folder", "Label", "--folder", "Later")
		w.imap.CreateFolder(t, desk, "Label")
		w.imap.CreateFolder(t, desk, "Later")
		msgs := mails(2, "unwanted")
		w.imap.Append(t, desk, "INBOX", msgs...)
		w.pass(75)
		w.must(0, "task", "skip", "1", "2")
		busy.Store(false)
		w.imap.Append(t, desk, "Label", msgs...)
		w.again(2, 2, "copies of what was skipped")
		w.retry(1)
		w.pass(0)
		w.wantOnce(msgs[:1])
		for range 2 { // first the duplicates, then what is left
			w.start(nil, "task", "purge", "--status", "skipped", "--yes").wait()
		}
		w.imap.Append(t, desk, "Later", msgs...)
		w.again(2, 2, "copies of what was skipped and purged")
		w.wantOnce(msgs[:1])
	})
}

// TestCopyOfALoop: a message that was forwarded from one inbox comes back to it, and to two others.
// The copy in the first inbox is a loop and delays no other. When the copy in the second inbox is
// gone, the copy in the third goes out.
func TestCopyOfALoop(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.extra = "dedupe: all"
		busy := w.busyRelay("")
		busy.Store(false)
		const third = "third@firm.example"
		for _, address := range []string{desk, sales, third} {
			w.addInbox(address, "--start", "all")
		}
		w.imap.Append(t, desk, "INBOX", mails(1, "to all")...)
		w.pass(0)
		back := w.sink.Messages()[0].Data
		w.sink.Reset()
		busy.Store(true)
		uids := w.imap.Append(t, sales, "INBOX", back)
		w.pass(75)
		for _, address := range []string{desk, third} {
			w.imap.Append(t, address, "INBOX", back)
			w.pass(0)
		}
		w.wantTask(4, "received", waitsFor(2))
		w.imap.Expunge(t, sales, "INBOX", uids...)
		busy.Store(false)
		w.retry(2) // otherwise it is due only after the backoff
		w.eventually(func() bool {
			w.pass(0)
			return len(w.tasks("--status", "received", "--status", "in_progress")) == 0
		})
		w.wantTask(4, "forwarded", "")
		w.wantOnce([][]byte{back})
	})
}
