package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// TestRestoredBackup: the mail store is restored from a backup. It keeps UIDVALIDITY, and gives new
// messages the UIDs of some that were forwarded. `audit` reports that, and the next run forwards
// all that is new, each once.
func TestRestoredBackup(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		const address = "desk@firm.example"
		w.addInbox(address, "--start", "all")
		old, fresh := mails(60, "old"), mails(25, "something else that is new")
		w.imap.Append(t, address, "INBOX", old[:50]...)
		w.pass(0)
		restore := w.imap.Backup(t, address)
		w.imap.Append(t, address, "INBOX", old[50:]...)
		w.pass(0)
		w.audit(0)
		restore()
		if uids := w.imap.Append(t, address, "INBOX", fresh...); uids[0] != 51 || uids[24] != 75 {
			t.Fatalf("the server gave out the UIDs %v, want 51 to 75", uids)
		}
		f := w.audit(75).Inboxes[0].Folders[0]
		if !strings.Contains(f.Error, "now has a different message than the registered one") {
			t.Errorf("the audit reports %+v, want an error that says that UIDs have other messages", f)
		}
		r, res := w.pass(0)
		if r.Totals.Registered != 25 || r.Totals.Forwarded != 25 {
			t.Errorf("the run reports %+v, want 25 registered and forwarded", r.Totals)
		}
		if !strings.Contains(res.stderr, "the server gave the UID of a message to another one") {
			t.Errorf("the run logs %q, want a line about the UIDs", res.stderr)
		}
		w.wantOnce(slices.Concat(old, fresh))
		if f := w.audit(0).Inboxes[0].Folders[0]; f.Messages != 75 || f.Counts["forwarded"] != 75 {
			t.Errorf("the audit counts %d messages, %v; want 75, all forwarded", f.Messages, f.Counts)
		}
		if r, _ := w.pass(0); r.Totals.Registered+r.Totals.Forwarded != 0 {
			t.Errorf("the next run reports %+v, want nothing to do", r.Totals)
		}
	})
}

// TestRestoredBackupWhileTasksWait: the tasks of ten messages wait when other messages get their
// UIDs. Those go to their own recipients, and the ten tasks end as vanished.
func TestRestoredBackupWhileTasksWait(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		const address = "desk@firm.example"
		var up atomic.Bool
		w.startSink(func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "connect" && !up.Load() {
				return smtpsink.Action{Code: 554}
			}
			return smtpsink.Action{}
		})
		w.extra = "retry: {base: 1s, max: 1s}\n"
		w.routes = "  - {name: old, match: {subject: old}, to: [old@firm.example]}\n" +
			"  - {name: all, match: {}, to: [new@firm.example]}\n"
		w.configure()
		w.addInbox(address, "--start", "all")
		w.imap.Append(t, address, "INBOX", mails(1, "before")...)
		restore := w.imap.Backup(t, address)
		w.imap.Append(t, address, "INBOX", mails(10, "old")...)
		w.pass(75)
		restore()
		fresh := mails(12, "something else that is new")
		w.imap.Append(t, address, "INBOX", fresh...)
		up.Store(true)
		w.eventually(func() bool {
			w.start(nil, "run").wait()
			return len(w.tasks("--status", "received", "--status", "error")) == 0
		})
		for _, m := range w.sink.Messages() {
			if len(m.To) != 1 || m.To[0] != "new@firm.example" {
				t.Errorf("message %s went to %q, want it at new@firm.example", idOf(t, m.Header), m.To)
			}
		}
		if n := len(w.arrived()); n != 13 {
			t.Errorf("%d messages arrived, want the first one and the 12 new ones", n)
		}
		vanished := w.tasks("--status", "skipped")
		if len(vanished) != 10 {
			t.Fatalf("%d tasks are skipped, want the 10 whose messages are gone", len(vanished))
		}
		for _, one := range vanished {
			if !strings.HasPrefix(one.Subject, "old") || !strings.HasPrefix(one.Reason, "vanished: ") {
				t.Errorf("the task of %q is skipped with the reason %q, want an old one that vanished",
					one.Subject, one.Reason)
			}
		}
		w.must(0, "task", "show", fmt.Sprint(vanished[0].ID)).has(t, "the server gave ")
		w.audit(0)
	})
}
