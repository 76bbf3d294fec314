package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// relayCase is how Postfix is set up for a row of the table in docs/reference.md, and what has to
// happen besides what the row says.
type relayCase struct {
	settings []string // of main.cf
	files    map[string]string
	policy   func(w *relayWorld, asked map[string]string) string // a policy service
	policyAt string                                              // the setting that asks it, as POLICY
	before   func(w *relayWorld)                                 // before the first pass
	smtp     string                                              // section smtp; default: loggedIn
	fix      string                                              // the fix in the message
	to       string
	mails    [][]byte
	then     func(t *testing.T, w *relayWorld) // after the first pass
}

const ownSenderOnly = "smtpd_sender_login_maps = " +
	"inline:{ forwarder@firm.example=forwarder@firm.example, other@firm.example=somebody }"

// relayCases are the cases by the first cell of the row.
func relayCases() map[string]relayCase {
	return map[string]relayCase{
		"all is well": {
			to:   "intake@firm.example, second@firm.example",
			then: func(_ *testing.T, w *relayWorld) { w.arriveOnce() },
		},
		"wrong password": {
			before: func(w *relayWorld) { w.imap.SetPassword(w.t, "forwarder@firm.example", "another") },
			fix:    "check smtp.username and smtp.password", then: rightPassword,
		},
		"no login": {
			settings: []string{"smtpd_client_restrictions = permit_sasl_authenticated, reject"},
			smtp:     anonymous, fix: "check smtp.username and smtp.password",
			then: func(_ *testing.T, w *relayWorld) {
				w.login(loggedIn)
				w.untilForwarded()
			},
		},
		"no TLS": {
			smtp: "security: none", fix: "set smtp.security to starttls",
			then: func(t *testing.T, w *relayWorld) {
				w.login(loggedIn)
				w.pass(0)
				w.arriveOnce()
			},
		},
		"name in EHLO that it does not like": {
			settings: []string{"smtpd_helo_restrictions = reject_non_fqdn_helo_hostname"},
			smtp:     loggedIn + ", local_name: box", fix: "set smtp.local_name",
			then: func(t *testing.T, w *relayWorld) {
				w.login(loggedIn + ", local_name: box.firm.example")
				w.untilForwarded()
			},
		},
		"foreign sender": {
			settings: []string{ownSenderOnly, "smtpd_sender_restrictions = reject_sender_login_mismatch"},
			before:   otherSender, fix: "set forward.envelope_from", then: rightSender,
		},
		"foreign sender that was kept": {
			settings: []string{ownSenderOnly, "smtpd_sender_restrictions = reject_sender_login_mismatch"},
			mails: [][]byte{testserver.Mail("alice@client.example", desk, "kept", "The body.",
				"Return-Path: <alice@client.example>")},
			before: func(w *relayWorld) { w.t.Setenv("POSTRIDER_FORWARD_ENVELOPE_FROM", "keep") },
			fix:    "set forward.envelope_from",
			then: func(t *testing.T, w *relayWorld) {
				t.Setenv("POSTRIDER_FORWARD_ENVELOPE_FROM", "forwarder@firm.example")
				w.untilForwarded()
			},
		},
		"unknown recipient": {to: "nobody@firm.example", then: nothingArrives},
		"one recipient unknown": {
			to: "intake@firm.example, nobody@firm.example, third@firm.example",
			then: func(t *testing.T, w *relayWorld) {
				w.arriveOnce()
				for _, d := range w.tasks()[0].Deliveries {
					if delivered := d.Status == "delivered"; delivered == (d.Recipient == "nobody@firm.example") {
						t.Errorf("the delivery to %s is %s, want delivered to all but nobody@", d.Recipient, d.Status)
					}
				}
			},
		},
		"larger than it announces to take": {
			settings: []string{"message_size_limit = 20000"}, mails: large(30_000),
			then: reasonSays("the relay takes at most 20000"),
		},
		"larger than it takes": {
			settings: []string{"message_size_limit = 20000", "smtpd_discard_ehlo_keywords = size"},
			mails:    large(30_000), then: nothingArrives,
		},
		"8-bit text without 8BITMIME": {
			settings: []string{"smtpd_discard_ehlo_keywords = 8bitmime"},
			mails:    [][]byte{testserver.Mail("alice@client.example", desk, "umlauts", "Grüße")},
			then:     reasonSays("8BITMIME"),
		},
		"address that needs SMTPUTF8": {
			settings: []string{"smtputf8_enable = no"}, to: "büro@firm.example", then: reasonSays("SMTPUTF8"),
		},
		"greylisting": greylisting(),
		"too many connections": {
			settings: []string{"smtpd_client_connection_count_limit = 1"}, mails: mails(40, "letter"),
			fix: "lower smtp.connections", then: fewerConnections,
		},
		"its disk is full": {
			settings: []string{"queue_minfree = 4000000000000000000"}, then: nothingArrives,
		},
		"content it does not like": {
			settings: []string{"header_checks = regexp:$config_directory/checks"},
			files:    map[string]string{"checks": "/^Subject: letter 0/ REJECT no letters here\n"},
			then: func(_ *testing.T, w *relayWorld) {
				w.mails = w.mails[1:]
				w.arriveOnce()
			},
		},
		"connection lost in the content": {
			mails: large(8 << 20),
			before: func(w *relayWorld) {
				w.smtpPort = tap(w.t, w.relay.Port, 1<<20, func() { w.relay.Kill(w.t, "smtpd") })
			},
			then: func(_ *testing.T, w *relayWorld) { w.untilForwarded() },
		},
		"connection lost after the content": {
			policyAt: "smtpd_end_of_data_restrictions = POLICY", policy: killOnce(),
			mails:  mails(1, "letter"),
			before: func(w *relayWorld) { w.t.Setenv("POSTRIDER_FORWARD_UNCERTAIN", "hold") },
			then: func(t *testing.T, w *relayWorld) {
				w.pass(0)
				nothingArrives(t, w)
				w.must(0, "task", "resolve", "--retry", "1")
				w.pass(0)
				w.arriveOnce()
			},
		},
		"it stops in the middle of a pass": stops(),
	}
}

