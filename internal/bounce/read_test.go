package bounce

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"postrider/internal/message"
)

// parsed is a message in memory. It needs no Close.
func parsed(t testing.TB, raw string) *message.Message {
	t.Helper()
	b := (&message.Spooler{Limit: 64 << 20, Budget: 64 << 20}).New()
	if _, err := io.WriteString(b, raw); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t testing.TB, raw string) Report {
	t.Helper()
	r, err := Read(t.Context(), parsed(t, raw))
	if err != nil {
		t.Fatalf("Read = %v, want no error for any content", err)
	}
	return r
}

func sample(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".eml")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	made = time.Date(2030, 1, 1, 10, 0, 0, 0, time.UTC) // the date of all samples
	to   = []string{"bounces@firm.example", "bounces+token@firm.example"}
)

const (
	original = "<original@author.example>"
	nobody   = "nobody has that name here"
)

// samples are what each of the files in testdata says.
var samples = []struct {
	name string
	want Report
}{
	{"status-failed", Report{Delivery, to, "abc234", original, []Fate{
		{
			"ann@other.example", "ann@other.example", Failed, 550, "5.1.1",
			"<ann@other.example>: " + nobody, "mx.other.example", made.Add(-time.Hour - 30*time.Second),
		},
	}}},
	{"status-several", Report{Delivery, to, "", original, []Fate{
		{
			"gone@other.example", "", Failed, 552, "5.2.2",
			"The mailbox is full. Write again when there is room. 1700 is no code of that reply.",
			"mx.other.example", made,
		},
		{
			"slow@other.example", "", Delayed, 0, "4.4.1",
			"connect to mx.other.example: connection timed out", "relay.firm.example", made,
		},
		{"good@other.example", "", Delivered, 250, "2.0.0", "taken as 4711", "192.0.2.7", made},
		{"old@other.example", "", Relayed, 0, "2.0.0", "", "relay.firm.example", made},
		{"list@other.example", "", Expanded, 0, "2.0.0", "", "relay.firm.example", made},
	}}},
	{"status-no-gap", Report{Delivery, to, "", original, []Fate{
		{"ann@other.example", "", Failed, 550, "5.7.1", "not here", "relay.firm.example", made},
	}}},
	{"status-alias", Report{Delivery, to, "", original, []Fate{
		{"ann@inside.example", "ann+tag@other.example", Failed, 0, "5.2.2", "", "relay.firm.example", made},
		{"ann@inside.example", "bob+3@other.example", Failed, 0, "5.2.2", "", "relay.firm.example", made},
		{"carl@other.example", "carl@other.example", Failed, 0, "5.2.2", "", "relay.firm.example", made},
		{"ann+2026@other.example", "ann+2026@other.example", Failed, 0, "5.2.2", "", "relay.firm.example", made},
		{"ann+ED@other.example", "ann+42@other.example", Failed, 0, "5.2.2", "", "relay.firm.example", made},
	}}},
	{"status-utf8", Report{Delivery, to, "", "<ä@author.example>", []Fate{
		{
			"jörg@bücher.example", "jörg@bücher.example", Failed, 550, "5.6.7",
			"hier gibt es kein SMTPUTF8: Jörg", "relay.firm.example", made,
		},
	}}},
	{"status-wrapped", Report{Delivery, to, "", original, []Fate{
		{"ann@other.example", "", Failed, 550, "5.1.1", "no", "relay.firm.example", made},
	}}},
	{"status-bare", Report{Delivery, to, "", "", []Fate{
		{"busy@other.example", "", Delayed, 452, "4.2.2", "there is no room for now", "mx.other.example", made},
	}}},
	{"status-relayed", Report{Delivery, to, "", "", []Fate{
		{"fine@other.example", "", Relayed, 250, "2.0.0", "Ok", "mx.other.example", made},
		{"team@other.example", "", Relayed, 0, "2.0.0", "relayed via non SMTP router", "relay.firm.example", made},
		{"last@other.example", "", Relayed, 0, "2.0.0", "relayed via non DSN router", "relay.firm.example", made},
	}}},
	{"complaint", Report{Complaint, []string{
		"bounces@firm.example", "abuse@firm.example", "bounces+token@firm.example",
	}, "abc234", original, []Fate{
		{"ann@provider.example", "", Complained, 0, "", "abuse", "loop.provider.example", made},
		{"bob@provider.example", "", Complained, 0, "", "abuse", "loop.provider.example", made},
	}}},
	{"complaint-hidden", Report{Complaint, to, "", original, []Fate{{"", "", Complained, 0, "", "opt-out", "", made}}}},
	{"authentication", Report{Unreadable, to, "", original, nil}},
	{"qmail", Report{Delivery, to, "", original, []Fate{
		{"ann@far.example", "", Failed, 550, "5.1.1", "nobody has that name here", "192.0.2.250", made},
		{"bob@other.example", "", Failed, 0, "5.1.1", "Sorry, no mailbox here by that name.", "", made},
		{"slow@far.example", "", Failed, 554, "", "go away", "192.0.2.9", made},
	}}},
	{"exim", Report{Delivery, to, "", original, []Fate{
		{"ann@other.example", "", Failed, 550, "5.1.1", "<ann@other.example>: " + nobody, "mx.other.example", made},
		{"bob@other.example", "team@other.example", Failed, 0, "", "mailbox is full: retry timeout exceeded", "", made},
	}}},
	{"exim-alias", Report{Delivery, to, "", "", []Fate{
		{"ann@far.example", "team@other.example", Failed, 550, "5.1.1", nobody, "mx.far.example", made},
		{
			"team@other.example", "", Failed, 0, "5.0.0",
			"mailbox is full: retry timeout exceeded", "mx.other.example", made,
		},
		{
			"bob@far.example", "team@other.example", Failed, 554, "5.7.1",
			"this is not wanted here", "mx.far.example", made,
		},
		{"an undisclosed address", "list@other.example", Failed, 550, "5.1.1", nobody, "mx.far.example", made},
		{"carl@other.example", "", Failed, 0, "5.0.0", "Unrouteable address", "mx.other.example", made},
	}}},
	{"exim-warning", Report{Delivery, to, "", "", []Fate{
		{"slow@far.example", "", Delayed, 451, "4.7.1", "not now", "mx.far.example", made},
	}}},
	{"postfix", Report{Delivery, to, "", "", []Fate{
		{"ann@other.example", "", Failed, 550, "5.1.1", "<ann@other.example>: " + nobody, "mx.far.example", made},
		{"bob@other.example", "", Failed, 0, "", `unknown user: "bob"`, "", made},
	}}},
	{"postfix-warning", Report{Delivery, to, "", "", []Fate{
		{
			"slow@far.example", "", Delayed, 0, "",
			"connect to mx.far.example[192.0.2.9]: Connection timed out", "", made,
		},
	}}},
	{"sendmail", Report{Delivery, to, "", "", []Fate{
		{"ann@other.example", "", Failed, 550, "5.1.1", nobody, "", made},
	}}},
	{"sendmail-alias", Report{Delivery, to, "", "", []Fate{
		{"ann@far.example", "team@other.example", Failed, 550, "5.1.1", nobody, "mx.far.example", made},
		{"bob@other.example", "", Failed, 0, "5.1.1", "User unknown", "mx.other.example", made},
	}}},
	{"sendmail-warning", Report{Delivery, to, "", "", []Fate{{"slow@far.example", "", Delayed, 0, "", "", "", made}}}},
	{"exchange", Report{Delivery, to, "", original, []Fate{
		{
			"ann@other.example", "", Failed, 550, "5.1.10",
			"RESOLVER.ADR.RecipientNotFound; not found", "mx.far.example", made,
		},
		{"bob@other.example", "", Failed, 550, "5.2.2", "the mailbox is full", "ex1.other.example", made},
	}}},
	{"exchange-2003", Report{Delivery, to, "", "", []Fate{
		{
			"ann@other.example", "", Failed, 0, "5.1.1",
			"There is no such account at the organization. Check the address and try again.",
			"ex1.other.example", made,
		},
	}}},
	{"exchange-5.5", Report{Delivery, to, "", "", []Fate{
		{
			"ann@other.example", "", Failed, 0, "",
			"The recipient name is not recognized The MTS-ID of the original message is: c=us;a= ;p=Other", "", made,
		},
	}}},
	{"person-quotes", Report{Unreadable, to, "", "", nil}},
	{"person-forwards", Report{Kind: Unreadable, Addresses: to}},
	{"person-attaches", Report{Kind: Unreadable, Addresses: to}},
	{"person-attaches-receipt", Report{Kind: Unreadable, Addresses: to}},
	{"vacation", Report{Kind: AutoReply, Addresses: to}},
	{"vacation-exchange", Report{Kind: AutoReply, Addresses: to}},
	{"vacation-old", Report{Kind: AutoReply, Addresses: to}},
	{"alert", Report{Kind: Unreadable, Addresses: to}},
	{"receipt", Report{Kind: AutoReply, Addresses: to, MessageID: original}},
	{"null-path", Report{Kind: Unreadable, Addresses: to}},
}

