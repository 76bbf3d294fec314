package forward

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"postrider/internal/message"
	"postrider/internal/testserver/smtpsink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	me    = "forwarder@example.com"
	plain = "From: a@x.example\r\nSubject: hello\r\n\r\n.one\r\n..two\r\n.\r\nend\r\n"
)

func parse(t testing.TB, raw string) *message.Message {
	t.Helper()
	b := (&message.Spooler{Limit: 1 << 20, Budget: 64 << 20, Dir: t.TempDir()}).New()
	if _, err := io.Copy(b, strings.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func content(t testing.TB, raw string) *Content {
	return redirected(parse(t, raw), Trace{Inbox: "in@x.example", TaskID: 7})
}

func sink(t testing.TB, opts smtpsink.Options) *smtpsink.Server {
	t.Helper()
	opts.KeepData = true
	s, err := smtpsink.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// relayOn is a relay on port with short timeouts, changed by the given functions.
func relayOn(t testing.TB, port int, change ...func(*Config)) *Relay {
	t.Helper()
	cfg := Config{Host: "127.0.0.1", Port: port, Security: "none", Connections: 1, From: "Forwarder <" + me + ">", Timeouts: Timeouts{Idle: time.Minute}}
	for _, f := range change {
		f(&cfg)
	}
	r, err := NewRelay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func proceed(context.Context, Result, []string) error { return nil }

func send(t testing.TB, r *Relay, c *Content, to ...string) (Result, error) {
	t.Helper()
	return r.Send(t.Context(), Envelope{From: me, To: to}, c, proceed)
}

func TestSend(t *testing.T) {
	s := sink(t, smtpsink.Options{Extensions: []string{"SIZE 1000", "8BITMIME"}})
	r := relayOn(t, s.Port())
	var told []string
	env := Envelope{From: me, To: []string{"a@x.example", "b@x.example"}}
	res, err := r.Send(t.Context(), env, content(t, plain), func(_ context.Context, _ Result, accepted []string) error {
		if n := len(s.Messages()); n != 0 {
			t.Errorf("beforeDot is called with %d messages delivered, want none", n)
		}
		told = accepted
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(told, " "); got != "a@x.example b@x.example" {
		t.Errorf("beforeDot was told of %q, want both recipients", got)
	}
	for _, o := range res.Outcomes {
		if o.Status != Accepted || o.Code != 250 || o.Enhanced != "2.0.0" || o.Reply != "accepted" {
			t.Errorf("outcome %+v, want accepted with 250, 2.0.0 and the text", o)
		}
	}
	got := s.Messages()
	if len(res.Outcomes) != 2 || len(got) != 1 {
		t.Fatalf("%d outcomes and %d messages, want 2 and 1", len(res.Outcomes), len(got))
	}
	want := "X-Postrider-Trace: " + token("in@x.example") + "; task=7\r\n" + plain
	if string(got[0].Data) != want {
		t.Errorf("sent %q, want %q", got[0].Data, want)
	}
	if p := strings.Join(got[0].Params, " "); p != "SIZE=107" || got[0].Size != 107 {
		t.Errorf("MAIL had %q and %d octets came, want 107 for both", p, got[0].Size)
	}
}

func redirected(m *message.Message, trace Trace) *Content {
	return (&Composer{}).redirect(m, Origin{Trace: trace}, false)
}
