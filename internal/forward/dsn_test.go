package forward

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/bounce"
	"postrider/internal/testserver/smtpsink"
)

// naming makes the same addresses in each test.
var naming = func() *bounce.Signer {
	s, err := bounce.NewSigner(bounce.Config{
		Address: "bounces+{token}@firm.example", Secrets: []string{"a secret"},
		Now: func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		panic(err)
	}
	return s
}()

func withSigner(c *Config) { c.EnvelopeFrom, c.Signer = "bounces@firm.example", naming }

func confirming(c *Config) { c.Confirm = true }

// commands are the MAIL and RCPT commands that came, with the parameters of MAIL that matter.
func commands(t *testing.T, s *smtpsink.Server) (out []string) {
	t.Helper()
	size := func(param string) bool { return strings.HasPrefix(param, "SIZE=") }
	for _, m := range s.Messages() {
		params := slices.DeleteFunc(slices.Clone(m.Params), size)
		out = append(out, strings.TrimSpace("<"+m.From+"> "+strings.Join(params, " ")))
		for i, to := range m.To {
			out = append(out, strings.TrimRight("  <"+to+"> "+strings.Join(m.ToParams[i], " "), " "))
		}
	}
	return out
}

// TestReversePaths: with a Signer each recipient gets the message in a transaction of its own, from
// an address that names its delivery. Automatic answers keep the null one, and mail of our own has
// the configured one.
func TestReversePaths(t *testing.T) {
	two := []string{"a@x.example", "b@x.example"}
	a, b := naming.Token(7, time.Time{}, two[0]), naming.Token(7, time.Time{}, two[1])
	for _, tt := range []struct {
		name    string
		raw     string
		to      []string
		refuse  answers
		change  []func(*Config)
		want    []string
		results string
	}{
		{
			"each its own", plain, two, nil, nil,
			[]string{
				"<bounces+" + a + "@firm.example>", "  <a@x.example>",
				"<bounces+" + b + "@firm.example>", "  <b@x.example>",
			},
			both,
		},
		{
			"a refused one stops no other", plain, two,
			answers{"rcpt a@x.example": say(550, "5.1.1 no such user")},
			nil,
			[]string{"<bounces+" + b + "@firm.example>", "  <b@x.example>"},
			"a refused 550 5.1.1, b accepted 250 2.0.0",
		},
		{
			"nor does an invalid one", plain,
			[]string{"nonsense", "b@x.example"},
			nil, nil,
			[]string{"<bounces+" + b + "@firm.example>", "  <b@x.example>"},
			"b accepted 250 2.0.0, nonsense refused",
		},
		{
			"a bounce", "Return-Path: <>\r\n" + plain, two, nil,
			[]func(*Config){confirming},
			[]string{"<>", "  <a@x.example>", "  <b@x.example>"},
			both,
		},
		{
			"confirmed", plain, two, nil,
			[]func(*Config){confirming},
			[]string{
				"<bounces+" + a + "@firm.example> RET=HDRS ENVID=" + a,
				"  <a@x.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;a@x.example",
				"<bounces+" + b + "@firm.example> RET=HDRS ENVID=" + b,
				"  <b@x.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;b@x.example",
			},
			both,
		},
		{
			"confirmed by one reverse-path", plain, two, nil,
			[]func(*Config){confirming, func(c *Config) { c.Signer = nil }},
			[]string{
				"<bounces@firm.example> RET=HDRS",
				"  <a@x.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;a@x.example",
				"  <b@x.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;b@x.example",
			},
			both,
		},
	} {
		for _, pipelining := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pipelining %v", tt.name, pipelining), func(t *testing.T) {
				offers := []string{"SIZE", "DSN"}
				if pipelining {
					offers = append(offers, "PIPELINING")
				}
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: script(tt.refuse)})
				r := relayOn(t, s.Port(), append([]func(*Config){withSigner}, tt.change...)...)
				m := parse(t, tt.raw)
				via := Trace{Inbox: "in@x.example", TaskID: 7}
				res, err := deliver(t.Context(), r, r.Envelope(m, via, tt.to), redirected(m, via))
				got := strings.TrimSpace(strings.ReplaceAll(brief(res), "nonsense refused 0", "nonsense refused"))
				if err != nil || got != tt.results {
					t.Errorf("the outcomes are %q, %v, want %q", got, err, tt.results)
				}
				if got := commands(t, s); !slices.Equal(got, tt.want) {
					t.Errorf("the relay got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			})
		}
	}
}

