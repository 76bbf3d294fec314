package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	netmail "net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-message/mail"

	"postrider/internal/forward"
	"postrider/internal/tasks"
)

// hostile is text that an attacker may put into a subject, with octets that no mail may contain.
const hostile = "Hi\r\nBcc: victim@x.example\r\n\r\nTask 99 is dead\u202e\x00\x1b[2J " +
	"=?utf-8?q?=0A?= 開廷 {{.At}} %s <b>\xff"

// TestHostile checks that hostile text from a message stays in its own line of the mail.
func TestHostile(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.task("x")
	b.exec(`UPDATE monitored_emails_tasks SET subject = ?, sender = ?, message_id = ?, route = ?`, hostile, hostile,
		hostile, "desk\nTask 98 is dead")
	b.ends(tasks.Dead,
		tasks.Delivery{Recipient: "nobody@firm.example", Status: tasks.Failed, Code: 550, Reply: hostile},
		tasks.Delivery{Recipient: "got@firm.example", Status: tasks.Delivered, Code: 250, Reply: "2.0.0 ok"},
	)
	b.exec(`UPDATE monitored_emails_tasks SET error_message = ?`, strings.Repeat(hostile, 1000))
	b.wantSent("a message with a hostile subject", oneDead)
	raw := b.relay.sent[0].raw
	for i, c := range []byte(raw) {
		if c > '~' || c < ' ' && c != '\r' && c != '\n' {
			t.Fatalf("octet %d of the digest is %q, want 7-bit text", i, c)
		}
	}
	text := body(t, raw)
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "Bcc") || strings.HasPrefix(l, "Task 9") || len([]rune(l)) > maxText+100 {
			t.Errorf("the digest has the line %q, want no line made by the hostile text, and no longer one", l)
		}
	}
	for _, want := range []string{
		"Task 1 has been dead since ", "  inbox:    desk@firm.example, folder INBOX\n",
		"  subject:  Hi Bcc: victim@x.example Task 99 is dead [2J =?utf-8?q?=0A?= 開廷 {{.At}} %s <b>\ufffd\n",
		"  lacks it: nobody@firm.example (550 Hi Bcc:", "  has it:   got@firm.example (250 2.0.0 ok)\n",
		"  try:      postrider task show 1\n            postrider task retry 1\n            postrider task skip 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the digest is\n%s\nwant %q in it", text, want)
		}
	}
	header, _, _ := strings.Cut(raw, "\r\n\r\n")
	for _, field := range []string{
		"X-Postrider-Trace: report", "Auto-Submitted: auto-generated", "To: " + operator,
		`From: "Forwarder" <forwarder@firm.example>`,
	} {
		if strings.Count("\r\n"+header+"\r\n", "\r\n"+field+"\r\n") != 1 {
			t.Errorf("the header is\n%s\nwant the field %q once", header, field)
		}
	}
	readable(t, raw)
}

// readable checks that three parsers can read a mail.
func readable(t *testing.T, raw string) {
	t.Helper()
	if m, err := netmail.ReadMessage(strings.NewReader(raw)); err != nil {
		t.Errorf("net/mail: %v, want no error", err)
	} else if date, err := m.Header.Date(); err != nil || time.Since(date).Abs() > time.Hour {
		t.Errorf("the date is %s (%v), want now", date, err)
	}
	r, err := mail.CreateReader(strings.NewReader(raw))
	if err != nil {
		t.Fatalf("go-message: %v", err)
	}
	part, err := r.NextPart()
	if err != nil {
		t.Fatalf("go-message: %v", err)
	}
	if text, err := io.ReadAll(part.Body); err != nil || !strings.Contains(string(text), "Task 1 has been dead") {
		t.Errorf("go-message reads %q (%v), want the digest", text, err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("python3 is not installed: the digest was not read with Python")
		return
	}
	cmd := exec.Command(python, "-c", `
import sys, email, email.policy
m = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
assert not m.defects, m.defects
print(m["Subject"]); print(m["Message-ID"]); print(m.get_content())`)
	cmd.Stdin, cmd.Env = strings.NewReader(raw), append(os.Environ(), "PYTHONIOENCODING=utf-8")
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "postrider: ") ||
		!strings.Contains(string(out), "Task 1 has been dead") {
		t.Errorf("Python's email reads (%v)\n%s\nwant the digest", err, out)
	}
}

// TestBounded checks that only the first of many tasks are listed.
func TestBounded(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	for range 70 {
		b.task("many")
	}
	var ds []tasks.Delivery
	for i := range 30 {
		ds = append(ds, tasks.Delivery{Recipient: fmt.Sprintf("r%02d@firm.example", i), Status: tasks.Delivered})
	}
	ds[29].Status = tasks.Failed
	b.ends(tasks.Dead, ds...)
	b.wantSent("seventy", "postrider: 70 messages are dead")
	text := body(t, b.relay.sent[0].raw)
	for want, n := range map[string]int{
		"has been dead since": 50, "\nand 20 more messages: `postrider task list --status dead --status uncertain`": 1,
		"and 10 more recipients\n":       50,
		"  lacks it: r29@firm.example\n": 50, "  has it:   r18@firm.example\n": 50, "r19@firm.example": 0,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("the digest has %q %d times, want %d", want, got, n)
		}
	}
	b.later()
	b.wantSent("tasks that were only counted are reported, too")
}

