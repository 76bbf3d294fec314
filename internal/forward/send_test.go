package forward

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// answers are those of a relay, by "stage" or "stage argument".
type answers = map[string]smtpsink.Action

// script answers by "stage" or "stage argument", the latter first.
func script(by answers) func(smtpsink.Event) smtpsink.Action {
	return func(e smtpsink.Event) smtpsink.Action {
		if a, ok := by[e.Stage+" "+e.Arg]; ok {
			return a
		}
		return by[e.Stage]
	}
}

func say(code int, text string) smtpsink.Action { return smtpsink.Action{Code: code, Text: text} }

// brief is "a accepted 250, b refused 550 5.1.1", sorted, without the domains.
func brief(res result) string {
	out := make([]string, len(res.Outcomes))
	for i, o := range res.Outcomes {
		name, _, _ := strings.Cut(o.Recipient, "@")
		out[i] = strings.TrimSpace(fmt.Sprintf("%s %s %d %s", name, o.Status, o.Code, o.Enhanced))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// each is what brief says of recipients who all have that outcome.
func each(names, outcome string) string {
	var out []string
	for name := range strings.SplitSeq(names, "") {
		out = append(out, name+" "+outcome)
	}
	return strings.Join(out, ", ")
}

// briefError is "MAIL 421 temporary"; empty without an error.
func briefError(err error) string {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return ""
	case !ok:
		return "not an *Error: " + err.Error()
	case e.Permanent:
		return fmt.Sprintf("%s %d permanent", e.Stage, e.Code)
	default:
		return fmt.Sprintf("%s %d temporary", e.Stage, e.Code)
	}
}

type scenario struct {
	name    string
	answers answers
	want    string // brief, of a, b and c
	fault   string // briefError
	got     int    // messages that the relay has
}

var drop = smtpsink.Action{Drop: true}

var scenarios = []scenario{
	{"all taken", nil, each("abc", "accepted 250 2.0.0"), "", 1},
	{
		"251 and 252 are taken, too",
		answers{"rcpt a@x.example": say(251, "will forward")},
		each("abc", "accepted 250 2.0.0"), "", 1,
	},
	{
		"each its own fate",
		answers{"rcpt b@x.example": say(550, "5.1.1 no"), "rcpt c@x.example": say(450, "4.2.1 busy")},
		"a accepted 250 2.0.0, b refused 550 5.1.1, c deferred 450 4.2.1", "", 1,
	},
	{"nobody taken", answers{"rcpt": say(550, "5.1.1 no")}, each("abc", "refused 550 5.1.1"), "", 0},
	{
		"not even the first: too many",
		answers{"rcpt": say(452, "4.5.3 too many")},
		each("abc", "deferred 452 4.5.3"), "", 0,
	},

	{"greeting 421", answers{"connect": say(421, "busy")}, "", "greeting 421 temporary", 0},
	{"greeting 554", answers{"connect": say(554, "no service")}, "", "greeting 554 permanent", 0},
	{"greeting dropped", answers{"connect": drop}, "", "greeting 0 temporary", 0},
	{"EHLO 550", answers{"ehlo": say(550, "who are you")}, "", "EHLO 550 permanent", 0},
	{"EHLO dropped", answers{"ehlo": drop}, "", "EHLO 0 temporary", 0},

	{"MAIL 451", answers{"mail": say(451, "4.3.0 later")}, each("abc", "deferred 451 4.3.0"), "", 0},
	{"MAIL 552", answers{"mail": say(552, "5.3.4 large")}, each("abc", "refused 552 5.3.4"), "", 0},
	{"MAIL 550", answers{"mail": say(550, "5.7.1 not you")}, "", "MAIL 550 permanent", 0},
	{"MAIL 421", answers{"mail": say(421, "4.3.2 bye")}, "", "MAIL 421 temporary", 0},
	{"MAIL dropped", answers{"mail": drop}, "", "MAIL 0 temporary", 0},

	{
		"RCPT 421",
		answers{"rcpt b@x.example": say(421, "4.3.2 bye")},
		each("abc", "deferred 421 4.3.2"), "RCPT 421 temporary", 0,
	},
	{
		"RCPT 421 after a refusal",
		answers{"rcpt a@x.example": say(550, "5.1.1 no"), "rcpt b@x.example": say(421, "bye")},
		"a refused 550 5.1.1, b deferred 421, c deferred 421", "RCPT 421 temporary", 0,
	},
	{"RCPT dropped", answers{"rcpt c@x.example": drop}, each("abc", "deferred 0"), "RCPT 0 temporary", 0},
	{"RCPT 530", answers{"rcpt b@x.example": say(530, "5.7.0 log in")}, "", "RCPT 530 permanent", 0},

	{"DATA 451", answers{"data": say(451, "4.3.0 later")}, each("abc", "deferred 451 4.3.0"), "", 0},
	{"DATA 554", answers{"data": say(554, "no")}, each("abc", "refused 554"), "", 0},
	{"DATA 421", answers{"data": say(421, "bye")}, each("abc", "deferred 421"), "DATA 421 temporary", 0},
	{"DATA dropped", answers{"data": drop}, each("abc", "deferred 0"), "DATA 0 temporary", 0},
	{"DATA 250", answers{"data": say(250, "thanks?")}, each("abc", "deferred 250"), "", 0},

	{
		"dot 451",
		answers{"dot": say(451, "4.3.0 later"), "rcpt b@x.example": say(550, "no")},
		"a deferred 451 4.3.0, b refused 550, c deferred 451 4.3.0", "", 0,
	},
	{"dot 554", answers{"dot": say(554, "5.7.1 spam")}, each("abc", "refused 554 5.7.1"), "", 0},
	{
		"dot 554, a quota",
		answers{"dot": say(554, "5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException")},
		each("abc", "deferred 554 5.2.0"), "", 0,
	},
	{"dot 421", answers{"dot": say(421, "bye")}, each("abc", "deferred 421"), "final dot 421 temporary", 0},
	{
		"dot dropped",
		answers{"dot": drop, "rcpt c@x.example": say(550, "no")},
		"a unknown 0, b unknown 0, c refused 550", "", 0,
	},
	{"dot taken, then dropped", answers{"dot": {AcceptAndDrop: true}}, each("abc", "unknown 0"), "", 1},
	{"dot answered against the rules", answers{"dot": say(354, "more?")}, each("abc", "unknown 0"), "", 1},
}

// bothWays runs a test with a relay that takes one command at a time, and with one that offers
// PIPELINING.
func bothWays(t *testing.T, test func(t *testing.T, offers []string)) {
	t.Helper()
	t.Run("one at a time", func(t *testing.T) { test(t, nil) })
	t.Run("pipelined", func(t *testing.T) { test(t, []string{"PIPELINING"}) })
}

// TestReplies plays each scenario on a new connection, and then, on the same relay, sends a message
// that must go well.
func TestReplies(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		for _, sc := range scenarios {
			t.Run(sc.name, func(t *testing.T) { playScenario(t, sc, offers, false) })
			t.Run(sc.name+", on a connection used before", func(t *testing.T) { playScenario(t, sc, offers, true) })
		}
	})
}