// TestTokenNamesTheQueueing: the reverse-path and the ENVID say when the task was queued.
func TestTokenNamesTheQueueing(t *testing.T) {
	s := sink(t, smtpsink.Options{Extensions: []string{"DSN"}})
	r := relayOn(t, s.Port(), withSigner, confirming)
	queued := time.Unix(7, 0)
	to := []string{"a@x.example"}
	env := r.Envelope(parse(t, plain), Trace{TaskID: 7, Queued: queued}, to)
	_, err := deliver(t.Context(), r, env, content(t, plain))
	token := naming.Token(7, queued, to[0])
	want := "<bounces+" + token + "@firm.example> RET=HDRS ENVID=" + token
	if got := commands(t, s); err != nil || got[0] != want {
		t.Errorf("the relay got %q, %v, want %s first", got, err, want)
	}
}

// TestConfirmOnlyWhereOffered: a relay without DSN gets none of its parameters, and neither does
// any for mail of our own.
func TestConfirmOnlyWhereOffered(t *testing.T) {
	for name, tt := range map[string]struct {
		offers []string
		task   int64
	}{"not offered": {nil, 7}, "mail of our own": {[]string{"DSN"}, 0}} {
		t.Run(name, func(t *testing.T) {
			s := sink(t, smtpsink.Options{Extensions: tt.offers})
			r := relayOn(t, s.Port(), confirming)
			env := Envelope{From: me, To: []string{"a@x.example"}, Task: tt.task}
			_, err := deliver(t.Context(), r, env, content(t, plain))
			if got := commands(t, s); err != nil || !slices.Equal(got, []string{"<" + me + ">", "  <a@x.example>"}) {
				t.Errorf("the relay got %q, %v, want no parameters", got, err)
			}
		})
	}
}

// TestSignedSenderRefused: what a relay has against an address that we made is not the message's
// fault, and the fix names the key that makes it.
func TestSignedSenderRefused(t *testing.T) {
	s := sink(t, smtpsink.Options{Reply: script(answers{"mail": say(553, "5.7.1 not owned by user")})})
	r := relayOn(t, s.Port(), withSigner)
	_, err := deliver(t.Context(), r, Envelope{From: me, To: []string{"a@x.example"}, Task: 7}, content(t, plain))
	if briefError(err) != "MAIL 553 permanent" || !strings.Contains(err.Error(), "bounces.address") {
		t.Errorf("Begin = %v, want a permanent fault of the relay that names bounces.address", err)
	}
	if _, err := r.Info(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "bounces.address") {
		t.Errorf("Info = %v, want the same", err)
	}
}

// TestInfoNamesASignedSender: a relay is asked about an address like those of messages.
func TestInfoNamesASignedSender(t *testing.T) {
	s := sink(t, smtpsink.Options{Extensions: []string{"DSN"}})
	info, err := relayOn(t, s.Port(), withSigner).Info(t.Context(), nil)
	want := naming.ReversePath(math.MaxInt64, time.Time{}, "bounces@firm.example")
	if err != nil || info.Sender != want || !info.DSN {
		t.Errorf("Info = %+v, %v, want an address of the Signer, and DSN", info, err)
	}
}

func TestXtext(t *testing.T) {
	for in, want := range map[string]string{
		"a@x.example": "a@x.example", "a+b=c@x.example": "a+2Bb+3Dc@x.example", `"a b"@x.example`: `"a+20b"@x.example`,
		"ü": "+C3+BC", "": "",
	} {
		if got := xtext(in); got != want {
			t.Errorf("xtext(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := escaped(`ü+=\a@x.example`), `\x{FC}\x{2B}\x{3D}\x{5C}a@x.example`; got != want {
		t.Errorf("escaped = %q, want %q", got, want)
	}
}