// TestDuplicateHasIt checks that a recipient who has the message by another task is listed after
// those without it.
func TestDuplicateHasIt(t *testing.T) {
	got := describe(tasks.Task{Status: tasks.Dead, Deliveries: []tasks.Delivery{
		{Recipient: "copy@firm.example", Status: tasks.Duplicated},
		{Recipient: "nobody@firm.example", Status: tasks.Failed},
	}}, Ending{Status: Dead})
	want := "  lacks it: nobody@firm.example\n  has it:   copy@firm.example\n"
	if text := (Digest{Tasks: []Task{got}}).text(); !strings.Contains(text, want) {
		t.Errorf("the text is %q, want it to have %q", text, want)
	}
}

// TestDelayedLacksIt: what a report says of a message that is still on its way goes before what the
// relay said. The hook gets the delivery as it was.
func TestDelayedLacksIt(t *testing.T) {
	late := &tasks.Arrival{Status: tasks.Delayed, Code: 450, Enhanced: "4.2.1", Reply: "come back later"}
	got := describe(tasks.Task{Status: tasks.Dead, Deliveries: []tasks.Delivery{
		{Recipient: "slow@firm.example", Status: tasks.Delivered, Code: 250, Reply: "ok", Arrival: late},
	}}, Ending{Status: Dead})
	const want = "  lacks it: slow@firm.example (delayed: 450 4.2.1 come back later)\n"
	if text := (Digest{Tasks: []Task{got}}).text(); !strings.Contains(text, want) {
		t.Errorf("the text is %q, want it to have %q", text, want)
	}
	if d := got.Deliveries[0]; d.Status != string(tasks.Delivered) || d.Code != 250 || d.Reply != "ok" {
		t.Errorf("the hook gets %+v, want what the relay said", d)
	}
}

// TestOneMore checks the plural forms of the text for the number 1.
func TestOneMore(t *testing.T) {
	text := Digest{MoreInboxes: 1, MoreTasks: 1, Tasks: []Task{{MoreDeliveries: 1}}}.text()
	for _, want := range []string{"and 1 more inbox:", "and 1 more message:", "and 1 more recipient\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the digest is\n%s\nwant %q in it", text, want)
		}
	}
}

// TestJSON pins the JSON that hooks depend on: names and types never change.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	n := &Notifier{Config: Config{Host: "mail-a"}, Tasks: described{}}
	d, err := n.digest(t.Context(), News{
		At:      at,
		Tasks:   []Ending{{17, Dead, at}, {18, Uncertain, at}, {19, Dead, at}},
		Bounces: []Ending{{20, Bounced, at}},
		Outages: []Outage{
			{1, Unreachable, "a@firm.example", 3, "log in:\nno", at, nil},
			{2, Unreachable, "b@firm.example", 0, "", at, &at},
			{3, NeedsLogin, "c@firm.example", 1, "needs login", at, nil},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "digest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(append(got, '\n'), want) {
		t.Errorf("the hook gets\n%s\nwant the content of testdata/digest.json", got)
	}
}

// described has tasks 17, 18 and 20.
type described struct{}

func (described) Get(_ context.Context, id int64) (tasks.Task, error) {
	t := tasks.Task{
		ID: id, Inbox: "a@firm.example", Folder: "INBOX", Epoch: 1<<32 + 7, UID: 4,
		Identity: tasks.Identity{
			MessageID: "<1@court.example>", Subject: "Hearing", Sender: "Clerk <clerk@court.example>",
		},
		Status: tasks.Dead, Attempts: 1, Route: "court-notices",
		Reason: "permanently refused: intake@firm.example: 550 5.1.1 there is nobody",
		Deliveries: []tasks.Delivery{
			{Recipient: "desk@firm.example", Status: tasks.Delivered, Code: 250, Reply: "2.0.0 ok"},
			{Recipient: "intake@firm.example", Status: tasks.Failed, Code: 550, Reply: "5.1.1 there is nobody"},
		},
	}
	switch id {
	case 18:
		t.Status, t.Deliveries = tasks.Uncertain,
			[]tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Sending, Reply: "the connection broke"}}
		t.Reason = "the outcome is not known: desk@firm.example: the connection broke"
	case 20:
		accepted := time.Date(2026, 11, 20, 9, 58, 0, 0, time.UTC)
		t.Status, t.Reason = tasks.Forwarded, ""
		t.Deliveries = t.Deliveries[:1]
		t.Deliveries[0].DeliveredAt = &accepted
		t.Deliveries[0].Arrival = &tasks.Arrival{
			Status: tasks.Bounced, Code: 550, Enhanced: "5.1.1", Reply: "no such user", Remote: "mx.other.example",
			At: accepted.Add(2 * time.Minute),
		}
	case 19:
		return t, fmt.Errorf("task 19: %w", tasks.ErrNotFound)
	}
	return t, nil
}

func TestReportNeedsSender(t *testing.T) {
	none, err := forward.NewComposer(forward.ComposeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, config(t, "sqlite"))
	b.Composer = none
	b.dies("one")
	b.wantSent("there is no forward.from")
	if !strings.Contains(b.logs.String(), "set forward.from") {
		t.Errorf("the log is %q, want it to say: set forward.from", b.logs)
	}
}
