package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

const (
	bounceInbox = "bounces@firm.example"
	bounceKeys  = "secret: sixteen octets or more"
	withTokens  = "inbox: bounces@firm.example, address: 'bounces+{token}@firm.example', " + bounceKeys
)

// bouncing makes a world that reads reports. Its mail goes to two recipients of another firm.
func (w *world) bouncing(section, more string) *world {
	w.t.Helper()
	w.extra = "bounces: {" + section + "}\n" + more
	w.routes = "  - {name: all, match: {}, to: [gone@other.example, kept@other.example]}\n"
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	w.addInbox(bounceInbox, "--start", "all")
	return w
}

// sentBack is what a server writes about a recipient of a message that it had taken.
type sentBack struct {
	to, original, recipient string // the reverse-path; the Message-ID
	action, status, said    string
}

// bounced is a report that a message could not be delivered.
func bounced(to, original, recipient string) sentBack {
	return sentBack{to, original, recipient, "failed", "5.1.1", "550 5.1.1 <" + recipient + ">: no such user"}
}

func (b sentBack) mail() []byte {
	original := "Subject: one\n"
	if b.original != "" {
		original += "Message-ID: " + b.original + "\n"
	}
	text := fmt.Sprintf(`Return-Path: <>
Delivered-To: %[1]s
From: Mail Delivery System <mailer-daemon@relay.example>
To: <%[1]s>
Subject: Undelivered mail
Date: %[2]s
Message-ID: <%[3]d.report@relay.example>
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="=_b"

--=_b
Content-Type: text/plain

It went wrong.
--=_b
Content-Type: message/delivery-status

Reporting-MTA: dns; relay.example

Final-Recipient: rfc822; %[4]s
Action: %[5]s
Status: %[6]s
Remote-MTA: dns; mx.other.example
Diagnostic-Code: smtp; %[7]s

--=_b
Content-Type: text/rfc822-headers

%[8]s
--=_b--
`, b.to, time.Now().Format(time.RFC1123Z), time.Now().UnixNano(), b.recipient, b.action, b.status, b.said, original)
	return []byte(strings.ReplaceAll(text, "\n", "\r\n"))
}

// comeBack puts reports into the bounce inbox.
func (w *world) comeBack(reports ...sentBack) {
	w.t.Helper()
	var msgs [][]byte
	for _, r := range reports {
		msgs = append(msgs, r.mail())
	}
	w.imap.Append(w.t, bounceInbox, "INBOX", msgs...)
}

// sentTo is what went out to a recipient, the last one first.
func (w *world) sentTo(recipient string) []smtpsink.Message {
	w.t.Helper()
	sent := w.arrivedFor(recipient)
	slices.Reverse(sent)
	return sent
}

// wantArrival checks what `task show` says of the delivery to gone@other.example; empty for
// nothing.
func (w *world) wantArrival(what string, id int64, want string) {
	w.t.Helper()
	shown := w.must(0, "task", "show", fmt.Sprint(id)).stdout
	if want == "" && strings.Contains(shown, "after it was accepted") || !strings.Contains(shown, want) {
		w.t.Fatalf("%s: task show says\n%s\nwant %q", what, shown, want)
	}
}

