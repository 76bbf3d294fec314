package arrivals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/bounce"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

var day0 = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// registry is a Queue with two tasks of the same message to two recipients.
type registry struct {
	tasks   map[int64]tasks.Task
	bounces func(within time.Duration) map[string]int
	said    []string // what was recorded
	fails   error
}

func newRegistry() *registry {
	r := &registry{tasks: map[int64]tasks.Task{}}
	for _, id := range []int64{7, 8} {
		r.tasks[id] = tasks.Task{ID: id, Deliveries: []tasks.Delivery{
			{Recipient: "gone@Other.example", Status: tasks.Delivered},
			{Recipient: "kept@other.example", Status: tasks.Delivered},
			{Recipient: "later@other.example", Status: tasks.Pending},
		}}
	}
	return r
}

func (r *registry) Get(_ context.Context, id int64) (tasks.Task, error) {
	t, ok := r.tasks[id]
	if !ok {
		return t, tasks.ErrNotFound
	}
	return t, r.fails
}

func (r *registry) Arrived(_ context.Context, who string, id int64, recipient string, a tasks.Arrival) (bool, error) {
	said := fmt.Sprintf("%s: %d %s %s %d %s %s", who, id, recipient, a.Status, a.Code, a.Remote, a.Target)
	r.said = append(r.said, strings.TrimSpace(said))
	return true, r.fails
}

func (r *registry) SentAs(_ context.Context, id string, within time.Duration) ([]int64, error) {
	if id == "<original@court.example>" && within == 21*24*time.Hour {
		return []int64{8, 7}, r.fails
	}
	return nil, r.fails
}

func (r *registry) Bounces(_ context.Context, within time.Duration) (map[string]int, error) {
	return r.bounces(within), r.fails
}

