package forward

import (
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// TestInfoNamesTheSender: a relay is asked whether it accepts the envelope sender of outgoing mail.
// A refusal is reported as in a pass. No recipient is named.
func TestInfoNamesTheSender(t *testing.T) {
	from := func(envelope string) func(*Config) {
		return func(c *Config) { c.EnvelopeFrom, c.SRS = envelope, rewriter(t) }
	}
	refuse := map[string]smtpsink.Action{"mail": say(553, "5.7.1 not yours")}
	tests := []struct {
		name, envelope string
		replies        map[string]smtpsink.Action
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
		{"refused for now", "", map[string]smtpsink.Action{"mail": say(451, "4.3.0 later")}, nil, "", "MAIL 451 temporary"},
		{"it hangs up", "", map[string]smtpsink.Action{"mail": {Drop: true}}, nil, "", "MAIL 0 temporary"},
		{"it does not take it back", "", map[string]smtpsink.Action{"rset": say(500, "5.5.1 what?")}, nil, me, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stages log
			reply := script(tt.replies)
			s := sink(t, smtpsink.Options{Extensions: tt.offers, Reply: func(e smtpsink.Event) smtpsink.Action {
				stages.add(e)
				return reply(e)
			}})
			info, err := relayOn(t, s.Port(), from(tt.envelope)).Info(t.Context())
			if briefError(err) != tt.fault || !strings.Contains(info.Sender, tt.sender) || (info.Sender == "") != (tt.sender == "") {
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
