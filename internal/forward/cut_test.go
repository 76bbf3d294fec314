package forward

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrustedAgain: after a while commands are sent together again, because the end of a connection
// may have been chance.
func TestTrustedAgain(t *testing.T) {
	group, alone := []string{"MAIL RCPT DATA"}, []string{"MAIL", "RCPT", "DATA", "."}
	groups := 0
	p := newPuppet(t, func(commands []string) []string {
		if len(commands) > 1 {
			groups++
		}
		if groups == 1 && len(commands) > 1 {
			return []string{closes}
		}
		return nil
	})
	r := p.relay(t, &strings.Builder{})
	mustSend(t, r)
	mustSend(t, r)
	long := time.Now().Add(-distrustFor)
	r.distrusted.Store(&long)
	mustSend(t, r)
	if got, want := p.heard(), slices.Concat(group, alone, alone, group, []string{"."}); !slices.Equal(got, want) {
		t.Errorf("the relay heard %q, want %q", got, want)
	}
}

// TestAfter354: the relay closes the connection, or sends one reply too many, when it has invited
// the content of a group and got nothing yet. Nothing has gone out: the recipients are left to
// another transaction, and each gets the message once.
func TestAfter354(t *testing.T) {
	group, alone := []string{group4}, []string{"MAIL", "RCPT", "RCPT", "DATA", "."}
	if runtime.GOOS == "windows" {
		t.Skip("this system does not tell without a read")
	}
	for name, then := range map[string]func(net.Conn){
		"closes":             func(c net.Conn) { _ = c.Close() },
		"one reply too many": func(c net.Conn) { writeWhole(c, "250 ok\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			begun, done := make(chan struct{}), make(chan struct{})
			together := false
			p := newPuppet(t, func(commands []string) []string {
				together = len(commands) > 1
				return nil
			})
			p.write = func(c net.Conn, s string) {
				writeWhole(c, s)
				if together && strings.HasPrefix(s, "354") {
					<-begun
					then(c)
					done <- struct{}{}
				}
			}
			var log strings.Builder
			r := p.relay(t, &log)
			to := []string{"a@x.example", "b@x.example"}
			tx := begin(t, r, to...)
			begun <- struct{}{}
			<-done
			if outcomes, err := tx.Send(); len(outcomes) > 0 || err != nil || !slices.Equal(tx.Rest(), to) {
				t.Fatalf("Send = %v, %v, %q are left, want both left, without an error", outcomes, err, tx.Rest())
			}
			wantOver(t, r, tx)
			wantDistrust(t, log.String())
			res, err := send(t, r, content(t, plain), to...)
			if got := brief(res); got != both || err != nil || len(p.messages()) != 1 {
				t.Errorf("Send = %q, %v, %d messages, want both accepted, and one", got, err, len(p.messages()))
			}
			if got, want := p.heard(), slices.Concat(group, alone); !slices.Equal(got, want) {
				t.Errorf("the relay heard %q, want %q", got, want)
			}
		})
	}
}

// TestCutInTime: the time for a pass is over before the relay is given up. A relay that did not
// answer what came together is named, and the message counts an attempt. A connection that was
// closed here says nothing about the relay.
func TestCutInTime(t *testing.T) {
	for name, tt := range map[string]struct{ replies, want, fault string }{
		"reads MAIL alone": {"250 ok", "a deferred 0, b deferred 0", "RCPT 0 temporary"},
		"reads nothing":    {"", "", "not an *Error: send to the relay"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPuppet(t, inGroup(tt.replies))
			synctest.Test(t, func(t *testing.T) {
				r := p.relay(t, &strings.Builder{})
				pool(t, r, p.pipe())
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				e := Envelope{From: me, To: []string{"a@x.example", "b@x.example"}}
				res, err := deliver(ctx, r, e, content(t, plain))
				if got := brief(res); got != tt.want || !strings.HasPrefix(briefError(err), tt.fault) {
					t.Errorf("Send = %q, %v, want %q, %q", got, err, tt.want, tt.fault)
				}
			})
		})
	}
}
