package forward

import (
	"context"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestUTF8BehindPostfix: behind the relay is a server without SMTPUTF8. A header in UTF-8 gets
// through all the same, and an address that needs SMTPUTF8 has the message bounce for itself alone.
func TestUTF8BehindPostfix(t *testing.T) {
	next := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME"}})
	r := relayOn(t, testserver.Postfix(t, testserver.PostfixOptions{Next: next.Port(), Settings: honestPostfix}).Port)
	for _, tt := range []struct {
		name, raw string
		to        []string
	}{
		{
			"header", "From: b@y.example\r\nTo: in@x.example\r\nSubject: Grüße\r\n\r\nHello.\r\n",
			[]string{"a@x.example"},
		},
		{
			"recipient", "From: b@y.example\r\nTo: in@x.example\r\nSubject: plain\r\n\r\nHello.\r\n",
			[]string{"a@x.example", "jörg@x.example"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(next.Messages())
			res, err := send(t, r, content(t, tt.raw), tt.to...)
			if err != nil || strings.Count(brief(res), "accepted") != len(tt.to) {
				t.Fatalf("Send = %q, %v, want all accepted", brief(res), err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := next.Wait(ctx, before+1); err != nil {
				t.Error(err)
			}
			arrived := 0
			for _, m := range next.Messages()[before:] {
				if m.To[0] == "a@x.example" {
					arrived++
				}
			}
			if arrived != 1 {
				t.Errorf("the message arrived %d times, want once", arrived)
			}
		})
	}
}

// TestUTF8RefusedAtMAIL: a relay that offers SMTPUTF8 and refuses it has nothing against the
// configured sender, unless that is what needs it.
func TestUTF8RefusedAtMAIL(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		answer := script(answers{"mail": say(550, "5.6.7 SMTPUTF8 is not supported")})
		for _, tt := range []struct{ from, to, want, fault string }{
			{me, "jörg@x.example", "jörg refused 550 5.6.7", ""},
			{me, "a@x.example", "", "MAIL 550 permanent"},
			{"jörg@x.example", "jörg@x.example", "", "MAIL 550 permanent"},
		} {
			s := sink(t, smtpsink.Options{Extensions: append([]string{"SMTPUTF8"}, offers...), Reply: answer})
			r := relayOn(t, s.Port(), func(c *Config) { c.From = tt.from })
			res, err := deliver(t.Context(), r, Envelope{From: tt.from, To: []string{tt.to}}, content(t, plain))
			if got := brief(res); got != tt.want || briefError(err) != tt.fault {
				t.Errorf("from %s to %s: Send = %q, %v, want %q, and the fault %q",
					tt.from, tt.to, got, err, tt.want, tt.fault)
			}
		}
	})
}

// TestUTF8NotOffered: a relay without SMTPUTF8 hears nothing of recipients that need it.
func TestUTF8NotOffered(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var stages log
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: stages.add})
		res, err := send(t, relayOn(t, s.Port()), content(t, plain), "jörg@x.example", "köln@x.example")
		if got := brief(res); err != nil || got != "jörg refused 0, köln refused 0" {
			t.Errorf("Send = %q, %v, want both refused", got, err)
		}
		stages.want(t, "connect", "ehlo")
	})
}