func TestRead(t *testing.T) {
	for _, tt := range samples {
		t.Run(tt.name, func(t *testing.T) {
			got := read(t, sample(t, tt.name))
			fates, wanted := got.Fates, tt.want.Fates
			got.Fates, tt.want.Fates = nil, nil
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Read = %+v, want %+v", got, tt.want)
			}
			for i := range max(len(fates), len(wanted)) {
				switch {
				case i >= len(fates):
					t.Errorf("no fate %+v, want it", wanted[i])
				case i >= len(wanted):
					t.Errorf("the fate %+v, want none", fates[i])
				case fates[i] != wanted[i]:
					t.Errorf("fate %d:\n%+v, want\n%+v", i, fates[i], wanted[i])
				}
			}
		})
	}
}

// TestTarget: a fate is that of the recipient itself in any spelling, and under its server's name.
func TestTarget(t *testing.T) {
	for _, own := range []string{
		"", "ann@firm.example", "ANN@Firm.example", "ann@mx.firm.example", "ann@firm.example.",
		"ann@firm.example.test-google-a.com", "ann@mx.firm.example.test-google-a.com",
	} {
		if got := (Fate{Recipient: own}).Target("ann@firm.example"); got != "" {
			t.Errorf("the target of a fate of %q is %q, want none: it is the recipient", own, got)
		}
	}
	for _, other := range []string{
		"bob@firm.example", "ann@private.example", "ann@otherfirm.example", "ann@firm.example.evil.example",
		"ann@x.firm.example.evil.example", "ann", "\"ann@firm.example\"@x.example", "an undisclosed address",
	} {
		if got := (Fate{Recipient: other, Original: "ann@firm.example"}).Target("ann@firm.example"); got != other {
			t.Errorf("the target of a fate of %s is %q, want that address", other, got)
		}
	}
	if got := (Fate{Recipient: "ann@firm.example"}).Target("ann@mx.firm.example"); got != "" {
		t.Errorf("the target is %q, want none: only the server's name is gone", got)
	}
}

