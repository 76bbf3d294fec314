//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// What an IMAP server offers.
const (
	cyrus       = "Cyrus"
	withMove    = "IMAP4rev1 IDLE UIDPLUS MOVE ESEARCH NAMESPACE LITERAL+"
	withUIDPlus = "IMAP4rev1 IDLE UIDPLUS ESEARCH NAMESPACE LITERAL+"
	withNeither = "IMAP4rev1 IDLE ESEARCH NAMESPACE LITERAL+"
)

// newWorldOf is newWorld with a Dovecot that has these capabilities, or a Cyrus, behind a proxy.
func newWorldOf(t *testing.T, kind, capabilities, after string) *world {
	w := newWorld(t, kind)
	if capabilities == cyrus {
		w.imap = testserver.Cyrus(t)
	} else {
		w.imap = testserver.DovecotOffering(t, capabilities)
	}
	w.proxy = testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", w.imap.Port))
	w.imapPort = w.proxy.Port
	w.extra = "after: " + after
	w.routes = "  - {name: kept, match: {subject: kept}, skip: true}\n" +
		"  - {name: letters, match: {subject: /^letter/}, to: [intake@firm.example]}\n"
	w.configure()
	return w
}

// movingOnEach runs a test on every kind of database, with a server that has MOVE and one that has
// not, and with Cyrus.
func movingOnEach(t *testing.T, test func(t *testing.T, kind, capabilities string)) {
	t.Run(cyrus, func(t *testing.T) { test(t, "sqlite", cyrus) })
	for name, capabilities := range map[string]string{"MOVE": withMove, "UIDPLUS": withUIDPlus} {
		for _, kind := range all {
			t.Run(name+"/"+kind, func(t *testing.T) { test(t, kind, capabilities) })
		}
	}
}

// message is one in a folder.
type message struct {
	subject string
	flags   []imap.Flag
}

