package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/bounce"
	"postrider/internal/forward"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// fakeBounces reads messages with "report" in their subject, and fails for those with "broken".
type fakeBounces struct {
	inbox string

	mu        sync.Mutex
	read      []string // subjects
	dry       bool     // some were read only to say what they say
	reviews   int
	suspended map[string]string
	fails     error
}

func (f *fakeBounces) Of(inbox string) bool { return inbox == f.inbox }

func (f *fakeBounces) Read(_ context.Context, m *message.Message, dry bool) (string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read, f.dry = append(f.read, m.Subject()), f.dry || dry
	if strings.Contains(m.Subject(), "broken") && f.fails != nil {
		return "", false, f.fails
	}
	return "report: " + m.Subject(), strings.Contains(m.Subject(), "report"), nil
}

func (f *fakeBounces) Review(context.Context) error {
	f.reviews++
	return nil
}

func (f *fakeBounces) Suspended(_ context.Context, recipient string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.suspended[recipient], f.fails
}

func (r *rig) subjects(subjects ...string) {
	r.t.Helper()
	for _, s := range subjects {
		r.put("INBOX", testserver.Mail("a@x.example", address, s, "text"))
	}
}

// TestReports: a message of the bounce inbox that is a report is read before it is registered, and
// goes nowhere. Others go by the routes.
func TestReports(t *testing.T) {
	r := newRig(t, nil)
	f := &fakeBounces{inbox: address}
	r.Bounces = f
	r.add("all")
	r.subjects("report 1", "letter", "report 2")
	r.want(r.run(), Counters{Registered: 3, Forwarded: 1, Skipped: 2})
	if len(r.sink.Messages()) != 1 || f.reviews != 1 || f.dry {
		t.Errorf("%d messages went out, and there were %d reviews, want the letter, and one review",
			len(r.sink.Messages()), f.reviews)
	}
	got, err := r.queue.Get(t.Context(), 1)
	check(t, err)
	if got.Skip != tasks.SkipReport || got.Reason != "report: report 1" {
		t.Errorf("the task is %s (%s), want it skipped as a report, with what it says", got.Skip, got.Reason)
	}

	_, err = r.queue.Requeue(t.Context(), tasks.By{Who: "test"}, 1)
	check(t, err)
	r.want(r.run(), Counters{Skipped: 1}) // it is read again when it is claimed
	if want := []string{"report 1", "letter", "report 2", "report 1"}; !slices.Equal(f.read, want) {
		t.Errorf("read were %q, want %q", f.read, want)
	}
}

// TestReversePathOfARetry: a server with greylisting accepts a retry, because its reverse-path is
// the same. A task that is requeued after a bounce gets another one: a late report about the first
// attempt does not count.
func TestReversePathOfARetry(t *testing.T) {
	var mu sync.Mutex
	known := map[string]bool{}
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		mu.Lock()
		defer mu.Unlock()
		if e.Stage != "rcpt" || known[e.Message.From] {
			return smtpsink.Action{}
		}
		known[e.Message.From] = true
		return smtpsink.Action{Code: 451, Text: "4.7.1 greylisted, try again later"}
	})
	signer, err := bounce.NewSigner(bounce.Config{
		Address: "bounces+{token}@firm.example", Secrets: []string{"a secret"}, Now: r.clock.Now,
	})
	check(t, err)
	relay, err := forward.NewRelay(forward.Config{
		Host: "127.0.0.1", Port: r.sink.Port(), Security: "none", Connections: 1, From: "forwarder@firm.example",
		EnvelopeFrom: "bounces@firm.example", Signer: signer,
	})
	check(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	r.Relay = SMTP{relay}
	r.add("all")
	r.subjects("letter")
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Forwarded: 1})
	got, err := r.queue.Get(t.Context(), 1)
	check(t, err)
	_, err = r.queue.Arrived(t.Context(), "test", 1, got.Deliveries[0].Recipient, tasks.Arrival{Status: tasks.Bounced})
	check(t, err)
	_, err = r.queue.Requeue(t.Context(), tasks.By{Who: "test"}, 1)
	check(t, err)
	r.want(r.run(), Counters{Retry: 1})
	if len(known) != 2 {
		t.Errorf("the reverse-paths are %v, want one before the bounce and one after it", known)
	}
}

// TestReportsInANewEpoch: when UIDVALIDITY changes, a report that is known is not read again. It
// may be about an attempt before the one that is recorded now.
func TestReportsInANewEpoch(t *testing.T) {
	r := newRig(t, nil)
	f := &fakeBounces{inbox: address}
	r.Bounces = f
	r.add("all")
	r.subjects("report 1")
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.subjects("report 2")
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	if want := []string{"report 1", "report 2"}; !slices.Equal(f.read, want) {
		t.Errorf("read were %q, want each of %q once", f.read, want)
	}
}

// TestReportsOfOthers: the messages of another inbox are not read, and nothing is reviewed.
func TestReportsOfOthers(t *testing.T) {
	r := newRig(t, nil)
	f := &fakeBounces{inbox: "bounces@firm.example"}
	r.Bounces = f
	r.add("all")
	r.subjects("report 1")
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
	if len(f.read) > 0 || f.reviews > 0 {
		t.Errorf("%q were read, and there were %d reviews, want none", f.read, f.reviews)
	}
}