// TestBounceComesHome: a message goes out from an address of its own for each recipient. What comes
// back to it is read as a report, once, and a retry sends to that recipient again.
func TestBounceComesHome(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.bouncing(withTokens, "")
		w.put("desk@firm.example", "one")
		w.pass(0)
		gone, kept := w.sentTo("gone@other.example"), w.sentTo("kept@other.example")
		if len(gone) != 1 || len(kept) != 1 ||
			gone[0].From == kept[0].From || !strings.HasPrefix(gone[0].From, "bounces+") {
			t.Fatalf("the relay got %d and %d messages, want one for each, from an address of its own",
				len(gone), len(kept))
		}
		w.comeBack(bounced(gone[0].From, "", "gone@other.example"))

		if res := w.must(0, "run", "--dry-run"); !strings.Contains(res.stdout, "task 1 bounced: gone@other.example") {
			t.Errorf("a dry run prints\n%s\nwant what the report says", res.stdout)
		}
		w.wantArrival("after a dry run", 1, "")
		if r, _ := w.pass(0); r.Totals.Registered != 1 || r.Totals.Skipped != 1 || len(w.sink.Messages()) != 2 {
			t.Errorf("the pass that reads the report: %+v, want it registered and skipped, and nothing sent", r.Totals)
		}
		w.wantArrival("after the report", 1, "bounced: 550 5.1.1")
		w.wantArrival("after the report", 1, "at mx.other.example, ")
		w.wantArrival("after the report", 1, "after it was accepted")
		if found := w.tasks("--bounced"); len(found) != 1 || found[0].ID != 1 || found[0].Status != "forwarded" {
			t.Errorf("task list --bounced has %+v, want the first task, which is still forwarded", found)
		}

		w.must(0, "task", "retry", "1")
		w.wantArrival("after a retry", 1, "")
		w.pass(0)
		gone, kept = w.sentTo("gone@other.example"), w.sentTo("kept@other.example")
		if len(gone) != 2 || len(kept) != 1 {
			t.Fatalf("after a retry the relay has %d and %d messages, want one more for the one that bounced",
				len(gone), len(kept))
		}
		w.comeBack(bounced(strings.ToUpper(w.sentTo("gone@other.example")[0].From), "", "gone@other.example"))
		w.pass(0)
		w.wantArrival("after the second report", 1, "bounced: 550 5.1.1")
	})
}

// TestBounceForged: without a valid token no delivery changes, whatever else fits; what is about
// nothing of ours is logged and left; and what is no report goes to the routes.
func TestBounceForged(t *testing.T) {
	w := newWorld(t, "sqlite").bouncing(withTokens, "")
	w.routes = "  - {name: letters, match: {inbox: bounces@firm.example}, to: [desk@other.example]}\n" + w.routes
	w.configure()
	raw := testserver.Mail("clerk@court.example", "desk@firm.example", "one", "The body.")
	w.imap.Append(t, "desk@firm.example", "INBOX", raw)
	w.pass(0)
	from := w.sentTo("gone@other.example")[0].From
	i := strings.IndexByte(from, '@') - 1
	other := map[byte]string{'a': "b"}[from[i-4]]
	if other == "" {
		other = "a"
	}
	forged := from[:i-4] + other + from[i-3:]
	w.comeBack(
		bounced(forged, idOf(t, raw), "gone@other.example"),
		bounced(bounceInbox, idOf(t, raw), "gone@other.example"),
		bounced("somebody@else.example", "<nothing@else.example>", "them@else.example"),
	)
	w.put(bounceInbox, "a letter")
	r, res := w.pass(0)
	w.wantArrival("after forged reports", 1, "")
	if r.Totals.Skipped != 3 || r.Totals.Forwarded != 1 || len(w.arrivedFor("desk@other.example")) != 1 {
		t.Errorf("the pass: %+v, want three reports skipped and the letter forwarded\n%s", r.Totals, res.stderr)
	}
	skipped := w.tasks("--inbox", bounceInbox, "--status", "skipped")
	for _, task := range skipped {
		if !strings.HasPrefix(task.Reason, "report: it is not used") {
			t.Errorf("task %d: %q, want that the report is not used", task.ID, task.Reason)
		}
	}
	if forged := skipped[0].Reason + skipped[2].Reason; !strings.Contains(forged, "forged") {
		t.Errorf("the reasons are %q, want that a token is forged", forged)
	}
	if r, _ := w.pass(0); r.Totals.Registered != 0 {
		t.Errorf("the next pass registers %d messages, want none", r.Totals.Registered)
	}
}

