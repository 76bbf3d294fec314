package forward

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// TestInfoNamesTheSender: a relay is asked whether it accepts the envelope sender of outgoing mail.
// A refusal is reported as in a pass. Without recipients none is named.
func TestInfoNamesTheSender(t *testing.T) {
	from := func(envelope string) func(*Config) {
		return func(c *Config) { c.EnvelopeFrom, c.SRS = envelope, rewriter(t) }
	}
	refuse := answers{"mail": say(553, "5.7.1 not yours")}
	tests := []struct {
		name, envelope string
		replies        answers
		offers         []string
		sender, fault  string
	}{
		{"the address in From", "", nil, nil, me, ""},
		{"an address", "bounces@example.com", nil, nil, "bounces@example.com", ""},
		{"keep: that for messages without one", Keep, nil, nil, me, ""},
		{"SRS: one of its domain", SRS, nil, nil, "=example.com=forwarder@", ""},
		{"one that needs SMTPUTF8", "köln@example.com", nil, []string{"SMTPUTF8"}, "köln@example.com", ""},
		{"and a relay without it", "köln@example.com", nil, nil, "", "MAIL 0 permanent"},
		{"refused", "", refuse, nil, "", "MAIL 553 permanent"},
		{"refused with SRS", SRS, refuse, nil, "", "MAIL 553 permanent"},
		{"not now, as in a pass", "", answers{"mail": say(451, "4.3.0 later")}, nil, me, ""},
		{"shutting down", "", answers{"mail": say(421, "4.3.2 bye")}, nil, "", "MAIL 421 temporary"},
		{"it hangs up", "", answers{"mail": {Drop: true}}, nil, "", "MAIL 0 temporary"},
		{"it does not take it back", "", answers{"rset": say(500, "5.5.1 what?")}, nil, me, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stages log
			reply := script(tt.replies)
			s := sink(t, smtpsink.Options{Extensions: tt.offers, Reply: func(e smtpsink.Event) smtpsink.Action {
				stages.add(e)
				return reply(e)
			}})
			info, err := relayOn(t, s.Port(), from(tt.envelope)).Info(t.Context(), nil)
			named := strings.Contains(info.Sender, tt.sender) && (info.Sender == "") == (tt.sender == "")
			if briefError(err) != tt.fault || !named {
				t.Errorf("Info = sender %q, %v; want %q, fault %q", info.Sender, err, tt.sender, tt.fault)
			}
			stages.mu.Lock()
			defer stages.mu.Unlock()
			if slices.Contains(stages.stages, "rcpt") {
				t.Errorf("the relay got %v, want no recipient", stages.stages)
			}
		})
	}
}

// TestInfoNamesTheNullReversePath: notices need it. Only a permanent reply is a refusal, also
// one to RCPT, for a recipient that is accepted from the configured sender.
func TestInfoNamesTheNullReversePath(t *testing.T) {
	no := say(550, "5.7.1 no null sender")
	for _, tt := range []struct {
		name         string
		stage        string // where the null reverse-path gets the reply
		reply        smtpsink.Action
		also         answers
		to           []string
		want, naming string
	}{
		{"accepted", "", smtpsink.Action{}, nil, []string{"a@example.com"}, "", "<a@example.com"},
		{"at MAIL", "mail", no, nil, nil, "550 5.7.1 no null sender", "<"},
		{
			"at RCPT", "rcpt", no, nil,
			[]string{"köln@example.com", "a@example.com"},
			"550 5.7.1 no null sender", "<a@example.com",
		},
		{"for now", "rcpt", say(450, "4.2.0 greylisted"), nil, []string{"a@example.com"}, "", "<a@example.com"},
		{"it hangs up", "mail", smtpsink.Action{Drop: true}, nil, nil, "", "<"},
		{"the recipient is unknown anyway", "", no, answers{"rcpt": no}, []string{"a@example.com"}, "", "<"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var naming log
			reply := script(tt.also)
			s := sink(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
				null := e.Stage == "mail" && e.Arg == "" || e.Stage == "rcpt" && e.Message.From == ""
				if null {
					naming.add(smtpsink.Event{Stage: "<" + e.Arg})
				}
				if null && e.Stage == tt.stage {
					return tt.reply
				}
				return reply(e)
			}})
			info, err := relayOn(t, s.Port()).Info(t.Context(), tt.to)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if info.NoNull != nil {
				got = info.NoNull.Said()
			}
			naming.mu.Lock()
			defer naming.mu.Unlock()
			if last := naming.stages[len(naming.stages)-1]; got != tt.want || last != tt.naming {
				t.Errorf("NoNull is %q after %q, want %q after %q", got, last, tt.want, tt.naming)
			}
		})
	}
}

