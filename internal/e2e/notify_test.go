//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
)

const notices = `
notify: {to: ops@firm.example}
hook: ./hook
`

// hookScript keeps what it gets, one line for each digest.
const hookScript = "#!/bin/sh\ncat >> told\n"

// noticing makes a world that sends notices. Its relay refuses nobody@, and otherwise answers as
// reply says.
func (w *world) noticing(reply func(smtpsink.Event) smtpsink.Action) *world {
	w.t.Helper()
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" && e.Arg == "nobody@firm.example" {
			return smtpsink.Action{Code: 550, Text: "5.1.1 there is nobody"}
		}
		if reply != nil {
			return reply(e)
		}
		return smtpsink.Action{}
	})
	w.extra = notices
	w.routes = `
  - {name: lost, match: {subject: lost}, to: [lost@firm.example], uncertain: hold}
  - {name: all, match: {}, to: [got@firm.example, nobody@firm.example]}
`
	w.hook(hookScript)
	w.configure()
	return w
}

func (w *world) hook(script string) {
	w.t.Helper()
	script = strings.Replace(script, "\n", "\ncd '"+w.dir+"'\n", 1)
	if err := os.WriteFile(w.path("hook"), []byte(script), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// digest is what the hook gets, as a program reads it.
type digest struct {
	Version int            `json:"version"`
	Counts  map[string]int `json:"counts"`
	Tasks   []struct {
		ID         int64    `json:"id"`
		Status     string   `json:"status"`
		Commands   []string `json:"commands"`
		Deliveries []struct {
			Recipient string `json:"recipient"`
			Status    string `json:"status"`
			Code      int    `json:"code"`
		} `json:"deliveries"`
	} `json:"tasks"`
	Inboxes []struct {
		Email string  `json:"email"`
		Until *string `json:"reachable_since"`
		Error string  `json:"error"`
	} `json:"inboxes"`
	Recipients []struct {
		Recipient string `json:"recipient"`
		Suspended bool   `json:"suspended"`
	} `json:"recipients"`
}

// digests returns what the hook got.
func (w *world) digests() []digest {
	w.t.Helper()
	text, err := os.ReadFile(w.path("told"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	var all []digest
	for line := range strings.Lines(string(text)) {
		var d digest
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Version != 1 {
			w.t.Fatalf("the hook got %q: %v", line, err)
		}
		all = append(all, d)
	}
	return all
}

// wantNotices checks the subjects of all notices that were mailed, and the number of digests that
// the hook got.
func (w *world) wantNotices(what string, hooks int, subjects ...string) []smtpsink.Message {
	w.t.Helper()
	var mails []smtpsink.Message
	var got []string
	for _, m := range w.sink.Messages() {
		if len(m.To) == 1 && m.To[0] == "ops@firm.example" {
			mails = append(mails, m)
			_, rest, _ := strings.Cut(string(m.Header), "\r\nSubject: postrider: ")
			subject, _, _ := strings.Cut(rest, "\r\n")
			got = append(got, subject)
		}
	}
	if strings.Join(got, "|") != strings.Join(subjects, "|") {
		w.t.Fatalf("%s: the notices are %q, want %q", what, got, subjects)
	}
	if n := len(w.digests()); n != hooks {
		w.t.Fatalf("%s: the hook got %d digests, want %d", what, n, hooks)
	}
	return mails
}

// later makes an hour pass for the notices.
func (w *world) later() {
	w.t.Helper()
	const earlier = "UPDATE monitored_emails_channels " +
		"SET told_at = told_at - %[1]d, held_at = held_at - %[1]d, failed_at = failed_at - %[1]d"
	w.sql(fmt.Sprintf(earlier, int64(time.Hour/time.Microsecond)))
}

// TestNotices: there is one digest, nothing is reported twice, and what comes up in between is in
// the next.
func TestNotices(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.noticing(nil)
		w.addInbox("desk@firm.example", "--start", "all")
		w.put("desk@firm.example", "one")
		w.must(75, "run")
		mails := w.wantNotices("one is dead", 1, "1 message is dead")
		text := string(mails[0].Data)
		for _, want := range []string{
			"X-Postrider-Trace: report\r\n", "Auto-Submitted: auto-generated\r\n",
			"\r\n  lacks it: nobody@firm.example (550 5.1.1 there is nobody)\r\n",
			"\r\n  has it:   got@firm.example (250 ",
			"\r\n  try:      postrider task show 1\r\n            postrider task retry 1\r\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the notice is\n%s\nwant %q in it", text, want)
			}
		}
		if mails[0].From != "" {
			t.Errorf("its reverse-path is %q, want a null one", mails[0].From)
		}
		d := w.digests()[0]
		if d.Counts["dead"] != 1 || len(d.Tasks) != 1 || d.Tasks[0].ID != 1 ||
			d.Tasks[0].Deliveries[0].Recipient != "nobody@firm.example" || d.Tasks[0].Deliveries[0].Code != 550 {
			t.Errorf("the hook got %+v, want task 1 and who lacks it", d)
		}
		w.must(0, "run")
		w.wantNotices("a pass with nothing new", 1, "1 message is dead")
		w.put("desk@firm.example", "two")
		w.must(75, "run")
		w.wantNotices("another within the hour", 1, "1 message is dead")
		res := w.must(0, "status")
		if !strings.Contains(res.stdout, "notices: 1 waiting for ops@firm.example\n") ||
			!strings.Contains(res.stdout, "notices: 1 waiting for hook\n") {
			t.Errorf("status prints\n%s\nwant the notices that wait", res.stdout)
		}
		w.later()
		w.must(0, "run", "--dry-run")
		w.wantNotices("a dry run", 1, "1 message is dead")
		w.must(0, "run")
		w.wantNotices("the hour is over", 2, "1 message is dead", "1 message is dead")
		if d := w.digests()[1]; len(d.Tasks) != 1 || d.Tasks[0].ID != 2 {
			t.Errorf("the hook got %+v, want only task 2", d)
		}
		w.must(0, "task", "retry", "1")
		w.later()
		w.must(75, "run")
		w.wantNotices("it died again", 3, "1 message is dead", "1 message is dead", "1 message is dead")
		if n := len(w.arrivedFor("got@firm.example")); n != 2 {
			t.Errorf("%d messages arrived at got@, want 2: those who have it do not get it again", n)
		}
	})
}

