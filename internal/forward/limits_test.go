package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// budget is a quota of one process: what is left of it, and what each transaction was granted and
// used.
type budget struct {
	left int
	log  []string
}

var errSpent = errors.New("the budget is spent")

func (b *budget) Reserve(_ context.Context, n int) (int, func(int), error) {
	granted := min(n, b.left)
	if granted == 0 {
		return 0, nil, errSpent
	}
	b.left -= granted
	return granted, func(used int) {
		b.left += granted - used
		b.log = append(b.log, fmt.Sprintf("%d of %d used %d", granted, n, used))
	}, nil
}

// TestQuota: of five recipients as many as the quota allows get the message, and those named to the
// relay count.
func TestQuota(t *testing.T) {
	noB := answers{"rcpt b@x.example": say(550, "5.1.1 no")}
	fullAtC := answers{"rcpt c@x.example": say(452, "4.5.3 too many")}
	later := answers{"mail": say(451, "4.3.0 later")}
	noDot := answers{"dot": say(554, "5.7.1 no")}
	for _, c := range []struct {
		name    string
		left    int
		answers answers
		offers  []string
		want    string // brief
		err     string
		log     string
	}{
		{"enough", 9, nil, nil, each("abcde", "accepted 250 2.0.0"), "", "5 of 5 used 5"},
		{"for three", 3, nil, nil, each("abc", "accepted 250 2.0.0"), "the budget is spent", "3 of 5 used 3"},
		{"none", 0, nil, nil, "", "the budget is spent", ""},
		{
			"refused ones count", 3, noB, nil,
			"a accepted 250 2.0.0, b refused 550 5.1.1, c accepted 250 2.0.0", "the budget is spent", "3 of 5 used 3",
		},
		{
			"too many at once are named twice", 9, fullAtC, nil,
			"a accepted 250 2.0.0, b accepted 250 2.0.0, c deferred 452 4.5.3, " +
				"d accepted 250 2.0.0, e accepted 250 2.0.0", "", "5 of 5 used 3|3 of 3 used 3",
		},
		{"the sender is refused", 9, later, nil, each("abcde", "deferred 451 4.3.0"), "", "5 of 5 used 0"},
		{"it is too large", 9, nil, []string{"SIZE 10"}, each("abcde", "refused 0"), "", "5 of 5 used 0"},
		{"the relay is down", 9, answers{"ehlo": say(421, "4.3.0 down")}, nil, "", "down", "5 of 5 used 0"},
		{"refused at the end", 9, noDot, nil, each("abcde", "refused 554 5.7.1"), "", "5 of 5 used 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, offers []string) {
				if c.log == "5 of 5 used 3|3 of 3 used 3" && len(offers) > 0 {
					c.log = "5 of 5 used 5|1 of 1 used 1" // all are named at once
				}
				b := &budget{left: c.left}
				s := sink(t, smtpsink.Options{Extensions: slices.Concat(c.offers, offers), Reply: script(c.answers)})
				r := relayOn(t, s.Port(), func(cfg *Config) { cfg.Quota = b })
				to := []string{"a@x.example", "b@x.example", "c@x.example", "d@x.example", "e@x.example"}
				res, err := send(t, r, content(t, plain), to...)
				if brief(res) != c.want || (err == nil) != (c.err == "") ||
					err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("Send = %q, %v, want %q, %q", brief(res), err, c.want, c.err)
				}
				if got := strings.Join(b.log, "|"); got != c.log {
					t.Errorf("the quota was asked %q, want %q", got, c.log)
				}
			})
		})
	}
}

// TestQuotaOnAConnectionThatWasClosed: the relay closes a pooled connection at RCPT. The recipient
// is named again on a new one, if that opens, and counts once in any case.
func TestQuotaOnAConnectionThatWasClosed(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		for name, next := range map[string]smtpsink.Action{
			"accepted on a new one": {}, "no new one": say(421, "4.3.0 down"),
		} {
			t.Run(name, func(t *testing.T) {
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
					switch {
					case e.Stage == "rcpt" && e.Conn == 1 && e.N == 2:
						return drop
					case e.Stage == "ehlo" && e.Conn == 2:
						return next
					}
					return smtpsink.Action{}
				}})
				b := &budget{left: 9}
				r := relayOn(t, s.Port(), func(cfg *Config) { cfg.Quota = b })
				mustSend(t, r)
				_, err := send(t, r, content(t, plain), "a@x.example")
				want := []string{"1 of 1 used 1", "1 of 1 used 1"}
				if !slices.Equal(b.log, want) || (err == nil) != (next.Code == 0) {
					t.Errorf("the quota was asked %q (%v), want %q", b.log, err, want)
				}
			})
		}
	})
}

// TestPerConnection: after so many messages, whatever came of them, the relay hears QUIT, and the
// next one comes on a new connection.
func TestPerConnection(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var stages log
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: stages.add})
		r := relayOn(t, s.Port(), func(cfg *Config) { cfg.PerConnection = 2 })
		for range 3 {
			mustSend(t, r)
		}
		stages.want(t, "connect", "ehlo", "mail", "rcpt", "data", "dot", "mail", "rcpt", "data", "dot", "quit",
			"connect", "ehlo", "mail", "rcpt", "data", "dot")
		if err := r.Close(); err != nil || len(r.slots) != 0 {
			t.Errorf("Close: %v, with %d connections in use, want none", err, len(r.slots))
		}
	})
}
