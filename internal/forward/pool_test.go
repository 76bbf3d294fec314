package forward

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// eventually waits for a condition that nothing signals.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited 10 seconds for: %s", what)
		case <-tick.C:
		}
	}
}

func (r *Relay) idleConns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.idle)
}

// log is the stages that a relay saw.
type log struct {
	mu     sync.Mutex
	stages []string
}

func (l *log) add(e smtpsink.Event) smtpsink.Action {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stages = append(l.stages, e.Stage)
	return smtpsink.Action{}
}

func (l *log) want(t *testing.T, stages ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.stages, stages) {
		t.Errorf("the relay saw %v, want %v", l.stages, stages)
	}
}

// TestPoolLimit: many senders, and never more than three connections; all three are used at once,
// and kept.
func TestPoolLimit(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var atDot atomic.Int32
		full := make(chan struct{})
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
			if e.Stage != "dot" {
				return smtpsink.Action{}
			}
			if atDot.Add(1) == 3 {
				close(full)
			}
			return smtpsink.Action{Block: full}
		}})
		r := relayOn(t, s.Port(), func(c *Config) { c.Connections = 3 })
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				res, err := send(t, r, content(t, plain), "a@x.example")
				if err != nil || res.Outcomes[0].Status != Accepted {
					t.Errorf("Send = %v, %v, want accepted", res, err)
				}
			})
		}
		wg.Wait()
		if n, at, c := len(s.Messages()), s.MaxConcurrent(), s.Connections(); n != 50 || at != 3 || c != 3 {
			t.Errorf("%d messages over %d connections, %d at a time, want 50, 3 and 3", n, c, at)
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	quit := make(chan struct{}, 1)
	s := sink(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "quit" {
			quit <- struct{}{}
		}
		return smtpsink.Action{}
	}})
	r := relayOn(t, s.Port(), func(c *Config) { c.Timeouts.Idle = time.Millisecond })
	mustSend(t, r)
	<-quit
	eventually(t, "no idle connection", func() bool { return r.idleConns() == 0 && len(r.slots) == 0 })
	mustSend(t, r)
	if got := s.Connections(); got != 2 {
		t.Errorf("%d connections, want a second one", got)
	}
}

func TestCloseSaysGoodbye(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var stages log
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: stages.add})
		r := relayOn(t, s.Port())
		mustSend(t, r)
		mustSend(t, r)
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		stages.want(t, "connect", "ehlo", "mail", "rcpt", "data", "dot", "mail", "rcpt", "data", "dot", "quit")
		if _, err := send(t, r, content(t, plain), "a@x.example"); !errors.Is(err, errClosed) {
			t.Errorf("Send after Close = %v, want %v", err, errClosed)
		}
		if err := r.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// TestResetAfterAnUnfinishedTransaction: the relay is strict about a MAIL in a transaction.
func TestResetAfterAnUnfinishedTransaction(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: script(answers{"rcpt a@x.example": say(550, "no")})})
		r := relayOn(t, s.Port())
		if res, err := send(t, r, content(t, plain), "a@x.example"); err != nil || res.Outcomes[0].Status != Refused {
			t.Fatalf("Send = %v, %v, want refused", res, err)
		}
		mustSend(t, r)
		if got := s.Connections(); got != 1 {
			t.Errorf("%d connections, want one, used for both messages", got)
		}
	})
}

// TestDeadConnectionsAreReplaced: all connections of the pool are dead, and no message is the worse
// for it.
func TestDeadConnectionsAreReplaced(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		for name, end := range map[string]smtpsink.Action{"dropped": drop, "421": say(421, "idle for too long")} {
			t.Run(name, func(t *testing.T) {
				var old atomic.Int32
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
					if e.Stage == "mail" && e.Conn <= int(old.Load()) {
						return end
					}
					return smtpsink.Action{}
				}})
				r := relayOn(t, s.Port())
				mustSend(t, r)
				old.Store(1)
				res, err := send(t, r, content(t, plain), "a@x.example")
				connections, messages := s.Connections(), len(s.Messages())
				if err != nil || brief(res) != "a accepted 250 2.0.0" || connections != 2 || messages != 2 {
					t.Errorf("Send = %q, %v, %d connections, %d messages, want it accepted once on the second",
						brief(res), err, connections, messages)
				}
			})
		}
	})
}

// TestMessagesPerConnection: a relay that takes only so many messages on one connection, and keeps
// it open, gets the next one on a new connection. What it refuses there, too, is deferred.
func TestMessagesPerConnection(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		var full atomic.Bool
		var taken [10]atomic.Int32 // on each connection
		s := sink(t, smtpsink.Options{Extensions: offers, Reply: func(e smtpsink.Event) smtpsink.Action {
			switch {
			case e.Stage == "dot":
				taken[e.Conn].Add(1)
			case e.Stage == "mail" && (taken[e.Conn].Load() == 2 || full.Load()):
				return say(452, "4.5.3 Too many recipients: Too many messages sent")
			}
			return smtpsink.Action{}
		}})
		r := relayOn(t, s.Port())
		for range 5 {
			mustSend(t, r)
		}
		if got := s.Connections(); got != 3 {
			t.Errorf("%d connections for five messages, want one for each two", got)
		}
		full.Store(true)
		for range 3 {
			res, err := send(t, r, content(t, plain), "a@x.example")
			if err != nil || brief(res) != "a deferred 452 4.5.3" {
				t.Errorf("Send = %q, %v, want it deferred", brief(res), err)
			}
		}
		if got := s.Connections(); got != 4 {
			t.Errorf("%d connections, want one more, and none for each message that is refused on it", got)
		}
	})
}

