package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"postrider/internal/testserver/fakeimap"
)

// addAt makes an inbox at another server on this machine, under a host name of its own.
func (w *world) addAt(port int, address string) {
	w.t.Helper()
	res := w.start(strings.NewReader(password+"\n"), "inbox", "add", address, "--host", "localhost",
		"--port", fmt.Sprint(port), "--security", "none", "--no-check", "--password-stdin", "--start", "all").wait()
	if res.code != 0 {
		w.t.Fatalf("inbox add %s: exit %d\n%s%s", address, res.code, res.stdout, res.stderr)
	}
}

// TestSilentServer: many inboxes at a server that accepts connections and is silent cost one wait,
// and none for inboxes at another server.
func TestSilentServer(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.extra = "imap: {dial_timeout: 2s}\nconcurrency: {inboxes: 8}"
	w.configure()
	silent := fakeimap.Start(t, func(c *fakeimap.Conn) { _, _ = io.Copy(io.Discard, c) })
	const many = 24
	for i := range many {
		w.addAt(silent.Port(), fmt.Sprintf("silent%d@firm.example", i))
	}
	w.addInbox(desk, "--start", "all")
	list := mails(5, "hello")
	w.imap.Append(t, desk, "INBOX", list...)
	report, res := w.pass(75)
	w.wantOnce(list)
	if n := silent.Connections(); n > 8 {
		t.Errorf("%d connections to the silent server, want no more than concurrency.inboxes", n)
	}
	unreachable := 0
	for _, in := range report.Inboxes {
		if strings.Contains(in.Error, "no answer within 2s") {
			unreachable++
		}
	}
	if unreachable != many {
		t.Errorf("%d inboxes have the reason in the report, want all %d", unreachable, many)
	}
	n := strings.Count(res.stderr, "no answer within 2s")
	if n < 2 || n > 3 || strings.Count(res.stderr, "skipped in this pass") != 1 {
		t.Errorf("%d lines of the log have the reason, want 1 or 2 of inboxes and 1 of the server:\n%s", n, res.stderr)
	}
	w.must(0, "status", "--json").times(t, many, "no answer within 2s")
}

// TestHostileServer: an answer that overflows the stack of the IMAP library is an error of its
// inbox alone. The cursor does not move, and other inboxes go on.
func TestHostileServer(t *testing.T) {
	w := newWorld(t, "sqlite")
	deep := strings.Repeat("(", 1<<20)
	hostile := fakeimap.Start(t, func(c *fakeimap.Conn) {
		c.Send("* OK [CAPABILITY IMAP4rev1] hello\r\n")
		for line, ok := c.ReadLine(); ok; line, ok = c.ReadLine() {
			_, command, _ := strings.Cut(line, " ")
			switch {
			case strings.HasPrefix(command, "CAPABILITY"):
				c.Send("* CAPABILITY IMAP4rev1\r\n{tag} OK done\r\n")
			case strings.HasPrefix(command, "EXAMINE"):
				c.Send("* 90 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 91] n\r\n{tag} OK done\r\n")
			case strings.HasPrefix(command, "UID"):
				c.Send("* 1 FETCH (BODYSTRUCTURE ")
				for range 8 {
					c.Send(deep)
				}
			default:
				c.Send("{tag} OK done\r\n")
			}
		}
	})
	w.addAt(hostile.Port(), "hostile@firm.example")
	w.addInbox(desk, "--start", "all")
	list := mails(5, "hello")
	w.imap.Append(t, desk, "INBOX", list...)
	for range 2 {
		report, _ := w.pass(75)
		for _, in := range report.Inboxes {
			if (in.Email == "hostile@firm.example") != strings.Contains(in.Error, "nests lists more than 100 deep") {
				t.Errorf("%s: the error is %q", in.Email, in.Error)
			}
		}
	}
	w.wantOnce(list)
	if tasks := w.tasks("--inbox", "hostile@firm.example"); len(tasks) > 0 {
		t.Errorf("%d messages of the hostile server are registered, want none", len(tasks))
	}
	// The cursor has not moved.
	w.must(0, "inbox", "show", "hostile@firm.example", "--json").has(t, `"last_seen_uid":0,`)
}
