package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const desk = "desk@firm.example"

// TestDuplicatesByContent: the same messages come again in each way that mail stores know. None
// goes out twice, not even after its task was purged.
func TestDuplicatesByContent(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.addInbox(desk, "--start", "all", "--folder", "INBOX", "--folder", "All Mail")
		msgs := mails(6, "labelled")
		w.imap.Append(t, desk, "INBOX", msgs...)
		uids := w.imap.Append(t, desk, "All Mail", msgs[:4]...) // as Gmail shows a label
		w.again(10, 4, "in two folders")
		w.wantOnce(msgs)

		w.imap.Expunge(t, desk, "All Mail", uids...)
		w.again(0, 0, "moved out")
		w.imap.Append(t, desk, "All Mail", msgs[:4]...)
		w.again(4, 4, "moved out and back")

		w.must(0, "task", "purge", "--older-than", "0s", "--yes")
		if left := w.tasks("--status", "forwarded"); len(left) > 0 {
			t.Fatalf("%d forwarded tasks are left after all were purged", len(left))
		}
		w.imap.DeleteFolder(t, desk, "All Mail")
		w.imap.Append(t, desk, "All Mail", msgs...) // under another UIDVALIDITY, two more than before
		w.again(2, 2, "under another UIDVALIDITY")

		const moved = "desk.moved@firm.example"
		w.imap.AddUser(t, moved, password)
		w.imap.CreateFolder(t, moved, "All Mail")
		w.imap.Append(t, moved, "INBOX", mails(1, "new there")...) // so that UIDs differ
		w.imap.Append(t, moved, "INBOX", msgs...)
		w.must(0, "inbox", "set", desk, "--username", moved)
		w.sink.Reset()
		if r, _ := w.pass(0); r.Totals.Forwarded != 1 {
			t.Errorf("on another server, with one new message, the pass reports %+v, want 1 forwarded", r.Totals)
		}
		if got := len(w.sink.Messages()); got != 1 {
			t.Errorf("on another server %d messages arrived, want only the new one", got)
		}
	})
}

// again does a pass that registers a number of messages and skips a number of them as duplicates.
func (w *world) again(registered, duplicates int, how string) {
	w.t.Helper()
	r, _ := w.pass(0)
	if got := r.Totals; got.Registered != registered || got.Skipped != duplicates ||
		got.Forwarded != registered-duplicates {
		w.t.Errorf("%s: the pass reports %+v, want %d registered, %d of them skipped, the others forwarded",
			how, r.Totals, registered, duplicates)
	}
	for _, one := range w.tasks("--status", "skipped") {
		if !strings.HasPrefix(one.Reason, "duplicate: ") && !strings.HasPrefix(one.Reason, "by_operator: ") {
			w.t.Errorf("%s: task %d was skipped for %q, want duplicate", how, one.ID, one.Reason)
		}
	}
}

// TestDedupe: one message in two folders of one inbox and in another inbox.
func TestDedupe(t *testing.T) {
	for scope, want := range map[string]int{"inbox": 2, "all": 1, "off": 3} {
		t.Run(scope, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.extra = "dedupe: " + scope
			w.configure()
			w.addInbox(desk, "--start", "all", "--folder", "INBOX", "--folder", "Copies")
			w.addInbox("sales@firm.example", "--start", "all")
			msg := mails(1, "circular")
			w.imap.Append(t, desk, "INBOX", msg...)
			w.imap.Append(t, desk, "Copies", msg...)
			w.imap.Append(t, "sales@firm.example", "INBOX", msg...)
			if r, _ := w.pass(0); r.Totals.Forwarded != want || r.Totals.Registered != 3 {
				t.Errorf("the pass reports %+v, want 3 registered and %d forwarded", r.Totals, want)
			}
			if got := len(w.sink.Messages()); got != want {
				t.Errorf("%d arrived, want %d", got, want)
			}
		})
	}
}

// TestMessageIDAloneNeverIdentifies: other content is another message, whatever its header says.
func TestMessageIDAloneNeverIdentifies(t *testing.T) {
	alert := func(id, body string) []byte {
		return fmt.Appendf(nil, "From: monitor@firm.example\r\nTo: desk@firm.example\r\nSubject: Alert\r\n"+
			"Date: Fri, 20 Nov 2026 10:00:00 +0000\r\n%s\r\n%s\r\n", id, body)
	}
	for name, id := range map[string]string{
		"the same Message-ID":             "Message-ID: <alert@firm.example>\r\n",
		"a blank Message-ID":              "Message-ID: <>\r\n",
		"the same Date and no Message-ID": "",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.addInbox(desk, "--start", "all")
			first, second := alert(id, "disk full on a"), alert(id, "disk full on b")
			w.imap.Append(t, desk, "INBOX", first, second, alert(id, "disk full on a"))
			w.again(3, 1, "three alerts of which two are equal")
			var got [2]int
			for _, m := range w.sink.Messages() {
				for i, host := range []string{"on a", "on b"} {
					if bytes.Contains(m.Data, []byte("disk full "+host)) {
						got[i]++
					}
				}
			}
			if got != [2]int{1, 1} {
				t.Errorf("the alerts arrived %v times, want each once", got)
			}
		})
	}
}
