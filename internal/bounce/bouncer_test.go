package bounce

import (
	"context"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// bouncers are the servers whose reports are read, and who refused, as each names it: Postfix knows
// the next hop by its address, and OpenSMTPD does not name it. Exim says the same of its own
// mailboxes as of aliases.
var bouncers = []struct {
	name   string
	start  func(testing.TB, int) *testserver.Bouncer
	remote string
	local  Action
}{
	{"Postfix", testserver.BouncingPostfix, "127.0.0.1", Delivered},
	{"Exim", testserver.BouncingExim, testserver.BouncerNext, Relayed},
	{"OpenSMTPD", testserver.BouncingOpenSMTPD, "relay.example", Delivered},
}

// refusals are what the next hop says to each recipient.
var refusals = map[string]string{
	"unknown@other.example":  "550 5.1.1 nobody has that name here",
	"some+tag@other.example": "554 5.7.1 this is not wanted here",
	"full@other.example":     "552 5.2.2 the mailbox is full",
	"busy@other.example":     "452 4.2.2 the mailbox is full for now",
}

func TestBouncers(t *testing.T) {
	for _, b := range bouncers {
		t.Run(b.name, func(t *testing.T) {
			next := testserver.NextHop(t, testserver.NextHopOptions{Refuse: func(to string) (int, string) {
				code, text, _ := strings.Cut(refusals[to], " ")
				n, _ := strconv.Atoi(code)
				return n, text
			}})
			server := b.start(t, next.Port())
			signer := on(t, time.Now(), tokenPlace, "a secret")
			refused := func(action Action, code int, status, reply string) Fate {
				return Fate{Action: action, Code: code, Status: status, Reply: reply, Remote: b.remote}
			}
			for i, tt := range []struct {
				to   string
				want Fate
			}{
				{"unknown@other.example", refused(Failed, 550, "5.1.1", "nobody has that name here")},
				{"some+tag@other.example", refused(Failed, 554, "5.7.1", "this is not wanted here")},
				{"full@other.example", refused(Failed, 552, "5.2.2", "the mailbox is full")},
				{"busy@other.example", refused(Delayed, 452, "4.2.2", "the mailbox is full for now")},
				{"fine@other.example", Fate{Action: Relayed}},
				{"fine@local.example", Fate{Action: b.local}},
			} {
				t.Run(tt.to, func(t *testing.T) {
					task := int64(i + 1)
					from := signer.ReversePath(task, newYear, tt.to)
					orcpt := "rfc822;" + strings.ReplaceAll(tt.to, "+", "+2B")
					envelope := "<" + from + "> RET=HDRS ENVID=" + signer.Token(task, newYear, tt.to)
					submit(t, server.Port, envelope, tt.to, orcpt)
					raw := reportTo(t, server, next, from)
					checkReal(t, signer, task, tt.to, tt.want, read(t, raw))
					if t.Failed() {
						t.Logf("the report:\n%s", raw)
					}
				})
			}
		})
	}
}

// TestBouncerUTF8: a report about an internationalized address (RFC 6533). Postfix is the one that
// makes it.
func TestBouncerUTF8(t *testing.T) {
	const to = "jörg@other.example"
	next := testserver.NextHop(t, testserver.NextHopOptions{
		Extensions: []string{"SMTPUTF8", "8BITMIME"},
		Refuse: func(rcpt string) (int, string) {
			if rcpt == to {
				return 550, "5.1.1 nobody has that name here"
			}
			return 0, ""
		},
	})
	server := testserver.BouncingPostfix(t, next.Port())
	signer := on(t, time.Now(), tokenPlace, "a secret")
	from := signer.ReversePath(7, newYear, to)
	submit(t, server.Port, "<"+from+"> SMTPUTF8", to, `utf-8;j\x{F6}rg@other.example`)
	raw := reportTo(t, server, next, from)
	want := Fate{Action: Failed, Code: 550, Status: "5.1.1", Reply: "nobody has that name here", Remote: "127.0.0.1"}
	checkReal(t, signer, 7, to, want, read(t, raw))
	if t.Failed() || !strings.Contains(raw, "message/global-delivery-status") {
		t.Errorf("the report, which should be of the type message/global-delivery-status:\n%s", raw)
	}
}

// TestBouncerAlias: a report about a member of an alias. Exim is the one that names only the alias
// in its delivery status.
func TestBouncerAlias(t *testing.T) {
	next := testserver.NextHop(t, testserver.NextHopOptions{Refuse: func(to string) (int, string) {
		if to == "unknown@other.example" {
			return 550, "5.1.1 nobody has that name here"
		}
		return 0, ""
	}})
	server := testserver.BouncingExim(t, next.Port())
	signer := on(t, time.Now(), tokenPlace, "a secret")
	want := Fate{
		Action: Failed, Code: 550, Status: "5.1.1",
		Reply: "nobody has that name here", Remote: testserver.BouncerNext,
	}
	for to, member := range map[string]string{
		"office@firm.example": "unknown@other.example",
		"hidden@firm.example": "an undisclosed address",
	} {
		from := signer.ReversePath(7, newYear, to)
		submit(t, server.Port, "<"+from+">", to, "")
		raw := reportTo(t, server, next, from)
		r := read(t, raw)
		checkReal(t, signer, 7, to, want, r)
		if t.Failed() || r.Fates[0].Target(to) != member {
			t.Errorf("the report on %s is about %+v, want it to be about %s:\n%s", to, r.Fates, member, raw)
		}
	}
}

// checkReal checks that a report leads back to its delivery and says what became of it.
func checkReal(t *testing.T, signer *Signer, task int64, to string, want Fate, r Report) {
	t.Helper()
	if r.Kind != Delivery || len(r.Fates) != 1 || r.MessageID != "<original@author.example>" || len(r.Addresses) == 0 {
		t.Errorf("Read = %+v, want a report with one fate and the Message-ID of the original", r)
		return
	}
	if ref, err := signer.Read(r.Addresses[0]); err != nil || ref.Task != task || !ref.Is(to) {
		t.Errorf("the address %s is of %+v, %v, want task %d", r.Addresses[0], ref, err, task)
	}
	if r.EnvelopeID != "" && r.EnvelopeID != signer.Token(task, newYear, to) {
		t.Errorf("the envelope id is %s, want the token", r.EnvelopeID)
	}
	got := r.Fates[0]
	if !got.Is(to) || got.At.IsZero() {
		t.Errorf("the fate %+v, want it to be that of %s, with a time", got, to)
	}
	if want.Remote == "" { // what it says beside the action is not the next hop's
		got.Code, got.Status, got.Reply, got.Remote = 0, "", "", ""
	}
	got.Recipient, got.Original, got.At = "", "", time.Time{}
	if got != want {
		t.Errorf("the fate is %+v, want %+v", got, want)
	}
}

// reportTo waits for a message with a null reverse-path.
func reportTo(t *testing.T, server *testserver.Bouncer, next *smtpsink.Server, to string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		messages := next.Messages()
		for _, m := range messages {
			if m.From == "" && m.To[0] == to {
				return "Return-Path: <>\r\nDelivered-To: " + m.To[0] + "\r\n" + string(m.Data)
			}
		}
		server.Retry(t)
		wait, done := context.WithTimeout(ctx, time.Second)
		_ = next.Wait(wait, len(messages)+1)
		if done(); ctx.Err() != nil {
			t.Fatal("no report came")
		}
	}
}

// submit hands the server one message, and asks for reports of all kinds, unless orcpt is empty.
func submit(t *testing.T, port int, from, to, orcpt string) {
	t.Helper()
	stream, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	_ = stream.SetDeadline(time.Now().Add(time.Minute))
	conn := textproto.NewConn(stream)
	if orcpt != "" {
		orcpt = " NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=" + orcpt
	}
	for _, step := range []struct {
		line string
		code int
	}{
		{"", 220},
		{"EHLO firm.example", 250},
		{"MAIL FROM:" + from, 250},
		{"RCPT TO:<" + to + ">" + orcpt, 250},
		{"DATA", 354},
		{
			"From: someone@author.example\r\nMessage-ID: <original@author.example>\r\n" +
				"Subject: hello\r\n\r\nHello.\r\n.", 250,
		},
		{"QUIT", 221},
	} {
		if step.line != "" {
			err = conn.PrintfLine("%s", step.line)
		}
		if err == nil {
			_, _, err = conn.ReadResponse(step.code)
		}
		if err != nil {
			t.Fatalf("%q: %v", step.line, err)
		}
	}
}