// TestBounceWithoutTokens: all mail has one reverse-path, and a report is matched by the Message-ID
// of the original and the recipient, both.
func TestBounceWithoutTokens(t *testing.T) {
	w := newWorld(t, "sqlite").bouncing("inbox: bounces@firm.example", "")
	raw := testserver.Mail("clerk@court.example", "desk@firm.example", "one", "The body.")
	w.imap.Append(t, "desk@firm.example", "INBOX", raw)
	w.pass(0)
	sent := w.sink.Messages()
	if len(sent) != 1 || sent[0].From != "forwarder@firm.example" || len(sent[0].To) != 2 {
		t.Fatalf("the relay got %d messages, want one for both recipients, from the configured address", len(sent))
	}
	w.comeBack(bounced(sent[0].From, idOf(t, raw), "somebody@other.example"),
		bounced(sent[0].From, "<other@x.example>", "gone@other.example"))
	w.pass(0)
	w.wantArrival("after reports that do not fit", 1, "")
	w.comeBack(bounced(sent[0].From, idOf(t, raw), "gone@OTHER.example"))
	w.pass(0)
	w.wantArrival("after one that fits", 1, "bounced: 550 5.1.1")
}

// TestBounceConfirm: a relay that offers DSN is asked for confirmations, and what it says is
// recorded. One that does not gets a note in `check`.
func TestBounceConfirm(t *testing.T) {
	w := newWorld(t, "sqlite").bouncing(withTokens+", confirm: true", "")
	if out := w.must(0, "check").stdout; !strings.Contains(out, "it does not offer DSN") ||
		!strings.Contains(out, "MAIL FROM:<bounces+") ||
		!strings.Contains(out, "bounces: messages of the inbox bounces@firm.example are read as reports") {
		t.Errorf("check prints\n%s\nwant a note that there is no DSN, the sender that was tried, and the inbox", out)
	}
	sink, err := smtpsink.Start(smtpsink.Options{
		Extensions: []string{"8BITMIME", "SMTPUTF8", "PIPELINING", "DSN"}, KeepData: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	w.sink, w.smtpPort = sink, sink.Port()
	w.configure()
	w.must(0, "check").lacks(t, "DSN")
	w.put("desk@firm.example", "one")
	w.pass(0)
	gone := w.sentTo("gone@other.example")[0]
	token := strings.TrimSuffix(strings.TrimPrefix(gone.From, "bounces+"), "@firm.example")
	if !slices.Contains(gone.Params, "RET=HDRS") || !slices.Contains(gone.Params, "ENVID="+token) {
		t.Errorf("MAIL had %q, want RET=HDRS, and the token as ENVID", gone.Params)
	}
	want := []string{"NOTIFY=SUCCESS,FAILURE,DELAY", "ORCPT=rfc822;gone@other.example"}
	if !slices.Equal(gone.ToParams[0], want) {
		t.Errorf("RCPT had %q, want %q", gone.ToParams[0], want)
	}
	for _, step := range []struct{ action, status, want string }{
		{"delayed", "4.4.1", "delayed"},
		{"relayed", "2.0.0", "relayed"},
		{"delivered", "2.0.0", "confirmed"},
		{"delayed", "4.4.1", "confirmed"},
	} {
		reply := "250 " + step.status + " fine"
		w.comeBack(sentBack{gone.From, "", "gone@other.example", step.action, step.status, reply})
		w.pass(0)
		w.wantArrival("after "+step.action, 1, step.want+": ")
	}
}

// TestNoBounceInbox: a bounce inbox that is not there is an inbox that cannot be reached, and
// forwarding goes on.
func TestNoBounceInbox(t *testing.T) {
	w := newWorld(t, "sqlite").bouncing(withTokens, "")
	w.must(0, "inbox", "disable", bounceInbox)
	w.put("desk@firm.example", "one")
	r, res := w.pass(75)
	found := slices.IndexFunc(r.Inboxes, func(in struct {
		Email string `json:"email"`
		Error string `json:"error"`
		counters
	},
	) bool {
		return in.Email == bounceInbox
	})
	if r.Totals.Forwarded != 1 || found < 0 || !strings.Contains(r.Inboxes[found].Error, "bounces.inbox") {
		t.Errorf("the pass: %+v, want the message forwarded, and the bounce inbox unreachable\n%s", r, res.stderr)
	}
	w.must(75, "check").has(t, "FAILED  bounces: there is no active inbox bounces@firm.example")
	w.must(0, "inbox", "enable", bounceInbox)
	w.pass(0)
}
