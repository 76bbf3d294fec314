package forward

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// honestPostfix are settings for a Postfix that takes everything from this host, without TLS and
// login, and hands on what it takes. By itself one rewrites addresses in the header of mail from
// its own host, drops Return-Path and folds long lines.
var honestPostfix = []string{
	"mynetworks = 127.0.0.0/8", "smtpd_relay_restrictions = permit_mynetworks, reject",
	"smtpd_tls_security_level = none", "smtpd_sasl_auth_enable = no",
	"local_header_rewrite_clients =", "message_drop_headers =", "smtp_line_length_limit = 0",
	"in_flow_delay = 0", // else it takes a second for each message when more come than go
}

// repaired are messages whose header Postfix changes, whatever its settings: it takes out the space
// before a colon, and puts an empty line before the first that is no field. Only an attachment
// arrives as it was; that a redirect sends all octets is seen at a relay that changes nothing
// (TestModes).
var repaired = []string{
	"error_emails/multiple_references_with_one_invalid.eml", "odd/junk-line-in-the-header.eml",
	"odd/space-before-the-colon.eml", "plain_emails/raw_email_incorrect_header.eml", "rfc2822/example13.eml",
}

// TestModesThroughPostfix sends every odd message in every mode through a real relay: what comes
// out behind it is what it should be.
func TestModesThroughPostfix(t *testing.T) {
	throughPostfix(t, honestPostfix, Redirect, Rewrite, Attach)
}

// TestModesThroughStrictPostfix: one that takes no 8 bits, and no encoding where there may be none,
// refuses nothing.
func TestModesThroughStrictPostfix(t *testing.T) {
	settings := slices.Concat(honestPostfix, []string{
		"smtpd_discard_ehlo_keywords = 8bitmime, smtputf8", "strict_8bitmime = yes",
		"strict_mime_encoding_domain = yes",
	})
	for _, a := range throughPostfix(t, settings, Rewrite, Attach) {
		if nonASCII([]byte(a.data)) {
			t.Errorf("%s, %s: what arrived has 8 bits, want none", a.name, a.mode)
		}
	}
}