// TestEHLORefusedForNow: it says nothing about what the relay offers, so no message goes out by
// HELO.
func TestEHLORefusedForNow(t *testing.T) {
	s := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME"}, Reply: func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "ehlo" && e.N == 1 {
			return say(451, "4.3.0 try again later")
		}
		return smtpsink.Action{}
	}})
	r := relayOn(t, s.Port())
	res, err := send(t, r, content(t, plain), "a@x.example")
	if briefError(err) != "EHLO 451 temporary" || len(res.Outcomes) > 0 {
		t.Errorf("Send = %+v, %v, want the reply to EHLO, which is temporary", res.Outcomes, err)
	}
	mustSend(t, r)
}

// TestMessagesPerConnectionOpenSMTPD: it takes 100 messages on one connection.
func TestMessagesPerConnectionOpenSMTPD(t *testing.T) {
	r := relayOn(t, testserver.BouncingOpenSMTPD(t, sink(t, smtpsink.Options{}).Port()).Port)
	for i := range 101 {
		res, err := send(t, r, content(t, plain), "a@other.example")
		if err != nil || brief(res) != "a accepted 250 2.0.0" {
			t.Fatalf("message %d: %q, %v, want it accepted", i+1, brief(res), err)
		}
	}
}

// TestInfoStaysWithinTheLimit: asking a relay whose only connection is idle closes that one first.
func TestInfoStaysWithinTheLimit(t *testing.T) {
	var stages log
	s := sink(t, smtpsink.Options{Extensions: []string{"SIZE 1000000", "8BITMIME", "SMTPUTF8"}, Reply: stages.add})
	r := relayOn(t, s.Port())
	mustSend(t, r)
	info, err := r.Info(t.Context(), nil)
	want := Info{Relay: s.Addr(), Sender: me, MaxSize: 1000000, UTF8: true}
	if err != nil || !reflect.DeepEqual(info, want) {
		t.Errorf("Info = %+v, %v, want %+v", info, err, want)
	}
	stages.want(t, "connect", "ehlo", "mail", "rcpt", "data", "dot", "quit",
		"connect", "ehlo", "mail", "rset", "mail", "quit")
}

// TestIdleConnectionCountsUntilItIsClosed: while the relay is slow to say goodbye, there is no
// second connection.
func TestIdleConnectionCountsUntilItIsClosed(t *testing.T) {
	quit, hang := make(chan struct{}), make(chan struct{})
	s := sink(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "quit" && e.N == 1 {
			close(quit)
			return smtpsink.Action{Block: hang}
		}
		return smtpsink.Action{}
	}})
	r := relayOn(t, s.Port(), func(c *Config) { c.Timeouts.Idle = time.Millisecond })
	mustSend(t, r)
	<-quit
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := deliver(ctx, r, Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
	if !errors.Is(err, context.DeadlineExceeded) || s.Connections() != 1 {
		t.Errorf("Send = %v, %d connections, want it to wait, and one", err, s.Connections())
	}
	close(hang)
	eventually(t, "no idle connection", func() bool { return r.idleConns() == 0 && len(r.slots) == 0 })
}

func TestCancel(t *testing.T) {
	bothWays(t, func(t *testing.T, offers []string) {
		for _, stage := range []string{"connect", "ehlo", "mail"} {
			t.Run("while the relay thinks about "+stage, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				hang := make(chan struct{})
				reply := onceAt(stage, cancel, smtpsink.Action{Block: hang, Drop: true})
				s := sink(t, smtpsink.Options{Extensions: offers, Reply: reply})
				r := relayOn(t, s.Port())
				res, err := deliver(ctx, r, Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
				close(hang)
				if !errors.Is(err, context.Canceled) || len(res.Outcomes) > 0 || len(s.Messages()) > 0 {
					t.Errorf("Send = %q, %v, %d delivered, want the context's error and nothing delivered",
						brief(res), err, len(s.Messages()))
				}
				mustSend(t, r)
			})
		}
	})
}

// onceAt does something the first time that a stage is reached, and answers with action then.
func onceAt(stage string, do func(), action smtpsink.Action) func(smtpsink.Event) smtpsink.Action {
	var once sync.Once
	return func(e smtpsink.Event) (answer smtpsink.Action) {
		if e.Stage == stage {
			once.Do(func() {
				do()
				answer = action
			})
		}
		return answer
	}
}

// TestOnTheWire ends the context once the relay has taken MAIL: the message is delivered all the
// same.
func TestOnTheWire(t *testing.T) {
	for _, stage := range []string{"rcpt", "data", "dot"} {
		t.Run("while the relay thinks about "+stage, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := sink(t, smtpsink.Options{Reply: onceAt(stage, cancel, smtpsink.Action{})})
			r := relayOn(t, s.Port())
			res, err := deliver(ctx, r, Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
			if err != nil || brief(res) != "a accepted 250 2.0.0" || len(s.Messages()) != 1 {
				t.Errorf("Send = %q, %v, %d delivered, want it accepted and delivered",
					brief(res), err, len(s.Messages()))
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	s := sink(t, smtpsink.Options{})
	r := relayOn(t, s.Port())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := deliver(ctx, r, Envelope{From: me, To: []string{"a@x.example"}}, content(t, plain))
	if !errors.Is(err, context.Canceled) || s.Connections() != 0 {
		t.Errorf("Send = %v, %d connections, want the context's error and none", err, s.Connections())
	}
	if _, err := r.Info(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Info = %v, want the context's error", err)
	}
}
