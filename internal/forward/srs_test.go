package forward

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"postrider/internal/message"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// bounceTo is a message with a reverse-path.
func bounceTo(t *testing.T, from string) *message.Message {
	return parse(t, "Return-Path: <"+from+">\r\n"+plain)
}

func logsTo(w io.Writer) func(*Config) {
	return func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(w, nil)) }
}

// forwards sends a message as a pass does.
func forwards(t *testing.T, r *Relay, m *message.Message) (result, error) {
	env := r.Envelope(m, Trace{Inbox: "in@x.example"}, []string{"a@x.example"})
	return deliver(t.Context(), r, env, redirected(m, Trace{}))
}

// TestRefusedForOneSender: a stranger chooses what SRS makes, and what it leaves as it is. If the
// relay refuses that, the message goes out with the configured sender, and the log says so.
func TestRefusedForOneSender(t *testing.T) {
	for stage, text := range map[string]string{
		"mail": "5.1.7 bad address", "rcpt": "5.7.1 <x>: Sender address rejected: not owned by user y",
	} {
		for _, from := range []string{`"a b"@evil.example`, `"a b"@srs.example`, "odd@srs.example"} {
			t.Run(stage+" "+from, func(t *testing.T) {
				bothWays(t, func(t *testing.T, offers []string) {
					s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
						from := e.Arg
						if e.Message != nil {
							from = e.Message.From
						}
						if e.Stage == stage && from != me {
							return say(553, text)
						}
						return smtpsink.Action{}
					}})
					var out strings.Builder
					r := relayOn(t, s.Port(), bySRS(t), logsTo(&out))
					res, err := forwards(t, r, bounceTo(t, from))
					if got := brief(res); got != "a accepted 250 2.0.0" || err != nil || s.Messages()[0].From != me {
						t.Fatalf("Send = %q, %v, want it accepted with the configured sender", got, err)
					}
					level := "WARN" // it may be about each sender of SRS
					if strings.HasPrefix(from, `"`) {
						level = "INFO"
					}
					want := "level=" + level + ` msg="the relay refuses a sender; bounces go to the configured address"`
					if strings.Count(out.String(), want) != 1 {
						t.Errorf("the log is %q, want %q once", out.String(), want)
					}
				})
			})
		}
	}
}

// TestRefusedForEachSender: what the relay has against the configured sender, too, is not about one
// of SRS, and the log does not say so.
func TestRefusedForEachSender(t *testing.T) {
	for _, text := range []string{"5.3.4 too large", "5.4.5 daily quota exceeded"} {
		t.Run(text, func(t *testing.T) {
			bothWays(t, func(t *testing.T, offers []string) {
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: script(answers{"mail": say(552, text)})})
				var out strings.Builder
				r := relayOn(t, s.Port(), bySRS(t), logsTo(&out))
				res, err := forwards(t, r, bounceTo(t, "b@evil.example"))
				if got := brief(res); !strings.Contains(got, "552") || err != nil {
					t.Errorf("Send = %q, %v, want the reply", got, err)
				}
				if out.Len() > 0 {
					t.Errorf("the log is %q, want none", out.String())
				}
			})
		})
	}
}

// TestQuotedSenderOpenSMTPD: it takes no reverse-path with a quoted local part.
func TestQuotedSenderOpenSMTPD(t *testing.T) {
	r := relayOn(t, testserver.BouncingOpenSMTPD(t, sink(t, smtpsink.Options{}).Port()).Port, bySRS(t))
	res, err := forwards(t, r, bounceTo(t, `"a b"@evil.example`))
	if got := brief(res); got != "a accepted 250 2.0.0" || err != nil {
		t.Errorf("Send = %q, %v, want it accepted", got, err)
	}
}

// TestGoneAtOneSender: the relay ends at what a stranger chose. The message counts an attempt, so
// that it does not stop those behind it for ever.
func TestGoneAtOneSender(t *testing.T) {
	for name, answer := range map[string]smtpsink.Action{"421": say(421, "4.7.0 bye"), "hang-up": {Drop: true}} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, offers []string) {
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: script(answers{"mail": answer})})
				res, err := forwards(t, relayOn(t, s.Port(), bySRS(t)), bounceTo(t, `"a b"@evil.example`))
				if got := brief(res); !strings.HasPrefix(got, "a deferred") || err == nil {
					t.Errorf("Send = %q, %v, want it deferred, and the relay at fault", got, err)
				}
			})
		})
	}
}
