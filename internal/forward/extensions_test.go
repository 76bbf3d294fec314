package forward

import (
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

func TestExtensions(t *testing.T) {
	const (
		utf8Header  = "Subject: Zażółć\r\n\r\nx\r\n"
		latinHeader = "Subject: caf\xe9\r\n\r\nx\r\n"
		eightBody   = "Subject: x\r\n\r\nZażółć\r\n"
	)
	const taken, bothTaken = "a accepted 250 2.0.0", "a accepted 250 2.0.0, jörg accepted 250 2.0.0"
	eightAndUTF8 := []string{"8BITMIME", "SMTPUTF8"}
	tests := []struct {
		name       string
		extensions []string
		from, raw  string
		want       string // brief
		params     string
	}{
		{"none", nil, me, plain, taken, ""},
		{"SIZE without a limit", []string{"SIZE"}, me, plain, taken, "SIZE=107"},
		{"SIZE 0 is no limit", []string{"SIZE 0"}, me, plain, taken, "SIZE=107"},
		{"just fits", []string{"SIZE 107"}, me, plain, taken, "SIZE=107"},
		{"too large", []string{"SIZE 106"}, me, plain, "a refused 0, jörg refused 0", ""},
		{"8 bits", []string{"8BITMIME"}, me, eightBody, taken, "BODY=8BITMIME"},
		{"8 bits, not offered", nil, me, eightBody, "a refused 0, jörg refused 0", ""},
		{"not needed", []string{"8BITMIME"}, me, plain, taken, ""},
		{"UTF-8 header", eightAndUTF8, me, utf8Header, bothTaken, "BODY=8BITMIME|BODY=8BITMIME SMTPUTF8"},
		{"UTF-8 header, not offered", []string{"8BITMIME"}, me, utf8Header, taken, "BODY=8BITMIME"},
		{"UTF-8 recipient", []string{"SMTPUTF8"}, me, plain, bothTaken, "|SMTPUTF8"},
		{"UTF-8 sender in keep, not offered", nil, "ö@y.example", plain, "a refused 0, jörg refused 0", ""},
		{"their sender", nil, "o@bücher.example", plain, taken, ""},
		{"no sender", nil, "", plain, taken, ""},
		{"a sender that is none", nil, "o", plain, "a refused 0, jörg refused 0", ""},
		{"header neither ASCII nor UTF-8", eightAndUTF8, me, latinHeader, taken, "BODY=8BITMIME"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sink(t, smtpsink.Options{Extensions: tt.extensions})
			to := []string{"a@x.example", "jörg@x.example"}
			want := tt.want
			switch {
			case strings.HasPrefix(tt.name, "header neither"):
				to = to[:1] // with jörg it would need SMTPUTF8 anyhow
			case strings.HasPrefix(tt.want, "a accepted") && !strings.Contains(tt.want, "jörg"):
				want += ", jörg refused 0"
			}
			res, err := deliver(t.Context(), relayOn(t, s.Port()), Envelope{From: tt.from, To: to}, content(t, tt.raw))
			if got := brief(res); got != want || err != nil {
				t.Errorf("Send = %q, %v, want %q", got, err, want)
			}
			var all []string // of each transaction
			for _, m := range s.Messages() {
				all = append(all, strings.Join(m.Params, " "))
			}
			if params := strings.Join(all, "|"); params != tt.params {
				t.Errorf("MAIL had %q, want %q", params, tt.params)
			}
			for _, o := range res.Outcomes {
				if o.Status == Refused && o.Reply == "" {
					t.Errorf("%+v: no reason given", o)
				}
			}
		})
	}
}

func TestBadRecipientsTouchNobodyElse(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		s := sink(t, smtpsink.Options{Extensions: offers})
		to := []string{"b@x.example>\r\nRCPT TO:<evil@x.example", "a@x.example", "c"}
		res, err := send(t, relayOn(t, s.Port()), content(t, plain), to...)
		if err != nil || len(res.Outcomes) != 3 {
			t.Fatalf("Send = %q, %v, want three outcomes", brief(res), err)
		}
		if got := s.Messages()[0].To; len(got) != 1 || got[0] != "a@x.example" {
			t.Errorf("the relay was given %q, want a@x.example alone", got)
		}
		for _, o := range res.Outcomes {
			good := o.Recipient == "a@x.example"
			if good != (o.Status == Accepted) ||
				!good && (o.Code != 0 || !strings.Contains(o.Reply, "is not an address")) {
				t.Errorf("outcome %+v, want only a@x.example accepted, the others refused with the reason", o)
			}
		}
	})
}
