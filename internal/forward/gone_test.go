package forward

import (
	"slices"
	"strings"
	"testing"
)

// TestRelayGoneAfterAGroup: the relay ends at a message and does not come back. The message counts
// an attempt, so that it does not stop those behind it for ever.
func TestRelayGoneAfterAGroup(t *testing.T) {
	var p *puppet
	p = newPuppet(t, func(commands []string) []string {
		if len(commands) > 1 {
			_ = p.Close()
			return []string{closes}
		}
		return nil
	})
	var log strings.Builder
	res, err := send(t, p.relay(t, &log), content(t, plain), "a@x.example", "b@x.example")
	if got := brief(res); err == nil || got != "a deferred 0, b deferred 0" {
		t.Errorf("Send = %q, %v, want both recipients deferred, and an error", got, err)
	}
}

// TestFewerRecipientsAtOnce: a relay that takes two recipients in a transaction is asked for more
// once. Afterwards each transaction names two.
func TestFewerRecipientsAtOnce(t *testing.T) {
	p := newPuppet(t, func(commands []string) (replies []string) {
		for i, verb := range commands {
			if verb == "RCPT" && i > 2 {
				replies = append(replies, "452 4.5.3 too many recipients")
				continue
			}
			replies = append(replies, takes[verb])
		}
		return replies
	})
	var log strings.Builder
	to := []string{"a@x.example", "b@x.example", "c@x.example", "d@x.example", "e@x.example", "f@x.example"}
	res, err := send(t, p.relay(t, &log), content(t, plain), to...)
	if got := brief(res); err != nil || strings.Count(got, "accepted") != len(to) {
		t.Errorf("Send = %q, %v, want all accepted", got, err)
	}
	two := []string{"MAIL RCPT RCPT DATA", "."}
	want := slices.Concat([]string{"MAIL RCPT RCPT RCPT RCPT RCPT RCPT DATA", "."}, two, two)
	if got := p.heard(); !slices.Equal(got, want) {
		t.Errorf("the relay heard %q, want %q", got, want)
	}
}

// TestNullSenderAndGoodbye: the relay refuses the null reverse-path and closes the connection. The
// configured sender is tried on a new one.
func TestNullSenderAndGoodbye(t *testing.T) {
	first := true
	p := newPuppet(t, func(commands []string) []string {
		if len(commands) < 4 || !first {
			return nil
		}
		first = false
		return []string{
			"550 5.7.1 null sender", "503 5.5.1 MAIL first", "503 5.5.1 MAIL first",
			"421 4.7.0 too many errors", closes,
		}
	})
	var log strings.Builder
	env := Envelope{To: []string{"a@x.example", "b@x.example"}}
	res, err := deliver(t.Context(), p.relay(t, &log), env, content(t, plain))
	if got := brief(res); got != both || err != nil || log.Len() > 0 {
		t.Errorf("Send = %q, %v, want both accepted, and nothing in the log: %q", got, err, log.String())
	}
	if got, want := p.heard(), []string{group4, group4, "."}; !slices.Equal(got, want) || p.connections() != 2 {
		t.Errorf("the relay heard %q over %d connections, want %q over two", got, p.connections(), want)
	}
}
