package forward

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver/smtpsink"
	"postrider/internal/transcript"
)

// begin is Begin, which must accept all.
func begin(t *testing.T, r *Relay, to ...string) *Transaction {
	t.Helper()
	tx, err := r.Begin(t.Context(), Envelope{From: me, To: to}, content(t, plain))
	if err != nil || !slices.Equal(tx.Accepted(), to) {
		t.Fatalf("Begin = %v, %q accepted, want %q", err, tx.Accepted(), to)
	}
	return tx
}

// wantOver checks that nothing of a transaction is left, and that it does nothing more.
func wantOver(t *testing.T, r *Relay, tx *Transaction) {
	t.Helper()
	before := len(tx.Outcomes())
	tx.Reset()
	outcomes, err := tx.Send()
	if len(tx.Accepted()) > 0 || len(outcomes) != before || err != nil {
		t.Errorf("Send = %v, %v, accepted %q, want the transaction to be over", outcomes, err, tx.Accepted())
	}
	if n := len(r.slots); n > 0 {
		t.Errorf("%d connections in use, want none", n)
	}
}

// TestReset: no content goes out, the connection is used for the next message, and who was named
// counts.
func TestReset(t *testing.T) {
	var stages log
	s := sink(t, smtpsink.Options{Reply: stages.add})
	quota := &budget{left: 9}
	r := relayOn(t, s.Port(), func(c *Config) { c.Quota = quota })
	tx := begin(t, r, "a@x.example", "b@x.example")
	stages.want(t, "connect", "ehlo", "mail", "rcpt", "rcpt")
	tx.Reset()
	wantOver(t, r, tx)
	mustSend(t, r)
	stages.want(t, "connect", "ehlo", "mail", "rcpt", "rcpt", "rset", "mail", "rcpt", "data", "dot")
	if want := []string{"2 of 2 used 2", "1 of 1 used 1"}; !slices.Equal(quota.log, want) || quota.left != 6 {
		t.Errorf("the quota was asked %q, %d left, want %q and 6", quota.log, quota.left, want)
	}
}

// TestResetRefused: a connection that is not what it should be is not used again.
func TestResetRefused(t *testing.T) {
	s := sink(t, smtpsink.Options{Reply: script(answers{"rset": say(451, "no")})})
	r := relayOn(t, s.Port())
	tx := begin(t, r, "a@x.example")
	tx.Reset()
	wantOver(t, r, tx)
	mustSend(t, r)
	if got := s.Connections(); got != 2 {
		t.Errorf("%d connections, want a second one", got)
	}
}

// TestNobodyAccepted: the transaction is over at once, without a Reset.
func TestNobodyAccepted(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		for _, stage := range []string{"mail", "rcpt"} {
			s := sink(t, smtpsink.Options{Extensions: offers, Reply: script(answers{stage: say(451, "later")})})
			r := relayOn(t, s.Port())
			tx, err := r.Begin(t.Context(), Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
			if got := brief(result{Outcomes: tx.Outcomes()}); err != nil || got != "a deferred 451" {
				t.Errorf("%s answered 451: Begin = %q, %v, want it deferred", stage, got, err)
			}
			if n := len(r.slots); n > 0 {
				t.Errorf("%s answered 451: %d connections in use, want none", stage, n)
			}
			wantOver(t, r, tx)
		}
	})
}

// TestLostBeforeTheContent: the connection ends between Begin and Send. Nothing went out, and it is
// known that nothing did. After a 354, the recipients are left to another transaction.
func TestLostBeforeTheContent(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		if len(offers) > 0 && runtime.GOOS == "windows" {
			t.Skip("this system does not tell without a read")
		}
		s := sink(t, smtpsink.Options{Extensions: offers})
		r := relayOn(t, s.Port())
		mustSend(t, r) // on a connection that was used before, too
		tx := begin(t, r, "a@x.example", "b@x.example")
		s.Close()
		outcomes, err := tx.Send()
		want, fault, left := "a deferred 0, b deferred 0", "DATA 0 temporary", 0
		if len(offers) > 0 {
			want, fault, left = "", "", 2
		}
		if got := brief(result{Outcomes: outcomes}); got != want || briefError(err) != fault || len(tx.Rest()) != left {
			t.Errorf("Send = %q, %v, %q left; want %q, %q, %d", got, err, tx.Rest(), want, fault, left)
		}
		wantOver(t, r, tx)
	})
}

// TestSendAfterTheContext: what the relay has begun to take goes out, even if the context has
// ended.
func TestSendAfterTheContext(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		s := sink(t, smtpsink.Options{Extensions: offers})
		r := relayOn(t, s.Port())
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := r.Begin(ctx, Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		outcomes, err := tx.Send()
		got := brief(result{Outcomes: outcomes})
		if got != "a accepted 250 2.0.0" || err != nil || len(s.Messages()) != 1 {
			t.Errorf("Send = %q, %v, %d delivered, want it accepted and delivered", got, err, len(s.Messages()))
		}
		wantOver(t, r, tx)
	})
}

// endsAtReply is a log that ends a context when the reply to MAIL is read.
type endsAtReply struct {
	slog.Handler
	end      context.CancelFunc
	expected bool
}

func (h *endsAtReply) Handle(_ context.Context, line slog.Record) error {
	switch {
	case strings.Contains(line.Message, "C: MAIL FROM"):
		h.expected = true
	case h.expected:
		h.expected = false
		h.end()
	}
	return nil
}

func (h *endsAtReply) WithAttrs([]slog.Attr) slog.Handler { return h }

// TestContextEndsWithTheReply: what is done in a goroutine of its own when the context ends may be
// done after the transaction is over.
func TestContextEndsWithTheReply(t *testing.T) {
	log := &endsAtReply{Handler: slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: transcript.Level})}
	r := relayOn(t, sink(t, smtpsink.Options{}).Port(), func(c *Config) { c.Logger = slog.New(log) })
	for range 50 {
		var ctx context.Context
		ctx, log.end = context.WithCancel(t.Context())
		tx, err := r.Begin(ctx, Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Begin = %v, want the context's error", err)
		}
		wantOver(t, r, tx)
	}
}

// TestConnectionIsKept: between Begin and Send nobody else uses the connection.
func TestConnectionIsKept(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		s := sink(t, smtpsink.Options{Extensions: offers})
		r := relayOn(t, s.Port())
		tx := begin(t, r, "a@x.example")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		other, err := r.Begin(ctx, Envelope{From: me, To: []string{"b@x.example"}}, content(t, plain))
		if !errors.Is(err, context.DeadlineExceeded) || len(other.Outcomes()) > 0 {
			t.Errorf("a second Begin = %v, %v, want it to wait in vain", other.Outcomes(), err)
		}
		if outcomes, err := tx.Send(); err != nil || outcomes[0].Status != Accepted {
			t.Errorf("Send = %v, %v, want it accepted", outcomes, err)
		}
		wantOver(t, r, tx)
		if got := s.Connections(); got != 1 {
			t.Errorf("%d connections, want one", got)
		}
	})
}