// TestRelayReplies: each row of the table in docs/reference.md is true with Postfix as the relay.
func TestRelayReplies(t *testing.T) {
	rows, cases := relayTable(t), allRelayCases()
	for name := range rows {
		if _, ok := cases[name]; !ok {
			t.Errorf("docs/reference.md has a row %q without a test", name)
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want, ok := rows[name]
			if !ok {
				t.Fatalf("docs/reference.md has no row %q", name)
			}
			w := newRelayWorld(t, c)
			r, res := w.pass(want.exit)
			w.meets(c, want, r, res)
			c.then(t, w)
		})
	}
}

// meets checks a pass against its row. At least one message has the status; others may be in
// flight.
func (w *relayWorld) meets(c relayCase, want relayRow, r report, res result) {
	w.t.Helper()
	found := w.tasks("--status", want.state)
	if len(found) == 0 {
		w.t.Fatalf("no message is %s; the tasks are %+v\n%s", want.state, w.tasks(), res.stderr)
	}
	if got := replyOf(found[0], r.RelayError); got != want.reply {
		w.t.Errorf("the recorded reply is %q, want %q\n%+v\n%s", got, want.reply, found[0], res.stderr)
	}
	logged := strings.Count(res.stderr, "the relay failed")
	switch {
	case want.state == "received" && (logged != 1 || found[0].Attempts != 0 ||
		r.Totals.Dead > 0 || len(w.tasks("--status", "error")) > 0):
		w.t.Errorf("the relay's fault was logged %d times, after %d attempts, %+v; "+
			"want once, after none, and no message in error or dead\n%s",
			logged, found[0].Attempts, r.Totals, res.stderr)
	case want.state == "received" && !strings.Contains(r.RelayError, c.fix),
		want.state != "received" && !strings.Contains(found[0].Reason, c.fix):
		w.t.Errorf("the relay's fault is %q, the reason %q, want %q in it", r.RelayError, found[0].Reason, c.fix)
	case want.state == "dead" && !strings.Contains(found[0].Reason, "@firm.example"):
		w.t.Errorf("the reason is %q, want who did not get it", found[0].Reason)
	}
}

var codes = regexp.MustCompile(`: (\d{3} \d\.\d+\.\d+) `)

// replyOf returns the codes of the recipient that did not get the message, or else those of the
// relay's fault.
func replyOf(one task, fault string) string {
	reply := "none"
	for _, d := range one.Deliveries {
		if d.Code != 0 && (d.Status != "delivered" || reply == "none") {
			reply = fmt.Sprintf("%d %s", d.Code, strings.Fields(d.Reply + " ?")[0])
		}
	}
	if m := codes.FindStringSubmatch(fault); m != nil && reply == "none" {
		reply = m[1]
	}
	return reply
}

