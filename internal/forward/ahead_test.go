package forward

import (
	"strings"
	"testing"
)

// TestReplyAhead: a reply that comes before its command answers nothing, also without PIPELINING. A
// message is not taken as accepted by it, and the next one goes out on a new connection.
func TestReplyAhead(t *testing.T) {
	for verb, tt := range map[string]struct{ reply, want string }{
		"RCPT": {"250 ok\r\n250 ok", each("ab", "deferred 0")},
		"DATA": {"354 go on\r\n250 2.0.0 accepted", each("ab", "deferred 0")},
		".":    {"250 2.0.0 accepted\r\n250 2.0.0 accepted", both},
	} {
		t.Run(verb, func(t *testing.T) {
			n := 0
			p := newPuppet(t, func(commands []string) []string {
				if commands[0] != verb {
					return nil
				}
				if n++; n == 1 {
					return []string{tt.reply}
				}
				return nil
			})
			r := p.relay(t, &strings.Builder{}, func(c *Config) { c.NoPipelining = true })
			for _, want := range []string{tt.want, both} {
				res, _ := send(t, r, content(t, plain), "a@x.example", "b@x.example")
				if got := brief(res); got != want {
					t.Errorf("Send = %q, want %q", got, want)
				}
			}
			if p.connections() != 2 {
				t.Errorf("%d connections, want 2", p.connections())
			}
		})
	}
}