// TestReadFaulty: a report whose Content-Type has a fault is read as it is meant.
func TestReadFaulty(t *testing.T) {
	raw := sample(t, "status-failed")
	want := read(t, raw)
	for _, fault := range []*strings.Replacer{
		strings.NewReplacer(`boundary="b"`, "boundary==_b", "--b", "--=_b"),
		strings.NewReplacer(`boundary="b"`, `boundary="b";; x`),
	} {
		if got := read(t, fault.Replace(raw)); !reflect.DeepEqual(got, want) {
			t.Errorf("Read = %+v, want %+v as without the fault, in\n%s", got, want, fault.Replace(raw)[:600])
		}
	}
}

// TestReadComments: a comment may follow each value, and semicolons do not matter.
func TestReadComments(t *testing.T) {
	for written, recipient := range map[string]string{
		"ann@other.example": "ann@other.example", "<ann@other.example>": "ann@other.example",
		"< ann@other.example >":            "ann@other.example",
		`"ann (sales; new)"@other.example`: `"ann (sales; new)"@other.example`,
	} {
		for _, behind := range []string{"", " (Ann; sales)", "(unknown)", ";", "\t; x"} {
			g := groups("Final-Recipient: rfc822; " + written + behind + "\nAction: failed" + behind +
				"\nStatus: 5.1.1" + behind + "\nRemote-MTA: dns; mx.other.example" + behind)
			got, ok := fateOf(g[0])
			want := Fate{Recipient: recipient, Action: Failed, Status: "5.1.1", Remote: "mx.other.example"}
			if !ok || got != want {
				t.Errorf("with %q fateOf = %+v, %v, want %+v", behind, got, ok, want)
			}
		}
	}
}

// TestReadReturnPath: a report is one whatever its reverse-path.
func TestReadReturnPath(t *testing.T) {
	raw := sample(t, "status-failed")
	want := read(t, raw)
	for _, path := range []string{"", "Return-Path:\n", "Return-Path: <mailer-daemon@mx.other.example>\n"} {
		if got := read(t, strings.Replace(raw, "Return-Path: <>\n", path, 1)); !reflect.DeepEqual(got, want) {
			t.Errorf("with %q Read = %+v, want %+v", path, got, want)
		}
	}
}

func TestSamplesAreTried(t *testing.T) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"fuzz": true}
	for _, s := range samples {
		known[s.name+".eml"] = true
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("testdata/%s is not in the table of samples, want each of them tried", f.Name())
		}
	}
}

func TestReadEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Read(ctx, parsed(t, sample(t, "qmail"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Read = %+v, %v, want the end of its context", r, err)
	}
	m := parsed(t, sample(t, "vacation"))
	m.HeaderOnly = true
	if r, err := Read(t.Context(), m); err != nil || r.Kind != AutoReply {
		t.Errorf("Read of a header = %+v, %v, want the automatic reply that it is", r, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	var s strings.Builder
	s.WriteString("Content-Type: multipart/report; boundary=b\n")
	for i := range 2 * maxAddresses {
		s.WriteString("Delivered-To: " + strings.Repeat("x", i) + "@x.example\n")
	}
	s.WriteString("\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; x.example\n")
	for i := range 2 * maxFates {
		name := strings.Repeat("x", i%50) + strings.Repeat("y", i/50)
		s.WriteString("\nFinal-Recipient: rfc822; " + name + "@x.example\nAction: failed\n" +
			"Diagnostic-Code: smtp; 550 " + strings.Repeat("\x1b[31m word", 60) + "\n")
	}
	r := read(t, s.String())
	if len(r.Fates) != maxFates || len(r.Addresses) != maxAddresses {
		t.Errorf("%d fates and %d addresses, want 1,000 and 100", len(r.Fates), len(r.Addresses))
	}
	for _, f := range r.Fates {
		if n := len([]rune(f.Reply)); n != maxReply || strings.ContainsAny(f.Reply, "\x1b\n") {
			t.Fatalf("a reply of %d characters, %q, want one line of 500", n, f.Reply)
		}
	}
}
