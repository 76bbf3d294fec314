//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestAfterKilled kills passes at each command that changes something, before the server hears it
// and before its answer is heard, while a second client adds, marks and deletes messages of its
// own. In the end each letter is in its folder once, what is to be deleted is, and nothing else is
// missing: what somebody did not get, or has to wait for, stays where it is.
func TestAfterKilled(t *testing.T) {
	movingOnEach(t, testAfterKilled)
}

func testAfterKilled(t *testing.T, kind, capabilities string) {
	w := newWorldOf(t, kind, capabilities,
		"{forwarded: {move: Done}, skipped_no_match: delete, dead: {flag: $Undelivered}, create_folders: true}")
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		switch {
		case e.Stage == "rcpt" && e.Arg == "nobody@firm.example":
			return smtpsink.Action{Code: 550, Text: "5.1.1 there is nobody"}
		case e.Stage == "rcpt" && e.Arg == "later@firm.example":
			return smtpsink.Action{Code: 450, Text: "4.2.1 come back later"}
		}
		return smtpsink.Action{}
	})
	w.routes += "  - {name: half, match: {subject: /^half/}, to: [intake@firm.example, nobody@firm.example]}\n" +
		"  - {name: slow, match: {subject: /^slow/}, to: [intake@firm.example, later@firm.example]}\n"
	w.configure()
	w.addInbox(desk, "--start", "all", "--allow-delete")
	other := w.client()
	if _, err := other.Select("INBOX", nil).Wait(); err != nil {
		t.Fatal(err)
	}
	var letters, kept, half, slow []string
	killed := 0
	commands := []string{"CREATE", "UID MOVE", "UID STORE", "UID EXPUNGE"}
	if capabilities == withUIDPlus {
		commands = []string{"CREATE", "UID COPY", "UID STORE", "UID EXPUNGE"}
	}
	for round, command := range commands {
		for _, heard := range []bool{false, true} {
			name := fmt.Sprintf("letter %d %t", round, heard)
			w.put(desk, name, "other "+name, "half "+name, "slow "+name)
			if w.killAt(command, heard, func() {
				w.put(desk, "kept "+name, "gone")
				mark(t, other, "kept")
				if err := other.UIDExpunge(imap.UIDSetNum(mark(t, other, "gone")...)).Close(); err != nil {
					t.Fatal(err)
				}
			}) {
				killed++
			}
			letters, kept = append(letters, name), append(kept, "kept "+name)
			half, slow = append(half, "half "+name), append(slow, "slow "+name)
			w.sql("UPDATE monitored_outbox SET visible_at = 1 WHERE status = 'in_progress'") // the lease is over
			w.sql("UPDATE monitored_emails SET scan_until = 0")
			w.sql("UPDATE monitored_emails_tasks SET visible_at = 1 WHERE status = 'in_progress'")
		}
	}
	w.pass(0)
	w.pass(0)
	slices.Sort(letters)
	slices.Sort(kept)
	w.wantIn("Done", letters...)
	if n := len(w.arrived()); n != 3*len(letters) {
		t.Errorf("%d messages came to the relay, want %d", n, 3*len(letters))
	}
	for i := range kept {
		kept[i] += ` \Deleted`
		half[i] += " $Undelivered"
	}
	slices.Sort(half)
	slices.Sort(slow)
	w.wantIn("INBOX", slices.Concat(half, kept, slow)...)
	if killed < len(commands) {
		t.Errorf("%d passes were killed, want at least %d", killed, len(commands))
	}
}

// mark marks what has a word in its subject as deleted.
func mark(t *testing.T, c *imapclient.Client, word string) []imap.UID {
	t.Helper()
	if err := c.Noop().Wait(); err != nil { // which shows what has arrived
		t.Fatal(err)
	}
	field := imap.SearchCriteriaHeaderField{Key: "Subject", Value: word}
	found, err := c.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{field}}, nil).Wait()
	if err != nil {
		t.Fatal(err)
	}
	uids := found.AllUIDs()
	deleted := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}
	if err := c.Store(imap.UIDSetNum(uids...), deleted, nil).Close(); err != nil {
		t.Fatal(err)
	}
	return uids
}

// killAt kills a pass when it sends a command: before the server hears it, or before its answer is
// heard. A pass that sends none ends by itself, and is not killed.
func (w *world) killAt(command string, heard bool, meanwhile func()) (killed bool) {
	w.t.Helper()
	if heard {
		return w.killWhere(w.proxy, answerTo(" "+command+" "), meanwhile)
	}
	return w.killWhere(w.proxy, asks(" "+command+" "), meanwhile)
}

// killWhere kills a pass at a place on its connections through a proxy. A pass that does not come
// there ends by itself.
func (w *world) killWhere(proxy *testserver.CutProxy, at finder, meanwhile func()) (killed bool) {
	w.t.Helper()
	var once atomic.Bool
	came, over := make(chan struct{}), make(chan struct{})
	proxy.Watch(func() testserver.Look {
		return func(p testserver.Piece) (int, func() testserver.End) {
			n := at(p)
			if n < 0 || !once.CompareAndSwap(false, true) {
				return 0, nil
			}
			return n, func() testserver.End {
				close(came)
				<-over
				return testserver.RST
			}
		}
	})
	defer proxy.Watch(nil)
	p := w.start(nil, "run")
	select {
	case <-came:
		meanwhile()
		_ = p.cmd.Process.Kill()
		killed = true
	case <-p.over:
		proxy.Watch(nil) // or what meanwhile does could come there, and wait for its own end
		meanwhile()
	}
	p.wait()
	close(over)
	return killed
}