func signer(t testing.TB, secret string, now time.Time) *bounce.Signer {
	t.Helper()
	s, err := bounce.NewSigner(bounce.Config{
		Address: "bounces+{token}@firm.example", Secrets: []string{secret}, MaxAge: 21 * 24 * time.Hour,
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const secret = "sixteen octets or more"

func book(t testing.TB, r *registry, tokens bool) *Book {
	cfg := Config{
		Inbox: plain, MaxAge: 21 * 24 * time.Hour, Worker: "w",
		After: 3, Within: 7 * 24 * time.Hour,
	}
	if tokens {
		cfg.Signer = signer(t, secret, day0)
	}
	return New(cfg, r, nil, slog.New(slog.DiscardHandler), func() time.Time { return day0 })
}

func parsed(t testing.TB, raw string) *message.Message {
	t.Helper()
	b := (&message.Spooler{Limit: 1 << 20, Budget: 64 << 20, Dir: t.TempDir()}).New()
	if _, err := io.Copy(b, strings.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// reported is a delivery report to an address, about the recipients of fields such as
// "Final-Recipient: rfc822; a@x.example\nAction: failed", separated by "|".
func reported(to, about string) string {
	text := `Delivered-To: ` + to + `
From: Mail Delivery System <mailer-daemon@relay.example>
Subject: Undelivered
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

It went wrong.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; relay.example
`
	for _, fields := range strings.Split(about, "|") {
		text += "\n" + fields + "\n"
	}
	text += `
--b
Content-Type: text/rfc822-headers

Message-ID: <original@court.example>
Subject: one

--b--
`
	return strings.ReplaceAll(text, "\n", "\r\n")
}

const (
	plain = "bounces@firm.example" // without a token
	gone  = "Final-Recipient: rfc822; gone@other.example\n"

	goneFailed = gone + "Action: failed\nStatus: 5.1.1\n" +
		"Remote-MTA: dns; mx.other.example\nDiagnostic-Code: smtp; 550 5.1.1 no such user"
	keptFailed = "Final-Recipient: rfc822; kept@other.example\nAction: failed\nStatus: 5.1.1"
	letter     = "From: anna@x.example\r\nTo: bounces@firm.example\r\nSubject: hello\r\n\r\nHow are you?\r\n"
	absent     = "From: anna@x.example\r\nTo: bounces@firm.example\r\nSubject: absent\r\n" +
		"Auto-Submitted: auto-replied\r\n\r\nI am away.\r\n"
)

var (
	memberFailed = strings.ReplaceAll(goneFailed, "gone@", "member@")
	laterFailed  = strings.ReplaceAll(goneFailed, "gone@", "later@")
)

// TestReadByToken: only a valid token names the delivery, and the report says what became of it.
func TestReadByToken(t *testing.T) {
	ours := signer(t, secret, day0)
	to := func(task int64) string { return ours.ReversePath(task, time.Time{}, "gone@other.example") }
	forged := signer(t, "another secret, as long", day0).ReversePath(7, time.Time{}, "gone@other.example")
	expired := signer(t, secret, day0.AddDate(0, 0, -30)).ReversePath(7, time.Time{}, "gone@other.example")
	const bounced = "w: 7 gone@Other.example bounced 550 mx.other.example"
	for _, tt := range []struct {
		name, raw string
		want      []string // what is recorded
		says      string   // in the reason; empty: the routes decide
	}{
		{
			"a bounce", reported(to(7), goneFailed),
			[]string{bounced},
			"report: task 7 bounced: gone@Other.example: 550 5.1.1 no such user at mx.other.example",
		},
		{"in upper case", reported(strings.ToUpper(to(7)), goneFailed), []string{bounced}, "task 7 bounced"},
		{
			"of a member of an alias", reported(to(7), memberFailed),
			[]string{bounced + " member@other.example"},
			"task 7 bounced: gone@Other.example (for member@other.example): 550",
		},
		{
			"of a member of an alias, by ORCPT",
			reported(to(7), "Original-Recipient: rfc822; GONE@other.example\n"+
				strings.ReplaceAll(goneFailed, "gone@other.", "gone@private.")),
			[]string{bounced + " gone@private.example"},
			"task 7 bounced",
		},
		{
			"under a server's name", reported(to(7), strings.ReplaceAll(goneFailed, "gone@other", "Gone@mx.other")),
			[]string{bounced},
			"task 7 bounced",
		},
		{
			"of the recipient and a member", reported(to(7), goneFailed+"|"+memberFailed),
			[]string{bounced},
			"task 7 bounced",
		},
		{"about another one, too", reported(to(7), keptFailed+"|"+goneFailed), []string{bounced}, "task 7 bounced"},
		{
			"delayed, then relayed",
			reported(to(7), gone+"Action: delayed\nStatus: 4.4.1|"+gone+"Action: relayed\nStatus: 2.0.0"),
			[]string{"w: 7 gone@Other.example relayed 0 relay.example"},
			"task 7 relayed",
		},
		{
			"expanded", reported(to(7), gone+"Action: expanded\nStatus: 2.0.0"),
			[]string{"w: 7 gone@Other.example relayed 0 relay.example"},
			"task 7 relayed",
		},
		{
			"confirmed", reported(to(7), gone+"Action: delivered\nStatus: 2.0.0"),
			[]string{"w: 7 gone@Other.example confirmed 0 relay.example"},
			"task 7 confirmed",
		},
		{
			"a member confirmed, then the recipient",
			reported(to(7), "Original-Recipient: rfc822; gone@other.example\n"+
				"Final-Recipient: rfc822; member@private.example\nAction: delivered\nStatus: 2.0.0|"+
				gone+"Action: delivered\nStatus: 2.0.0"),
			[]string{"w: 7 gone@Other.example confirmed 0 relay.example"},
			"task 7 confirmed",
		},
		{
			"a forged token", reported(forged, goneFailed),
			nil, "its token is forged or damaged (it says: gone@other.example failed)",
		},
		{"an expired token", reported(expired, goneFailed), nil, "its token has expired (bounces.max_age)"},
		{
			"no token, but the Message-ID fits", reported(plain, goneFailed),
			nil, "it was not sent to one of our reverse-paths",
		},
		{
			"a purged task", reported(to(99), goneFailed),
			nil, "task 99, which it is about, is no longer in the registry",
		},
		{
			"another recipient", reported(ours.ReversePath(7, time.Time{}, "other@other.example"), goneFailed),
			nil, "is no longer a recipient of task 7",
		},
		{
			"not sent yet", reported(ours.ReversePath(7, time.Time{}, "later@other.example"), laterFailed),
			nil, "the delivery to later@other.example is now pending; the report is not used",
		},
		{"an absence note", absent, nil, "report: an automatic answer"},
		{"a letter", letter, nil, ""},
	} {
		for _, dry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dry %v", tt.name, dry), func(t *testing.T) {
				r := newRegistry()
				says, ok, err := book(t, r, true).Read(t.Context(), parsed(t, tt.raw), dry)
				want := tt.want
				if dry {
					want = nil
				}
				if err != nil || !slices.Equal(r.said, want) {
					t.Errorf("Read records %q, %v, want %q", r.said, err, want)
				}
				if ok != (tt.says != "") || !strings.Contains(says, tt.says) {
					t.Errorf("Read = %q, %v, want %q", says, ok, tt.says)
				}
			})
		}
	}
}

// TestReadByMessageID: without tokens the Message-ID and the recipient have to fit, both, and the
// newest task counts.
func TestReadByMessageID(t *testing.T) {
	const bounced = "w: 8 gone@Other.example bounced 550 mx.other.example"
	for _, tt := range []struct {
		name, raw string
		want      []string
		says      string
	}{
		{"fits", reported(plain, goneFailed), []string{bounced}, "task 8 bounced"},
		{
			"by ORCPT", reported(plain, "Original-Recipient: rfc822; GONE@other.example\n"+memberFailed),
			[]string{bounced + " member@other.example"},
			"task 8 bounced",
		},
		{
			"two recipients", reported(plain, goneFailed+"|"+keptFailed),
			[]string{bounced, "w: 8 kept@other.example bounced 0 relay.example"},
			"task 8 bounced",
		},
		{
			"another recipient", reported(plain, memberFailed),
			nil, "no message went out with its Message-ID to its recipient",
		},
		{"not sent yet", reported(plain, laterFailed), nil, "no message went out"},
		{
			"another message", strings.ReplaceAll(reported(plain, goneFailed), "<original@", "<other@"),
			nil, "no message went out",
		},
		{
			"no Message-ID", strings.ReplaceAll(reported(plain, goneFailed), "Message-ID:", "X-ID:"),
			nil, "it does not say which message",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry()
			says, ok, err := book(t, r, false).Read(t.Context(), parsed(t, tt.raw), false)
			if err != nil || !ok || !slices.Equal(r.said, tt.want) || !strings.Contains(says, tt.says) {
				t.Errorf("Read = %q, %v, %v, and records %q; want %q, and %q", says, ok, err, r.said, tt.says, tt.want)
			}
		})
	}
}

// TestReadFails: the registry's error is no verdict on the message.
func TestReadFails(t *testing.T) {
	away := errors.New("the database is away")
	for _, tokens := range []bool{true, false} {
		r := newRegistry()
		r.fails = away
		to := signer(t, secret, day0).ReversePath(7, time.Time{}, "gone@other.example")
		_, _, err := book(t, r, tokens).Read(t.Context(), parsed(t, reported(to, goneFailed)), false)
		if !errors.Is(err, away) {
			t.Errorf("Read = %v, want the registry's error", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := book(t, newRegistry(), true).Read(ctx, parsed(t, letter), false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Read = %v, want that it was interrupted", err)
	}
}

func TestOf(t *testing.T) {
	b := book(t, newRegistry(), true)
	if !b.Of("Bounces@Firm.Example") || b.Of("desk@firm.example") {
		t.Error("Of knows the bounce inbox in any case, and no other")
	}
}

// FuzzForged: whatever a report says, without a token of ours no delivery changes.
func FuzzForged(f *testing.F) {
	forged := signer(f, "another secret, as long", day0).ReversePath(7, time.Time{}, "gone@other.example")
	token := strings.TrimSuffix(strings.TrimPrefix(forged, "bounces+"), "@firm.example")
	envelope := "Original-Envelope-Id: " + token + "\r\n"
	for _, raw := range []string{
		reported(forged, goneFailed), reported(plain, goneFailed+"|"+keptFailed), letter, absent,
		strings.ReplaceAll(reported(forged, goneFailed), "Reporting-MTA", envelope+"Reporting-MTA"),
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := newRegistry()
		says, _, err := book(t, r, true).Read(t.Context(), parsed(t, raw), false)
		if err != nil || len(r.said) > 0 {
			t.Errorf("Read = %q, %v, and records %q, want nothing", says, err, r.said)
		}
	})
}