// throughPostfix is what arrives of every odd message in these modes.
func throughPostfix(t *testing.T, settings []string, modes ...Mode) (all []arrival) {
	t.Helper()
	next := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME", "SMTPUTF8"}, KeepData: true})
	relay := testserver.Postfix(t, testserver.PostfixOptions{Next: next.Port(), Settings: settings})
	r := relayOn(t, relay.Port)
	sent := map[string]arrival{} // by recipient
	messages := odd(t)
	for i, name := range slices.Sorted(maps.Keys(messages)) {
		m := parse(t, messages[name])
		for _, mode := range modes {
			to := fmt.Sprintf("m%d-%s@x.example", i, mode)
			res, err := send(t, r, compose(t, composer(t, ComposeConfig{}), m, Style{Mode: mode}), to)
			if err != nil || res.Outcomes[0].Status != Accepted {
				t.Errorf("%s, %s: Send = %+v, %v, want it accepted", name, mode, res, err)
				continue
			}
			sent[to] = arrival{name: name, mode: res.Sent.Mode, original: octetsOf(t, m.Body.Reader())}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := next.Wait(ctx, len(sent)); err != nil {
		t.Error(err)
	}
	for _, m := range next.Messages() {
		a, ok := sent[m.To[0]]
		if !ok {
			t.Errorf("a message arrived for %s, want each once", m.To)
			continue
		}
		delete(sent, m.To[0])
		a.data = string(m.Data)
		if a.mode == Redirect && slices.Contains(repaired, a.name) {
			_, body, _ := strings.Cut(a.original, "\r\n\r\n")
			if !strings.HasSuffix(a.data, body) {
				t.Errorf("%s: the body is not what arrived", a.name)
			}
			continue
		}
		a.check(t)
		all = append(all, a)
	}
	if len(sent) > 0 {
		t.Errorf("%d messages did not arrive: %v", len(sent), slices.Sorted(maps.Keys(sent)))
	}
	checkWithPython(t, all)
	return all
}

// TestInfoThroughPostfix: it says only at RCPT what it has against a sender. Info finds that, and
// nothing arrives.
func TestInfoThroughPostfix(t *testing.T) {
	next := sink(t, smtpsink.Options{})
	settings := slices.Concat(honestPostfix, []string{
		"smtpd_sender_restrictions = check_sender_access inline:{ {refused@example.com = REJECT} }",
		"smtpd_recipient_restrictions = " +
			"check_recipient_access inline:{ {nobody@example.com = 550 5.1.1 unknown} }, permit_mynetworks",
	})
	relay := testserver.Postfix(t, testserver.PostfixOptions{Next: next.Port(), Settings: settings})
	to := []string{"a@example.com", "nobody@example.com"}
	info, err := relayOn(t, relay.Port).Info(t.Context(), to)
	if err != nil || !slices.Equal(info.Accepted, to[:1]) || len(info.Refused) != 1 || info.Refused[0].Code != 550 {
		t.Errorf("Info = %+v, %v; want %s accepted and %s refused", info, err, to[0], to[1])
	}
	asRefused := func(c *Config) { c.EnvelopeFrom = "refused@example.com" }
	info, err = relayOn(t, relay.Port, asRefused).Info(t.Context(), to[:1])
	if err != nil || len(info.Refused) != 1 || info.Refused[0].Status != Refused || info.Refused[0].Fix == "" {
		t.Errorf("with a sender that it refuses: Info = %+v, %v; want the recipient refused, with the fix", info, err)
	}
	if n := len(next.Messages()); n != 0 {
		t.Errorf("%d messages arrived, want none", n)
	}
}

// TestPipeliningThroughPostfix: each recipient gets the same outcome as with one command at a time,
// at a Postfix that refuses commands before their time. What is taken back after 354 never arrives.
func TestPipeliningThroughPostfix(t *testing.T) {
	next := sink(t, smtpsink.Options{})
	settings := slices.Concat(honestPostfix, []string{
		"smtpd_delay_reject = no", "smtpd_data_restrictions = reject_unauth_pipelining", "smtpd_recipient_limit = 3",
		"smtpd_sender_restrictions = " +
			"check_sender_access inline:{ {refused@example.com = REJECT}, {later@example.com = DEFER} }",
		"smtpd_recipient_restrictions = " +
			"check_recipient_access inline:{ {nobody@example.com = 550 5.1.1 unknown} }, permit_mynetworks",
	})
	relay := testserver.Postfix(t, testserver.PostfixOptions{Next: next.Port(), Settings: settings})
	for _, tt := range []struct{ name, from, to, want string }{
		{"all taken", me, "a b", "a accepted 250 2.0.0, b accepted 250 2.0.0"},
		{"one refused", me, "a nobody b", "a accepted 250 2.0.0, b accepted 250 2.0.0, nobody refused 550 5.1.1"},
		{"all refused", me, "nobody", "nobody refused 550 5.1.1"},
		{"too many", me, "a b c d e f g", each("abcdefg", "accepted 250 2.0.0")},
		{"sender refused", "refused@example.com", "a b", "a deferred 554 5.7.1, b deferred 554 5.7.1"},
		{"sender deferred", "later@example.com", "a b", "a deferred 450 4.7.1, b deferred 450 4.7.1"},
		{"taken after all that", me, "a", "a accepted 250 2.0.0"},
	} {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, one command at a time: %t", tt.name, alone), func(t *testing.T) {
				r := relayOn(t, relay.Port, func(c *Config) { c.NoPipelining = alone })
				var to []string
				for name := range strings.FieldsSeq(tt.to) {
					to = append(to, name+"@example.com")
				}
				env := Envelope{From: tt.from, To: to}
				res, err := deliver(t.Context(), r, env, content(t, plain))
				if got := brief(res); got != tt.want || err != nil {
					t.Errorf("Send = %q, %v, want %q", got, err, tt.want)
				}
				if tx, err := r.Begin(t.Context(), env, content(t, plain)); err == nil {
					tx.Reset()
				}
				if r.distrusts() {
					t.Error("Postfix counts as a relay that mishandles PIPELINING, want it not to")
				}
				want := strings.Count(tt.want, "accepted")
				got := func() (n int) {
					for _, m := range next.Messages() {
						n += len(m.To)
					}
					return n
				}
				eventually(t, "the message for each accepted recipient", func() bool { return got() >= want })
				mustSend(t, r) // a message that was taken back would arrive before this one
				eventually(t, "one more message", func() bool { return got() > want })
				if n := got(); n != want+1 {
					t.Errorf("%d recipients have a message, want %d, and one more", n, want)
				}
				next.Reset()
			})
		}
	}
}