func large(size int) [][]byte {
	body := strings.Repeat("The quick brown fox.\n", size/21)
	return [][]byte{testserver.Mail("alice@client.example", desk, "large", body)}
}

func nothingArrives(t *testing.T, w *relayWorld) {
	w.relay.Drain(t)
	w.wantOnce()
}

func reasonSays(text string) func(*testing.T, *relayWorld) {
	return func(t *testing.T, w *relayWorld) {
		if got := w.tasks()[0].Reason; !strings.Contains(got, text) {
			t.Errorf("the reason is %q, want %q in it", got, text)
		}
		nothingArrives(t, w)
	}
}

func rightPassword(t *testing.T, w *relayWorld) {
	w.imap.SetPassword(t, "forwarder@firm.example", password)
	w.pass(0)
	w.arriveOnce()
}

func otherSender(w *relayWorld) { w.t.Setenv("POSTRIDER_FORWARD_ENVELOPE_FROM", "other@firm.example") }

func rightSender(t *testing.T, w *relayWorld) {
	t.Setenv("POSTRIDER_FORWARD_ENVELOPE_FROM", "forwarder@firm.example")
	w.pass(0)
	w.arriveOnce()
}

func fewerConnections(_ *testing.T, w *relayWorld) {
	w.login(loggedIn + ", connections: 1")
	w.untilForwarded()
}

// greylisting defers each recipient once.
func greylisting() relayCase {
	var accept atomic.Bool
	return relayCase{
		policyAt: "smtpd_recipient_restrictions = POLICY",
		policy: func(*relayWorld, map[string]string) string {
			if accept.Load() {
				return "DUNNO"
			}
			return "450 4.2.0 Greylisted, come back later"
		},
		then: func(t *testing.T, w *relayWorld) {
			var shown struct {
				UpdatedAt time.Time `json:"updated_at"`
				DueAt     time.Time `json:"due_at"`
			}
			if err := json.Unmarshal([]byte(w.must(0, "task", "show", "1", "--json").stdout), &shown); err != nil {
				t.Fatal(err)
			}
			const slack = time.Minute // two clock readings in one transaction
			if pause := shown.DueAt.Sub(shown.UpdatedAt); pause < 42*time.Minute-slack || pause > 78*time.Minute+slack {
				t.Errorf("the next attempt is due after %v, want retry.base, 1h, plus or minus 0.3 of it", pause)
			}
			accept.Store(true)
			w.untilForwarded()
			for _, one := range w.tasks() {
				if one.Attempts != 2 {
					t.Errorf("task %d took %d attempts, want 2", one.ID, one.Attempts)
				}
			}
		},
	}
}

// killOnce kills the process of the relay that has a message and has not answered yet.
func killOnce() func(*relayWorld, map[string]string) string {
	var done atomic.Bool
	return func(w *relayWorld, _ map[string]string) string {
		if done.CompareAndSwap(false, true) {
			w.relay.Kill(w.t, "smtpd")
		}
		return "DUNNO"
	}
}

// stops stops the relay when three messages have arrived and each connection waits for its answer
// to DATA.
func stops() relayCase {
	const arrived, connections = 3, 8
	var asked atomic.Int32
	var once sync.Once
	allWait := make(chan struct{})
	return relayCase{
		mails:    mails(40, "letter"),
		policyAt: "smtpd_data_restrictions = POLICY",
		policy: func(w *relayWorld, _ map[string]string) string {
			n := asked.Add(1)
			if n == arrived+connections {
				close(allWait)
			}
			if n > arrived {
				once.Do(func() {
					select {
					case <-allWait:
					case <-w.t.Context().Done():
					}
					if err := w.sink.Wait(w.t.Context(), arrived); err != nil {
						w.t.Error(err)
					}
					w.relay.Drain(w.t)
					w.relay.Stop(w.t)
				})
			}
			return "DUNNO"
		},
		then: func(t *testing.T, w *relayWorld) {
			if n := len(w.tasks("--status", "received")); n == 0 {
				t.Error("no message waits without an attempt, want all that were not in flight")
			}
			once.Do(func() { t.Error("the relay was not stopped") }) // returns when it has stopped
			w.relay.Start(t)
			w.untilForwarded()
		},
	}
}