// TestInfoNamesRecipients: a relay may say only at RCPT what it has against the sender or a
// recipient. Nothing is sent, and the transaction is taken back.
func TestInfoNamesRecipients(t *testing.T) {
	many := make([]string, maxNamed+5)
	for i := range many {
		many[i] = fmt.Sprintf("r%d@example.com", i)
	}
	const first = "and RCPT TO:<a@example.com> (nothing was sent)"
	two := []string{"a@example.com", "b@example.com"}
	rcpt := func(code int, text string) answers {
		return answers{"rcpt b@example.com": say(code, text)}
	}
	tests := []struct {
		name    string
		to      []string
		replies answers
		want    string // a line for a person
		refused string // code and fix of the last recipient that is not accepted
		fault   string
	}{
		{
			"none", nil, nil,
			"accepts MAIL FROM:<" + me + ">; no recipient was tried, because the routes name no fixed one; " +
				"takes messages up to 1000000 octets", "", "",
		},
		{
			"accepted", two, nil,
			"accepts MAIL FROM:<" + me + "> and RCPT TO:<a@example.com>, <b@example.com> (nothing was sent)", "", "",
		},
		{"one unknown", two, rcpt(550, "5.1.1 no such user"), first, "550 ", ""},
		{"greylisted", two, rcpt(450, "4.2.0 greylisted"), first, "450 ", ""},
		{
			"foreign sender, which Postfix says at RCPT", two,
			rcpt(553, "5.7.1 <x>: Sender address rejected: not owned by user y"), "", "", "RCPT 553 permanent",
		},
		{"no login", two, rcpt(554, "5.7.1 <b@example.com>: Relay access denied"), first, "554 " + fixLogin, ""},
		{"it hangs up", two, answers{"rcpt b@example.com": {Drop: true}}, "", "", "RCPT 0 temporary"},
		{
			"needs SMTPUTF8",
			[]string{"köln@example.com"},
			nil,
			"no recipient was accepted", "0 " + fixRcpt, "",
		},
		{"no address", []string{"nonsense"}, nil, "no recipient was accepted", "0 ", ""},
		{"more than are tried", many, nil, "<r9@example.com> (nothing was sent; 5 more were not tried)", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stages log
			reply := script(tt.replies)
			said := func(e smtpsink.Event) smtpsink.Action {
				stages.add(e)
				return reply(e)
			}
			s := sink(t, smtpsink.Options{Extensions: []string{"SIZE 1000000"}, Reply: said})
			info, err := relayOn(t, s.Port()).Info(t.Context(), tt.to)
			if briefError(err) != tt.fault || err == nil && !strings.Contains(info.String(), tt.want) {
				t.Errorf("Info = %v, %v; want %q, fault %q", info, err, tt.want, tt.fault)
			}
			refused := ""
			for _, o := range info.Refused {
				refused = fmt.Sprintf("%d %s", o.Code, o.Fix)
			}
			if refused != tt.refused {
				t.Errorf("refused: %q, want %q", refused, tt.refused)
			}
			stages.mu.Lock()
			defer stages.mu.Unlock()
			if slices.Contains(stages.stages, "data") || len(s.Messages()) > 0 {
				t.Errorf("the relay got %v, want no DATA", stages.stages)
			}
			if err == nil && !slices.Contains(stages.stages, "rset") {
				t.Errorf("the relay got %v, want RSET", stages.stages)
			}
		})
	}
}