func playScenario(t *testing.T, sc scenario, offers []string, reused bool) {
	var playing atomic.Bool
	answer := script(sc.answers)
	s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
		if !playing.Load() {
			return smtpsink.Action{}
		}
		return answer(e)
	}})
	r := relayOn(t, s.Port())
	before := 0
	if reused {
		mustSend(t, r)
		before = 1
		if _, ok := sc.answers["connect"]; ok {
			t.Skip("there is no greeting on a connection used before")
		}
	}
	playing.Store(true)
	res, err := send(t, r, content(t, plain), "a@x.example", "b@x.example", "c@x.example")
	playing.Store(false)
	if _, ehlo := sc.answers["ehlo"]; ehlo && reused {
		return // a connection used before has said EHLO
	}
	if got := brief(res); got != sc.want {
		t.Errorf("outcomes:\n%s\nwant\n%s", got, sc.want)
	}
	if got := briefError(err); got != sc.fault {
		t.Errorf("error %q (%v), want %q", got, err, sc.fault)
	}
	if err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("relay 127.0.0.1:%d: ", s.Port())) {
		t.Errorf("error %q, want it to name the relay", err)
	}
	if got := len(s.Messages()) - before; got != sc.got {
		t.Errorf("the relay has %d messages, want %d", got, sc.got)
	}
	if r.distrusts() {
		t.Error("the relay counts as one that mishandles PIPELINING, want it not to")
	}
	mustSend(t, r)
}

func mustSend(t *testing.T, r *Relay) {
	t.Helper()
	res, err := send(t, r, content(t, plain), "z@x.example")
	if got := brief(res); got != "z accepted 250 2.0.0" || err != nil {
		t.Fatalf("a plain message: %q, %v, want it accepted", got, err)
	}
}

func TestManyRecipients(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var to []string
		for i := range 150 {
			to = append(to, fmt.Sprintf("r%d@x.example", i))
		}
		tests := []struct {
			name    string
			limit   int // of recipients in a transaction
			code    int
			batches []int
		}{
			{"no limit but RFC 5321's", 1000, 0, []int{100, 50}},
			{"452 after 40", 40, 452, []int{40, 40, 40, 30}},
			{"552 after 60", 60, 552, []int{60, 60, 30}},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
					if e.Stage == "rcpt" && len(e.Message.To) >= tt.limit {
						return say(tt.code, "too many recipients")
					}
					return smtpsink.Action{}
				}})
				res, err := send(t, relayOn(t, s.Port()), content(t, plain), to...)
				if err != nil {
					t.Fatal(err)
				}
				var batches []int
				for _, b := range res.batches {
					batches = append(batches, len(b))
				}
				if !slices.Equal(batches, tt.batches) || !slices.Equal(slices.Concat(res.batches...), to) {
					t.Errorf("transactions of %v, want %v, and each recipient once", batches, tt.batches)
				}
				got, messages := strings.Count(brief(res), "accepted"), len(s.Messages())
				if got != 150 || messages != len(tt.batches) || s.Connections() != 1 {
					t.Errorf("%d accepted in %d messages over %d connections, want 150 in %d over 1",
						got, messages, s.Connections(), len(tt.batches))
				}
			})
		}
	})
}

// TestManyRecipientsThenLost: what was decided stays decided, what was not tried is not mentioned.
func TestManyRecipientsThenLost(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var to []string
		for i := range 250 {
			to = append(to, fmt.Sprintf("r%d@x.example", i))
		}
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "mail" && e.N > 1 {
				return drop
			}
			return smtpsink.Action{}
		}})
		res, err := send(t, relayOn(t, s.Port()), content(t, plain), to...)
		if got := briefError(err); got != "MAIL 0 temporary" {
			t.Errorf("error %q, want the relay's, at the second MAIL", got)
		}
		if len(res.Outcomes) != 100 || strings.Count(brief(res), "accepted") != 100 {
			t.Errorf("%d outcomes: %s, want the first hundred accepted and no outcome for the others",
				len(res.Outcomes), brief(res))
		}
	})
}
