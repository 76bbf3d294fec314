package e2e

import (
	"strings"
	"testing"
)

// TestMainJob is the life of an installation: a backlog over several inboxes and folders, a pass
// with nothing to do, new messages, messages that are expunged before they are forwarded, and a
// folder that is deleted and made again.
func TestMainJob(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		inboxes := []string{"desk@firm.example", "court@firm.example", "sales@firm.example"}
		folders := []string{"INBOX", "Büro & Co", "Archive"}
		backlog := mails(1000, "backlog")
		for i, address := range inboxes {
			w.addInbox(address, "--start", "all",
				"--folder", folders[0], "--folder", folders[1], "--folder", folders[2])
			for j, folder := range folders {
				k := i*len(folders) + j
				w.imap.Append(t, address, folder, backlog[len(backlog)*k/9:len(backlog)*(k+1)/9]...)
			}
		}
		r, _ := w.pass(0)
		if r.Totals.Registered != 1000 || r.Totals.Forwarded != 1000 || r.Totals.Backlog != 0 {
			t.Errorf("the first pass reports %+v, want 1000 registered and forwarded and no backlog", r.Totals)
		}
		w.wantOnce(backlog)

		if r, _ = w.pass(0); r.Totals != (counters{}) {
			t.Errorf("the second pass reports %+v, want nothing done", r.Totals)
		}
		if res := w.must(0, "run"); res.stdout+res.stderr != "" {
			t.Errorf("a pass with nothing to do printed %q, want silence", res.stdout+res.stderr)
		}
		w.wantOnce(backlog)

		more := mails(200, "more")
		w.imap.Append(t, inboxes[0], "INBOX", more[:120]...)
		w.imap.Append(t, inboxes[2], "Archive", more[120:]...)
		w.pass(0)
		w.wantOnce(backlog, more)

		w.expungedBeforeForwarding(inboxes[1], backlog, more)
		w.folderMadeAgain(inboxes[0], backlog)
	})
}

// expungedBeforeForwarding registers messages while the relay is down, expunges some, and expects
// them to be skipped.
func (w *world) expungedBeforeForwarding(address string, before ...[][]byte) {
	w.t.Helper()
	late := mails(6, "late")
	uids := w.imap.Append(w.t, address, "INBOX", late...)
	up := w.smtpPort
	w.smtpPort = 1 // nothing listens there
	w.configure()
	r, res := w.pass(75)
	if r.Totals.Registered != 6 || r.Totals.Forwarded != 0 || !strings.Contains(r.RelayError, "127.0.0.1:1") {
		w.t.Errorf("with the relay down the pass reports %+v, relay error %q, "+
			"want 6 registered and the relay named\n%s", r.Totals, r.RelayError, res.stderr)
	}
	w.imap.Expunge(w.t, address, "INBOX", uids[:2]...)
	w.smtpPort = up
	w.configure()
	if r, _ := w.pass(0); r.Totals.Skipped != 2 || r.Totals.Forwarded != 4 {
		w.t.Errorf("after 2 of 6 were expunged the pass reports %+v, want 2 skipped and 4 forwarded", r.Totals)
	}
	w.wantOnce(append(before, late[2:])...)
	for _, one := range w.tasks("--status", "skipped") {
		if !strings.Contains(one.Reason, "vanished") {
			w.t.Errorf("task %d was skipped for %q, want vanished", one.ID, one.Reason)
		}
		if one.Attempts != 1 {
			w.t.Errorf("task %d counts %d attempts, want 1: the pass without a relay does not count",
				one.ID, one.Attempts)
		}
	}
}

// folderMadeAgain deletes a folder and makes it again with the same messages and five new ones.
func (w *world) folderMadeAgain(address string, backlog [][]byte) {
	w.t.Helper()
	const folder = "Büro & Co" // the second of the first inbox
	same := backlog[len(backlog)/9 : len(backlog)*2/9]
	fresh := mails(5, "fresh")
	w.imap.DeleteFolder(w.t, address, folder)
	w.imap.Append(w.t, address, folder, fresh[:2]...)
	w.imap.Append(w.t, address, folder, same...)
	w.imap.Append(w.t, address, folder, fresh[2:]...)
	w.sink.Reset()
	if r, _ := w.pass(0); r.Totals.Registered != 5 || r.Totals.Forwarded != 5 {
		w.t.Errorf("after the folder was made again the pass reports %+v, want 5 registered and forwarded", r.Totals)
	}
	w.pass(0)
	w.wantOnce(fresh)
}

// TestUIDValidityWhileTasksWait changes UIDVALIDITY while tasks wait: they are forwarded under
// their new UIDs.
func TestUIDValidityWhileTasksWait(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		w.addInbox("desk@firm.example", "--start", "all", "--folder", "Cases")
		waiting := mails(10, "waiting")
		w.imap.Append(t, "desk@firm.example", "Cases", waiting...)
		up := w.smtpPort
		w.smtpPort = 1
		w.configure()
		w.pass(75)
		w.imap.DeleteFolder(t, "desk@firm.example", "Cases")
		w.imap.Append(t, "desk@firm.example", "Cases", waiting[3:]...) // 3 are gone, all UIDs are new
		w.smtpPort = up
		w.configure()
		if r, _ := w.pass(0); r.Totals.Registered != 0 || r.Totals.Forwarded != 7 || r.Totals.Skipped != 3 {
			t.Errorf("the pass reports %+v, want 7 forwarded, 3 skipped and none registered again", r.Totals)
		}
		w.wantOnce(waiting[3:])
	})
}

// TestStart checks where a folder's cursor begins.
func TestStart(t *testing.T) {
	for start, want := range map[string]int{
		"latest": 1, "now": 0, "all": 5, "since:2000-01-01": 5, "since:2999-01-01": 0,
	} {
		t.Run(start, func(t *testing.T) {
			w := newWorld(t, "sqlite")
			w.addInbox("desk@firm.example", "--start", start, "--folder", "Cases", "--folder", "Empty")
			old := mails(5, "old")
			w.imap.Append(t, "desk@firm.example", "Cases", old...)
			w.imap.CreateFolder(t, "desk@firm.example", "Empty")
			w.pass(0)
			w.wantOnce(old[5-want:])
			fresh := mails(3, "fresh")
			w.imap.Append(t, "desk@firm.example", "Empty", fresh...)
			w.pass(0)
			w.wantOnce(old[5-want:], fresh)
		})
	}
}
