package forward

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/testserver/smtpsink"
)

// TestTimeouts: a relay that falls silent is given up after the time limit of the step.
func TestTimeouts(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		for stage, fault := range map[string]string{"connect": "greeting 0 temporary", "mail": "MAIL 0 temporary"} {
			t.Run(stage, func(t *testing.T) {
				hang := make(chan struct{})
				defer close(hang)
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: script(answers{stage: {Block: hang}})})
				var limit hurry
				r := relayOn(t, s.Port(), func(c *Config) { c.Logger = slog.New(&limit) })
				limit.command = &r.cfg.Timeouts.Command
				if stage == "connect" {
					*limit.command = moment // nothing comes before the greeting
				}
				wantSilence(t, r, "", fault)
			})
		}
		t.Run("dot", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &puppet{answer: func(commands []string) []string {
					if commands[0] == "." {
						return []string{}
					}
					return nil
				}, write: writeWhole}
				r := relayOn(t, 25, func(c *Config) { c.NoPipelining = offers == nil })
				pool(t, r, p.pipe())
				start := time.Now()
				wantSilence(t, r, "a unknown 0", "")
				if took, want := time.Since(start), r.cfg.Timeouts.Dot; took != want {
					t.Errorf("Send took %v, want %v", took, want)
				}
			})
		})
	})
}

// wantSilence sends a message to a relay that falls silent, and checks what Send says.
func wantSilence(t *testing.T, r *Relay, want, fault string) {
	t.Helper()
	res, err := send(t, r, content(t, plain), "a@x.example")
	if got := brief(res); got != want || briefError(err) != fault {
		t.Errorf("Send = %q, %v, want %q and %q", got, err, want, fault)
	}
}

const moment = 50 * time.Millisecond

// hurry is a log that makes the time limit of commands short once a connection is open, and long
// again before the next one is opened. The relay logs both on the goroutine that reads the limit.
type hurry struct{ command *time.Duration }

func (h *hurry) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelDebug }
func (h *hurry) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h *hurry) WithGroup(string) slog.Handler                    { return h }

func (h *hurry) Handle(_ context.Context, r slog.Record) error {
	*h.command = time.Minute
	if r.Message == "connected to the relay" {
		*h.command = moment
	}
	return nil
}