// TestReportFails: a report that cannot be recorded is not registered, those before it are, and the
// next pass goes on with it.
func TestReportFails(t *testing.T) {
	r := newRig(t, nil)
	f := &fakeBounces{inbox: address, fails: errors.New("the database is away")}
	r.Bounces = f
	r.add("all")
	r.subjects("report 1", "broken report", "report 3")
	rep := r.run()
	if n := rep.Counters; !strings.Contains(rep.Error, "the database is away") || n.Registered != 1 || n.Skipped != 1 {
		t.Errorf("the pass: %+v, want one report registered, and the error", rep)
	}
	f.fails = nil
	r.want(r.run(), Counters{Registered: 2, Skipped: 2})
}

// TestReportsInADryRun: a dry run says what reports say, and records nothing.
func TestReportsInADryRun(t *testing.T) {
	r := newRig(t, nil)
	f := &fakeBounces{inbox: address}
	seen := &previews{why: map[string]string{}}
	r.Bounces, r.Config.DryRun, r.Observer = f, true, seen
	r.add("all")
	r.subjects("report 1")
	r.run()
	if !f.dry || f.reviews > 0 || seen.why["report 1"] != "report: report 1" {
		t.Errorf("the dry run shows %q, with %d reviews, want what the report says, and none", seen.why, f.reviews)
	}
}

// TestSuspended: nothing is sent to a recipient that is suspended, and the others get the message.
func TestSuspended(t *testing.T) {
	r := newRig(t, nil, route.Rule{Name: "all", To: []string{"gone@x.example", "kept@x.example"}})
	f := &fakeBounces{suspended: map[string]string{"gone@x.example": "it is suspended"}}
	r.Bounces = f
	r.add("all")
	r.subjects("one")
	r.want(r.run(), Counters{Registered: 1, Dead: 1})
	got, err := r.queue.Get(t.Context(), 1)
	check(t, err)
	if sent := r.sink.Messages(); len(sent) != 1 || !slices.Equal(sent[0].To, []string{"kept@x.example"}) ||
		!strings.Contains(got.Reason, "gone@x.example: it is suspended") {
		t.Fatalf("the relay got %d messages, and the task ended because %q", len(sent), got.Reason)
	}
	f.suspended = nil
	_, err = r.queue.Requeue(t.Context(), tasks.By{Who: "test"}, 1)
	check(t, err)
	r.want(r.run(), Counters{Forwarded: 1})
	if sent := r.sink.Messages(); len(sent) != 2 || !slices.Equal(sent[1].To, []string{"gone@x.example"}) {
		t.Errorf("the relay got %d messages, want one more, for the one who was suspended", len(sent))
	}

	f.suspended = map[string]string{"gone@x.example": "it is suspended", "kept@x.example": "so is this"}
	r.subjects("two")
	r.want(r.run(), Counters{Registered: 1, Dead: 1})
	if n := len(r.sink.Messages()); n != 2 {
		t.Errorf("the relay got %d messages, want none for those who are suspended", n)
	}
}

// TestSuspendedInADryRun: a dry run says to whom nothing would be sent, and why.
func TestSuspendedInADryRun(t *testing.T) {
	r := newRig(t, nil, route.Rule{Name: "all", To: []string{"gone@x.example", "kept@x.example"}})
	f := &fakeBounces{}
	r.Bounces = f
	r.add("all")
	preview := func() string {
		seen := &woulds{}
		r.Config.DryRun, r.Observer = true, seen
		r.run()
		r.Config.DryRun, r.Observer = false, nobody{}
		return seen.all
	}
	r.waiting("INBOX", 1)
	f.suspended = map[string]string{"gone@x.example": "it is suspended"}
	const unsent = "; nothing would be sent to gone@x.example: it is suspended"
	want := "[kept@x.example] task 1 (received) would be processed" + unsent + "\n"
	if got := preview(); got != want {
		t.Errorf("of a task that is due it shows %q, want %q", got, want)
	}
	r.run()
	r.subjects("two")
	want = "[kept@x.example] would be forwarded to kept@x.example by route all" + unsent + "\n"
	if got := preview(); got != want {
		t.Errorf("of a new message it shows %q, want %q", got, want)
	}
	f.suspended["kept@x.example"] = "so is this"
	want = "[] would end dead: all recipients of route all are suspended" + unsent +
		"; nothing would be sent to kept@x.example: so is this\n"
	if got := preview(); got != want {
		t.Errorf("while both are suspended it shows %q, want %q", got, want)
	}
	f.fails = errors.New("the database is away")
	r.Config.DryRun, r.Observer = true, &woulds{}
	if rep := r.run(); !strings.Contains(rep.Error, "the database is away") {
		t.Errorf("the dry run: %+v, want the error", rep)
	}
}

// woulds are what a dry run shows, a line each: to whom, and in words.
type woulds struct {
	nobody
	all string
}

func (w *woulds) Would(one *Would, _ tasks.Task) { w.all += fmt.Sprintln(one.Recipients, one.Outcome) }

// TestSuspendedUnknown: while it is not known who is suspended, nothing is sent, and the attempt
// does not count.
func TestSuspendedUnknown(t *testing.T) {
	r := newRig(t, nil)
	r.Bounces = &fakeBounces{fails: errors.New("the database is away")}
	r.add("all")
	r.subjects("one")
	rep := r.run()
	got, err := r.queue.Get(t.Context(), 1)
	check(t, err)
	if !strings.Contains(rep.Error, "the database is away") || len(r.sink.Messages()) > 0 || got.Attempts != 0 {
		t.Errorf("the pass: %+v, the task has %d attempts; want the error, nothing sent and no attempt",
			rep, got.Attempts)
	}
}