// client is a second client of the desk's inbox.
func (w *world) client() *imapclient.Client {
	w.t.Helper()
	c, err := imapclient.DialInsecure(fmt.Sprintf("127.0.0.1:%d", w.imap.Port), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if err := c.Login(desk, password).Wait(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// in are the messages in a folder, by subject; nil if there is no such folder.
func (w *world) in(folder string) []message {
	w.t.Helper()
	c := w.client()
	defer func() { _ = c.Close() }()
	data, err := c.Select(folder, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil || data.NumMessages == 0 {
		return nil
	}
	msgs, err := c.Fetch(imap.SeqSet{{Start: 1, Stop: 0}}, &imap.FetchOptions{Envelope: true, Flags: true}).Collect()
	if err != nil {
		w.t.Fatal(err)
	}
	var out []message
	for _, m := range msgs {
		flags := slices.DeleteFunc(m.Flags, func(f imap.Flag) bool { return f == `\Recent` })
		out = append(out, message{m.Envelope.Subject, flags})
	}
	slices.SortFunc(out, func(a, b message) int { return strings.Compare(a.subject, b.subject) })
	return out
}

// wantIn checks the subjects in a folder, sorted, each with its flags.
func (w *world) wantIn(folder string, want ...string) {
	w.t.Helper()
	var got []string
	for _, m := range w.in(folder) {
		got = append(got, strings.TrimSpace(m.subject+" "+strings.Trim(fmt.Sprint(m.flags), "[]")))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s has %q, want %q", folder, got, want)
	}
}

// TestAfter: what was forwarded is moved to a folder that is made for it, and watched: it is not
// forwarded again. What no route wants is marked. The trail has it.
func TestAfter(t *testing.T) {
	movingOnEach(t, func(t *testing.T, kind, capabilities string) {
		after := "{forwarded: {move: Done}, skipped_no_match: {flag: $Nobody}, create_folders: true}"
		w := newWorldOf(t, kind, capabilities, after)
		w.addInbox(desk, "--start", "all", "--folder", "INBOX")
		w.put(desk, "letter 1", "other", "letter 2")
		w.pass(0)
		w.wantIn("INBOX", "other $Nobody")
		w.wantIn("Done", "letter 1", "letter 2")
		w.must(0, "inbox", "set", desk, "--folder", "INBOX", "--folder", "Done")
		w.put(desk, "letter 3")
		w.pass(0)
		w.pass(0)
		w.wantIn("Done", "letter 1", "letter 2", "letter 3")
		if n := len(w.arrivedFor("intake@firm.example")); n != 3 {
			t.Errorf("%d messages were forwarded, want 3", n)
		}
		w.must(0, "task", "show", "1").has(t, "moved to Done")
	})
}

// TestDeleteAfter: a message is deleted when it is time, if the inbox allows it. A dry run names it
// before, with the date.
func TestDeleteAfter(t *testing.T) {
	w := newWorldOf(t, "sqlite", withUIDPlus, "{forwarded: seen, delete_after: 30d}")
	w.addInbox(desk, "--start", "all")
	w.put(desk, "letter 1", "other")
	w.must(75, "check").has(t, "inbox set "+desk+" --allow-delete")
	w.must(0, "run", "--dry-run").lacks(t, "deleted") // it is not allowed yet
	w.must(0, "inbox", "set", desk, "--allow-delete")
	const condition = "; once each recipient has it, it would be deleted on the server, not before "
	w.must(0, "run", "--dry-run").times(t, 1, condition)
	var would struct {
		Would []struct {
			Subject   string
			DeletedAt *time.Time `json:"deleted_at"`
		}
	}
	err := json.Unmarshal([]byte(w.must(0, "run", "--dry-run", "--json").stdout), &would)
	for _, m := range would.Would {
		letter := m.Subject == "letter 1"
		if letter != (m.DeletedAt != nil) || letter && time.Until(*m.DeletedAt) < 29*24*time.Hour {
			t.Errorf("%q would be deleted at %v; want the letter alone, in 30 days", m.Subject, m.DeletedAt)
		}
	}
	if err != nil || len(would.Would) != 2 {
		t.Errorf("a dry run says %+v, %v; want two messages", would, err)
	}
	w.must(0, "inbox", "set", desk, "--allow-delete=false")
	w.pass(0)
	w.wantIn("INBOX", `letter 1 \Seen`, "other")
	w.must(0, "inbox", "set", desk, "--allow-delete")
	w.must(0, "check", "--inbox", desk)
	w.must(0, "run", "--dry-run").has(t, `"letter 1": would be deleted on the server, not before `).lacks(t, "other")
	w.must(0, "run", "--dry-run", "--json").has(t, `"would_delete":[{"inbox":"`+desk)
	w.pass(0)
	w.wantIn("INBOX", `letter 1 \Seen`, "other")
	w.must(0, "event", "retry", "--destination", "imap", "--status", "waiting", "--yes") // it is too early
	var dry struct {
		WouldDelete []struct{ At time.Time } `json:"would_delete"`
	}
	err = json.Unmarshal([]byte(w.must(0, "run", "--dry-run", "--json").stdout), &dry)
	if err != nil || len(dry.WouldDelete) != 1 || time.Until(dry.WouldDelete[0].At) < 29*24*time.Hour {
		t.Errorf("a dry run says %+v, %v; want one deletion in 30 days", dry, err)
	}
	w.pass(0)
	w.wantIn("INBOX", `letter 1 \Seen`, "other")
	w.sql("UPDATE monitored_emails_tasks SET finished_at = '2020-02-29 12:00:00'")
	w.sql("UPDATE monitored_outbox SET visible_at = 1 WHERE status = 'waiting'")
	w.pass(0)
	w.wantIn("INBOX", "other")
	w.must(0, "audit")
}

// TestAfterTimeout: what is due on the server is done, too, when --timeout ends the pass.
func TestAfterTimeout(t *testing.T) {
	w := newWorldOf(t, "sqlite", withUIDPlus, "{delete_after: 30d}")
	var silent atomic.Bool
	over := make(chan struct{})
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "mail" && silent.Load() {
			return smtpsink.Action{Block: over}
		}
		return smtpsink.Action{}
	})
	t.Cleanup(func() { close(over) })
	w.configure()
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.put(desk, "letter 1")
	w.pass(0)
	w.sql("UPDATE monitored_emails_tasks SET finished_at = '2020-02-29 12:00:00'")
	w.sql("UPDATE monitored_outbox SET visible_at = 1 WHERE status = 'waiting'")
	w.put(desk, "letter 2")
	silent.Store(true)
	if res := w.start(nil, "run", "--timeout", "2s").wait(); res.code != 75 {
		t.Errorf("run --timeout exits with %d, want 75:\n%s", res.code, res.stderr)
	}
	w.wantIn("INBOX", "letter 2")
}

// TestDryRunNamesWhatIsDeleted: a message that no route matches is deleted at once, and a dry run
// says so.
func TestDryRunNamesWhatIsDeleted(t *testing.T) {
	w := newWorldOf(t, "sqlite", withUIDPlus, "{skipped_no_match: delete}")
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.put(desk, "letter 1", "other")
	out := w.must(0, "run", "--dry-run").stdout
	deleted := regexp.MustCompile(`(?m) "other": .*; then it would be deleted on the server$`)
	if strings.Count(out, "deleted") != 1 || !deleted.MatchString(out) {
		t.Errorf("run --dry-run prints\n%s\nwant that the other one is deleted, and it alone", out)
	}
	w.pass(0)
	w.wantIn("INBOX", "letter 1")
}

// TestUndecidedStays: a message that a route may match, and that could not be read, is not deleted.
// The event says why, and a dry run does not name it.
func TestUndecidedStays(t *testing.T) {
	w := newWorldOf(t, "sqlite", withUIDPlus, "{skipped_no_match: delete}")
	w.routes = "  - {name: letters, match: {body: letter}, to: [intake@firm.example]}\n"
	w.configure()
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.put(desk, "other")
	w.imap.Append(t, desk, "INBOX", []byte("Subject: broken\r\nContent-Type: multipart/mixed\r\n\r\na letter\r\n"))
	out := w.must(0, "run", "--dry-run").stdout
	undecided := regexp.MustCompile(`(?m) "broken": would not be forwarded: no route matches; ` +
		`route "letters": body is undecided: .* between them$`)
	if strings.Count(out, "deleted") != 1 || !undecided.MatchString(out) {
		t.Errorf("run --dry-run prints\n%s\nwant that the other one is deleted, and it alone", out)
	}
	w.pass(0)
	w.wantIn("INBOX", "broken")
	w.must(0, "event", "list", "--status", "skipped", "--json").has(t, "it is not known whether a route matches")
	w.must(0, "task", "show", "2", "--json").has(t, `"keep_reason":"undecided"`)
}

// TestTakenButUndecided: a message that a route may match, and that a catch-all took, is neither
// moved nor deleted, and a dry run does not say so.
func TestTakenButUndecided(t *testing.T) {
	w := newWorldOf(t, "sqlite", withMove, "{forwarded: delete}")
	w.routes = "  - {name: court, match: {body: hearing}, to: [court@firm.example]}\n" +
		"  - {name: rest, match: {}, to: [intake@firm.example]}\n"
	w.configure()
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.put(desk, "other")
	w.imap.Append(t, desk, "INBOX", []byte("Subject: broken\r\nContent-Type: multipart/mixed\r\n\r\na hearing\r\n"))
	w.must(0, "run", "--dry-run").times(t, 1, "deleted") // the other one
	w.pass(0)
	w.wantIn("INBOX", "broken")
	if n := len(w.arrivedFor("intake@firm.example")); n != 2 {
		t.Errorf("%d messages were forwarded, want 2", n)
	}
	w.must(0, "event", "list", "--status", "skipped", "--json").has(t, "it is not known whether a route matches")
	w.must(0, "task", "show", "2", "--json").has(t, `"keep_reason":"undecided"`, `route \"court\": body is undecided`)
}

// TestMovesToAnotherInbox: what an inbox forwarded goes to a folder that another one watches only
// if that one knows the message. What no route of the inbox matches goes there in any case.
func TestMovesToAnotherInbox(t *testing.T) {
	for dedupe, want := range map[string]struct{ code, moved int }{"inbox": {75, 1}, "all": {0, 2}} {
		t.Run(dedupe, func(t *testing.T) {
			w := newWorldOf(t, "sqlite", withMove,
				"{forwarded: {move: Done}, skipped_no_match: {move: Done}, create_folders: true}\ndedupe: "+dedupe)
			w.routes = "  - {name: letters, match: {subject: /^letter/}, to: [intake@firm.example]}\n" +
				"  - {name: rest, match: {inbox: second@firm.example}, to: [rest@firm.example]}\n"
			w.configure()
			w.addInbox(desk, "--start", "all")
			if err := w.client().Create("Done", nil).Wait(); err != nil {
				t.Fatal(err)
			}
			w.addInbox("second@firm.example", "--start", "all", "--username", desk, "--folder", "Done")
			w.must(want.code, "check")
			w.put(desk, "letter 1", "other")
			w.pass(0)
			w.pass(0)
			if n := len(w.in("Done")); n != want.moved {
				t.Errorf("%d messages are in Done, want %d", n, want.moved)
			}
			letters, rest := len(w.arrivedFor("intake@firm.example")), len(w.arrivedFor("rest@firm.example"))
			if letters != 1 || rest != 1 {
				t.Errorf("%d letters and %d other messages were forwarded, want one of each", letters, rest)
			}
		})
	}
}

// TestSharedFolder: in a folder that two inboxes watch with one login, nothing is deleted: the
// other one may not have forwarded or even seen the message. Check says so, and a dry run names no
// deletion.
func TestSharedFolder(t *testing.T) {
	w := newWorldOf(t, "sqlite", withMove, "{forwarded: delete}")
	w.routes = "  - {name: a, match: {inbox: " + desk + "}, to: [intake@firm.example]}\n" +
		"  - {name: b, match: {inbox: boss@firm.example}, to: [boss@home.example]}\n"
	w.configure()
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.addInbox("boss@firm.example", "--start", "all", "--allow-delete", "--username", desk)
	w.put(desk, "letter 1")
	w.must(75, "check").has(t, "the inbox boss@firm.example has the same account")
	w.must(0, "run", "--dry-run").lacks(t, "deleted")
	w.must(0, "run", "--inbox", desk)
	w.pass(0)
	w.wantIn("INBOX", "letter 1")
	if n := len(w.arrivedFor("boss@home.example")); n != 1 {
		t.Errorf("%d messages came to the second inbox's recipient, want 1", n)
	}
	w.must(0, "inbox", "disable", desk)
	w.must(0, "event", "retry", "--destination", "imap", "--status", "skipped", "--yes")
	w.pass(0)
	w.wantIn("INBOX")
}

// TestAfterOfTwoRoutes: two routes together say more than one thing, and nothing waits for that.
// What the configuration does not say any more is not done any more.
func TestAfterOfTwoRoutes(t *testing.T) {
	w := newWorldOf(t, "sqlite", withMove, "{}")
	w.routes = "  - {name: b, match: {subject: both}, to: [b@firm.example], continue: true, " +
		"after: {delete_after: 30d}}\n" +
		"  - {name: a, match: {subject: letter}, to: [a@firm.example], after: {forwarded: delete}}\n"
	w.configure()
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.put(desk, "letter both", "letter 2")
	w.must(0, "run", "--dry-run").times(t, 2, "; once each recipient has it, it would be deleted on the server\n")
	w.pass(0)
	w.wantIn("INBOX")
	w.put(desk, "just both")
	w.pass(0)
	w.must(0, "run", "--dry-run").has(t, `"just both": would be deleted`)
	w.routes = "  - {name: all, match: {}, to: [a@firm.example]}\n"
	w.configure()
	w.must(0, "run", "--dry-run").lacks(t, "would be deleted")
	w.sql("UPDATE monitored_outbox SET visible_at = 1 WHERE status = 'waiting'")
	w.pass(0)
	w.wantIn("INBOX", "just both")
	w.must(0, "event", "list", "--status", "skipped", "--json").has(t, "no longer in the section after")
}

// TestAfterInWatch: a process that stays up does it within seconds.
func TestAfterInWatch(t *testing.T) {
	w := newWorldOf(t, "sqlite", withMove, "{forwarded: {move: Done}, create_folders: true}")
	w.addInbox(desk, "--start", "all")
	p := w.start(nil, "watch")
	w.put(desk, "letter 1")
	w.await("the letter is moved", func() bool { return len(w.in("Done")) == 1 })
	w.put(desk, "letter 2")
	w.await("the next one, too", func() bool { return len(w.in("Done")) == 2 })
	w.end(p, 0)
	w.wantIn("INBOX")
}

// TestServerCannot: a server with neither MOVE nor UIDPLUS keeps everything, check says why, and so
// does the action.
func TestServerCannot(t *testing.T) {
	w := newWorldOf(t, "sqlite", withNeither,
		"{forwarded: {move: Done}, skipped_no_match: delete, create_folders: true}")
	w.addInbox(desk, "--start", "all", "--allow-delete")
	w.must(75, "check").has(t, "neither MOVE", "no UIDPLUS")
	w.put(desk, "letter 1", "other")
	w.pass(0)
	w.wantIn("INBOX", "letter 1", "other")
	w.must(0, "event", "list", "--destination", "imap", "--status", "dead", "--json").times(t, 2, "UIDPLUS")
	w.must(0, "status").has(t, "actions on the servers: 2 dead")
}
