package forward

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

func TestUTF8SenderThatTheRelayCannotTake(t *testing.T) {
	s := sink(t, smtpsink.Options{})
	r := relayOn(t, s.Port(), func(c *Config) { c.From = "jörg@x.example" })
	_, err := deliver(t.Context(), r, Envelope{From: "jörg@x.example", To: []string{"a@x.example"}}, content(t, plain))
	if got := briefError(err); got != "MAIL 0 permanent" {
		t.Errorf("error %q (%v), want the configuration to be at fault", got, err)
	}
}

// TestNullSenderRefused: a bounce goes out with the configured sender when the relay takes no null
// reverse-path.
func TestNullSenderRefused(t *testing.T) {
	for at, reply := range map[string]func(smtpsink.Event) smtpsink.Action{
		"at MAIL": script(answers{"mail ": say(550, "5.7.1 null sender not allowed")}),
		"at RCPT, as by Postfix": func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "rcpt" && e.Message.From == "" {
				return say(554, "5.7.1 <>: Sender address rejected: Access denied")
			}
			return smtpsink.Action{}
		},
	} {
		t.Run(at, func(t *testing.T) {
			bothWays(t, func(t *testing.T, offers []string) {
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: reply})
				env := Envelope{To: []string{"a@x.example"}}
				res, err := deliver(t.Context(), relayOn(t, s.Port()), env, content(t, plain))
				if got := brief(res); got != "a accepted 250 2.0.0" || err != nil || s.Messages()[0].From != me {
					t.Errorf("Send = %q, %v, want it accepted with the configured sender", got, err)
				}
			})
		})
	}
}

// TestBounceOfOurs: what bounced of the inbox's own forwarding never gets a sender, or its next
// bounce would come back to the inbox, and so for ever.
func TestBounceOfOurs(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		const bounce = "Return-Path: <>\r\n" +
			"Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n" +
			"--b\r\n\r\nNo.\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\n%s\r\n--b--\r\n"
		sent, _ := io.ReadAll(content(t, plain).Reader())
		tests := []struct{ name, inbox, want string }{
			{"of this inbox", "in@x.example", "a refused 550 5.7.1"},
			{"of another", "other@x.example", "a accepted 250 2.0.0"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				refuse := script(answers{"mail ": say(550, "5.7.1 null sender not allowed")})
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: refuse})
				r, m := relayOn(t, s.Port()), parse(t, fmt.Sprintf(bounce, sent))
				trace := Trace{Inbox: tt.inbox}
				env := r.Envelope(m, trace, []string{"a@x.example"})
				res, err := deliver(t.Context(), r, env, redirected(m, trace))
				if got := brief(res); got != tt.want || err != nil {
					t.Errorf("Send = %q, %v, want %q", got, err, tt.want)
				}
			})
		}
	})
}

// TestRefusedRewrittenSender: a relay that does not let us send as what SRS makes is a fault of the
// configuration, and none of the message.
func TestRefusedRewrittenSender(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		refuse := script(answers{"mail": say(553, "5.7.1 not owned by user")})
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: refuse})
		res, err := forwards(t, relayOn(t, s.Port(), bySRS(t)), bounceTo(t, "b@y.example"))
		if got := briefError(err); got != "MAIL 553 permanent" || len(res.Outcomes) > 0 {
			t.Errorf("Send = %q, %v, want the relay to be at fault, and no outcome", brief(res), err)
		}
	})
}

// TestRefusedKeptSender: the outcome says that it is the sender of the message that is refused, and
// not the recipient.
func TestRefusedKeptSender(t *testing.T) {
	refuse := script(answers{"mail": say(550, "5.1.8 no such domain")})
	s := sink(t, smtpsink.Options{Reply: refuse})
	r := relayOn(t, s.Port(), func(c *Config) { c.EnvelopeFrom = Keep })
	res, err := deliver(t.Context(), r, Envelope{From: "o@y.example", To: []string{"a@x.example"}}, content(t, plain))
	if err != nil || res.Outcomes[0].Status != Refused || res.Outcomes[0].Fix != fixKept {
		t.Errorf("Send = %+v, %v, want it refused, and the fix for the sender", res.Outcomes, err)
	}
}

// TestReplyThatDoesNotFit: the reason names the command, because the reply alone explains nothing.
func TestReplyThatDoesNotFit(t *testing.T) {
	for at, code := range map[string]int{"mail": 334, "rcpt a@x.example": 354, "data": 250} {
		s := sink(t, smtpsink.Options{Reply: script(answers{at: say(code, "well")})})
		res, err := send(t, relayOn(t, s.Port()), content(t, plain), "a@x.example")
		command, _, _ := strings.Cut(strings.ToUpper(at), " ")
		want := fmt.Sprintf("unexpected reply to %s: well", command)
		if err != nil || res.Outcomes[0].Status != Deferred || res.Outcomes[0].Reply != want {
			t.Errorf("%s: Send = %+v, %v, want it deferred: %s", at, res.Outcomes, err, want)
		}
	}
}
