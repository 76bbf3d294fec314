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
	cfg := Config{
		Host: "127.0.0.1", Port: port, Security: "none", Connections: 1, From: "Forwarder <" + me + ">",
		Timeouts: Timeouts{Idle: time.Minute},
	}
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

// result is what deliver came to.
type result struct {
	Outcomes []Outcome
	Sent     *Content   // in the last transaction
	batches  [][]string // who was accepted, in each transaction
}

// deliver sends a message to all recipients of an envelope, in as many transactions as it takes.
func deliver(ctx context.Context, r *Relay, env Envelope, c *Content) (res result, err error) {
	for err == nil && len(env.To) > 0 {
		var tx *Transaction
		if tx, err = r.Begin(ctx, env, c); err == nil {
			res.batches = append(res.batches, tx.Accepted())
			_, err = tx.Send()
		}
		res.Outcomes, res.Sent = append(res.Outcomes, tx.Outcomes()...), tx.Content()
		env.To = tx.Rest()
	}
	return res, err
}

func send(t testing.TB, r *Relay, c *Content, to ...string) (result, error) {
	t.Helper()
	return deliver(t.Context(), r, Envelope{From: me, To: to}, c)
}

func TestSend(t *testing.T) {
	s := sink(t, smtpsink.Options{Extensions: []string{"SIZE 1000", "8BITMIME"}})
	r := relayOn(t, s.Port())
	tx, err := r.Begin(t.Context(), Envelope{From: me, To: []string{"a@x.example", "b@x.example"}}, content(t, plain))
	if err != nil {
		t.Fatal(err)
	}
	accepted := strings.Join(tx.Accepted(), " ")
	if accepted != "a@x.example b@x.example" || len(tx.Outcomes()) > 0 || len(tx.Rest()) > 0 {
		t.Errorf("accepted are %q, with the outcomes %v and %q left, want both accepted",
			accepted, tx.Outcomes(), tx.Rest())
	}
	outcomes, err := tx.Send()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Status != Accepted || o.Code != 250 || o.Enhanced != "2.0.0" || o.Reply != "accepted" {
			t.Errorf("outcome %+v, want accepted with 250, 2.0.0 and the text", o)
		}
	}
	got := s.Messages()
	if len(outcomes) != 2 || len(got) != 1 {
		t.Fatalf("%d outcomes and %d messages, want 2 and 1", len(outcomes), len(got))
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
	return (&Composer{}).traced(m, Origin{Trace: trace}, false)
}
