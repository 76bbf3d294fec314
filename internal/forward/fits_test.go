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
	tests := []struct {
		name, raw, offers string
		style             Style
		from              string
		want              string // the outcome
		mode              Mode   // as what it arrived, and its sender
		by                string
	}{
		{"8 bits", eight, "8BITMIME", Style{Mode: Redirect}, mine, "accepted", Redirect, mine},
		{"8 bits, no 8BITMIME", eight, "", Style{Mode: Redirect}, mine, "refused", "", ""},
		{"8 bits, no 8BITMIME, fallback", eight, "", Style{Mode: Redirect, Fallback: true}, mine, "accepted", Attach, mine},
		{"8 bits, fallback not needed", eight, "8BITMIME", Style{Mode: Redirect, Fallback: true}, mine, "accepted", Redirect, mine},
		{"8 bits rewritten", eight, "8BITMIME", Style{Mode: Rewrite}, mine, "accepted", Rewrite, mine},
		{"8 bits rewritten, no 8BITMIME", eight, "", Style{Mode: Rewrite}, mine, "accepted", Attach, mine},
		{"8 bits rewritten, no 8BITMIME, fallback", eight, "", Style{Mode: Rewrite, Fallback: true}, mine, "accepted", Attach, mine},
		{"too large once it is attached instead", eight, "SIZE 300", Style{Mode: Rewrite}, mine, "refused", "", ""},
		{"8 bits attached", eight, "", Style{Mode: Attach}, mine, "accepted", Attach, mine},
		{"8-bit header rewritten", utf8, "", Style{Mode: Rewrite}, mine, "accepted", Rewrite, mine},
		{"8-bit header, no SMTPUTF8, fallback", utf8, "8BITMIME", Style{Mode: Redirect, Fallback: true}, mine, "accepted", Attach, mine},
		{"long line", big, "8BITMIME", Style{Mode: Redirect}, mine, "accepted", Redirect, mine},
		{"long line, fallback", big, "8BITMIME", Style{Mode: Redirect, Fallback: true}, mine, "accepted", Attach, mine},
		{"sender with SMTPUTF8", none, "SMTPUTF8", Style{Mode: Redirect}, theirs, "accepted", Redirect, theirs},
		{"sender without SMTPUTF8", none, "", Style{Mode: Redirect}, theirs, "refused", "", ""},
		{"sender without SMTPUTF8, fallback", none, "", Style{Mode: Redirect, Fallback: true}, theirs, "accepted", Attach, mine},
		{"8 bits rewritten, sender without SMTPUTF8", eight, "8BITMIME", Style{Mode: Rewrite}, theirs, "accepted", Rewrite, mine},
		{"sender without SMTPUTF8, rewritten with fallback", none, "", Style{Mode: Rewrite, Fallback: true}, theirs, "accepted", Rewrite, mine},
		{"sender without SMTPUTF8, rewritten", none, "", Style{Mode: Rewrite}, theirs, "accepted", Rewrite, mine},
		{"too large once it is attached", none, "SIZE 400", Style{Mode: Attach}, mine, "refused", "", ""},
		{"small enough as it is", none, "SIZE 400", Style{Mode: Redirect}, mine, "accepted", Redirect, mine},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var extensions []string
			if tt.offers != "" {
				extensions = []string{tt.offers}
			}
			s := sink(t, smtpsink.Options{Extensions: extensions})
			r := relayOn(t, s.Port())
			res, err := deliver(t.Context(), r, Envelope{From: tt.from, To: []string{"a@x.example"}}, compose(t, composer(t, ComposeConfig{}), parse(t, tt.raw), tt.style))
			if err != nil || len(res.Outcomes) != 1 || string(res.Outcomes[0].Status) != tt.want {
				t.Fatalf("Send = %+v, %v, want %s", res, err, tt.want)
			}
			if tt.want == "refused" {
				if n := len(s.Messages()); n > 0 || res.Outcomes[0].Code != 0 {
					t.Errorf("%d messages at the relay, code %d, want it refused before it is sent", n, res.Outcomes[0].Code)
				}
				return
			}
			if m := s.Messages()[0]; res.Sent.Mode != tt.mode || m.From != tt.by {
				t.Errorf("arrived in mode %s from %s, want %s from %s", res.Sent.Mode, m.From, tt.mode, tt.by)
			}
		})
	}
}
