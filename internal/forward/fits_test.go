package forward

import (
	"fmt"
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// TestWhatTheRelayTakes: what goes out, and as what, to relays that take less and less.
func TestWhatTheRelayTakes(t *testing.T) {
	const (
		eight = "From: alice@client.example\r\nSubject: x\r\n\r\nZażółć\r\n"
		utf8  = "From: alice@client.example\r\nSubject: Größe\r\n\r\nplain\r\n"
		none  = "From: alice@client.example\r\nSubject: x\r\n\r\nplain\r\n"
		long  = "From: alice@client.example\r\nSubject: x\r\n\r\n%s\r\n"
	)
	big := fmt.Sprintf(long, strings.Repeat("x", 999))
	mine, theirs := me, "jörg@client.example"
	redirect, rewrite, attach := Style{Mode: Redirect}, Style{Mode: Rewrite}, Style{Mode: Attach}
	redirectOrAttach, rewriteOrAttach := Style{Mode: Redirect, Fallback: true}, Style{Mode: Rewrite, Fallback: true}
	tests := []struct {
		name, raw, offers string
		style             Style
		from              string
		want              string // the outcome
		mode              Mode   // as what it arrived, and its sender
		by                string
	}{
		{"8 bits", eight, "8BITMIME", redirect, mine, "accepted", Redirect, mine},
		{"8 bits, no 8BITMIME", eight, "", redirect, mine, "refused", "", ""},
		{"8 bits, no 8BITMIME, fallback", eight, "", redirectOrAttach, mine, "accepted", Attach, mine},
		{"8 bits, fallback not needed", eight, "8BITMIME", redirectOrAttach, mine, "accepted", Redirect, mine},
		{"8 bits rewritten", eight, "8BITMIME", rewrite, mine, "accepted", Rewrite, mine},
		{"8 bits rewritten, no 8BITMIME", eight, "", rewrite, mine, "accepted", Attach, mine},
		{"8 bits rewritten, no 8BITMIME, fallback", eight, "", rewriteOrAttach, mine, "accepted", Attach, mine},
		{"too large once it is attached instead", eight, "SIZE 300", rewrite, mine, "refused", "", ""},
		{"8 bits attached", eight, "", attach, mine, "accepted", Attach, mine},
		{"8-bit header rewritten", utf8, "", rewrite, mine, "accepted", Rewrite, mine},
		{"8-bit header, no SMTPUTF8, fallback", utf8, "8BITMIME", redirectOrAttach, mine, "accepted", Attach, mine},
		{"long line", big, "8BITMIME", redirect, mine, "accepted", Redirect, mine},
		{"long line, fallback", big, "8BITMIME", redirectOrAttach, mine, "accepted", Attach, mine},
		{"sender with SMTPUTF8", none, "SMTPUTF8", redirect, theirs, "accepted", Redirect, theirs},
		{"sender without SMTPUTF8", none, "", redirect, theirs, "refused", "", ""},
		{"sender without SMTPUTF8, fallback", none, "", redirectOrAttach, theirs, "accepted", Attach, mine},
		{"8 bits rewritten, sender without SMTPUTF8", eight, "8BITMIME", rewrite, theirs, "accepted", Rewrite, mine},
		{
			"sender without SMTPUTF8, rewritten with fallback",
			none, "", rewriteOrAttach, theirs, "accepted", Rewrite, mine,
		},
		{"sender without SMTPUTF8, rewritten", none, "", rewrite, theirs, "accepted", Rewrite, mine},
		{"too large once it is attached", none, "SIZE 400", attach, mine, "refused", "", ""},
		{"small enough as it is", none, "SIZE 400", redirect, mine, "accepted", Redirect, mine},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var extensions []string
			if tt.offers != "" {
				extensions = []string{tt.offers}
			}
			s := sink(t, smtpsink.Options{Extensions: extensions})
			r := relayOn(t, s.Port())
			c := compose(t, composer(t, ComposeConfig{}), parse(t, tt.raw), tt.style)
			res, err := deliver(t.Context(), r, Envelope{From: tt.from, To: []string{"a@x.example"}}, c)
			if err != nil || len(res.Outcomes) != 1 || string(res.Outcomes[0].Status) != tt.want {
				t.Fatalf("Send = %+v, %v, want %s", res, err, tt.want)
			}
			if tt.want == "refused" {
				if n, code := len(s.Messages()), res.Outcomes[0].Code; n > 0 || code != 0 {
					t.Errorf("%d messages at the relay, code %d, want it refused before it is sent", n, code)
				}
				if fix := res.Outcomes[0].Fix; (fix == fixFallback) == strings.Contains(tt.name, "too large") {
					t.Errorf("the fix is %q, want another mode, unless the message is too large", fix)
				}
				return
			}
			if m := s.Messages()[0]; res.Sent.Mode != tt.mode || m.From != tt.by {
				t.Errorf("arrived in mode %s from %s, want %s from %s", res.Sent.Mode, m.From, tt.mode, tt.by)
			}
		})
	}
}

// TestDMARCRefused: another mode helps a redirect that fails DMARC, and nothing that has our From.
func TestDMARCRefused(t *testing.T) {
	for text, want := range map[string]string{
		"5.7.26 This mail has been blocked because the sender is unauthenticated.": fixDMARC,
		"5.7.1 rejected by DMARC policy for client.example":                        fixDMARC,
		"5.7.1 spam": "",
	} {
		s := sink(t, smtpsink.Options{Reply: script(answers{"dot": say(550, text)})})
		for mode, want := range map[Mode]string{Redirect: want, Rewrite: "", Attach: ""} {
			c := compose(t, composer(t, ComposeConfig{}), parse(t, plain), Style{Mode: mode})
			res, err := send(t, relayOn(t, s.Port()), c, "a@x.example")
			if err != nil || res.Outcomes[0].Status != Refused || res.Outcomes[0].Fix != want {
				t.Errorf("%s, %s: Send = %+v, %v, want refused, the fix %q", mode, text, res.Outcomes, err, want)
			}
		}
	}
}