// TestNoticesRelayDown: the hook gets the digest at once, the operator when the relay is up again.
// Nothing else changes.
func TestNoticesRelayDown(t *testing.T) {
	w := newWorld(t, "sqlite").noticing(nil)
	w.addInbox("desk@firm.example", "--start", "all")
	w.put("desk@firm.example", "one")
	w.extra = "hook: ./hook\n"
	w.configure()
	w.must(75, "run")
	w.wantNotices("the hook alone", 1)
	up := w.smtpPort
	w.smtpPort, w.extra = 1, notices
	w.configure()
	w.put("desk@firm.example", "two")
	w.later()
	res := w.must(75, "run")
	if n := strings.Count(res.stderr, "connection refused"); n != 1 {
		t.Errorf("that the relay is down is logged %d times, want once:\n%s", n, res.stderr)
	}
	w.wantNotices("the relay is down, nothing new has died", 1)
	w.smtpPort = up
	w.configure()
	w.later()
	w.must(75, "run")
	w.wantNotices("it is up", 2, "2 messages are dead")
}

// TestNoticesUncertain: an uncertain message is reported with the command that settles it.
func TestNoticesUncertain(t *testing.T) {
	w := newWorld(t, "sqlite").noticing(func(e smtpsink.Event) smtpsink.Action {
		return smtpsink.Action{AcceptAndDrop: e.Stage == "dot" && e.Message.To[0] == "lost@firm.example"}
	})
	w.addInbox("desk@firm.example", "--start", "all")
	w.put("desk@firm.example", "lost")
	w.must(75, "run")
	mails := w.wantNotices("it is held", 1, "1 message is uncertain")
	for _, want := range []string{
		"\r\n  may have: lost@firm.example",
		"\r\n            postrider task resolve --delivered 1\r\n            postrider task resolve --retry 1\r\n",
	} {
		if !strings.Contains(string(mails[0].Data), want) {
			t.Errorf("the notice is\n%s\nwant %q in it", mails[0].Data, want)
		}
	}
	if d := w.digests()[0]; d.Counts["uncertain"] != 1 || d.Tasks[0].Status != "uncertain" {
		t.Errorf("the hook got %+v, want one that is uncertain", d)
	}
}

// TestNoticesUnreachable: an inbox with a wrong password is reported after three passes, and again
// when it is reachable.
func TestNoticesUnreachable(t *testing.T) {
	w := newWorld(t, "sqlite").noticing(nil)
	w.addInbox("desk@firm.example", "--start", "all")
	w.must(0, "run")
	w.imap.SetPassword(t, "desk@firm.example", "another")
	for range 2 {
		w.must(75, "run")
	}
	w.wantNotices("two passes", 0)
	for range 2 {
		w.must(75, "run")
	}
	mails := w.wantNotices("four passes", 1, "1 inbox is unreachable")
	for _, want := range []string{
		"Inbox desk@firm.example has been unreachable since ", "\r\n  error:    ",
		"\r\n  try:      postrider inbox check desk@firm.example\r\n",
	} {
		if !strings.Contains(string(mails[0].Data), want) {
			t.Errorf("the notice is\n%s\nwant %q in it", mails[0].Data, want)
		}
	}
	d := w.digests()[0]
	if len(d.Inboxes) != 1 || d.Inboxes[0].Until != nil ||
		!strings.Contains(d.Inboxes[0].Error, "password") || strings.Contains(d.Inboxes[0].Error, password) {
		t.Errorf("the hook got %+v, want the inbox and why", d)
	}
	w.imap.SetPassword(t, "desk@firm.example", password)
	w.later()
	w.must(0, "run")
	w.wantNotices("it is over", 2, "1 inbox is unreachable", "1 inbox is reachable again")
	w.later()
	w.must(0, "run")
	w.wantNotices("nothing new", 2, "1 inbox is unreachable", "1 inbox is reachable again")
}

// TestNoticesComeBack: the operator's address is a watched inbox. It does not forward the notice.
func TestNoticesComeBack(t *testing.T) {
	w := newWorld(t, "sqlite").noticing(nil)
	w.addInbox("desk@firm.example", "--start", "all")
	w.addInbox("ops@firm.example", "--start", "all")
	w.put("desk@firm.example", "one")
	w.must(75, "run")
	mails := w.wantNotices("one is dead", 1, "1 message is dead")
	w.imap.Append(t, "ops@firm.example", "INBOX", mails[0].Data)
	w.later()
	w.must(0, "run")
	w.wantNotices("it came back", 1, "1 message is dead")
	skipped := w.tasks("--status", "skipped")
	if len(skipped) != 1 || !strings.Contains(skipped[0].Reason, "loop: it is a failure notice of postrider") {
		t.Errorf("the skipped tasks are %+v, want the notice, with the reason", skipped)
	}
}
