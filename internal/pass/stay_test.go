package pass

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// stay begins a process that stays up and holds boxA. Both end with the test.
func (s *site) stay() (*Process, *Held, context.Context) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	pr := s.pass.Stay(ctx, func(n int) time.Duration { return time.Duration(n) * time.Minute }, nil)
	h := pr.Hold(s.inboxes([]string{boxA})[0])
	s.t.Cleanup(func() {
		cancel()
		pr.End()
		h.Close()
	})
	return pr, h, ctx
}

// visit visits the inbox, and waits until what is due is delivered.
func (s *site) visit(ctx context.Context, h *Held) {
	s.t.Helper()
	busy, err := h.Visit(ctx)
	check(s.t, err)
	if busy != nil {
		s.t.Fatalf("the inbox is busy: %+v", busy)
	}
	synctest.Wait()
}

// TestStay: visit after visit goes over one connection, and each sends what has arrived.
func TestStay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.put("one")
		s.visit(ctx, h)
		s.wantSent("one")
		s.wantAwait(ctx, h, false, time.Hour)
		time.AfterFunc(time.Minute, func() { s.put("two") })
		s.wantAwait(ctx, h, true, time.Minute)
		s.visit(ctx, h)
		s.wantSent("one", "two")
		if dials, _ := s.servers[boxA].counts(); dials != 1 || !h.Ready() {
			t.Errorf("%d connections, ready is %v; want one, and that it is", dials, h.Ready())
		}
		if got := h.tally.report().Counters; got.Registered != 2 || got.Forwarded != 2 {
			t.Errorf("the totals are %+v, want two registered and forwarded", got)
		}
	})
}

// TestStayBesideARelayThatHangs: a message that the relay does not answer holds up no later one.
func TestStayBesideARelayThatHangs(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		release := make(chan struct{})
		s.relay.onSend = func(subject string) error {
			if subject == "one" {
				<-release
			}
			return nil
		}
		s.put("one")
		s.visit(ctx, h)
		s.put("two")
		s.visit(ctx, h)
		s.wantSent("two")
		close(release)
		synctest.Wait()
		s.wantSent("one", "two")
	})
}

// TestStayInThePlaceOfAnother: what the process before still sends is not claimed, even if its
// lease has run out meanwhile.
func TestStayInThePlaceOfAnother(t *testing.T) {
	for name, hang := range map[string]func(r *fakeRelay, until chan struct{}){
		"sending": func(r *fakeRelay, until chan struct{}) { r.onSend = func(string) error { <-until; return nil } },
		"not claimed": func(r *fakeRelay, until chan struct{}) {
			r.onBegin = func(context.Context, string) error { <-until; return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.queue.hook = s.queue.away("Extend", 0)
				before, h, ctx := s.stay()
				release := make(chan struct{})
				hang(s.relay, release)
				s.put("one")
				s.visit(ctx, h)
				time.Sleep(2 * s.pass.Config.Lease)
				pr := s.pass.Stay(ctx, nil, before)
				next := pr.Hold(s.inboxes([]string{boxA})[0])
				next.Deliver(ctx)
				synctest.Wait()
				if at := s.relay.atRelay(); len(at) != 1 {
					t.Errorf("at the relay are %q, want one message, once", at)
				}
				close(release)
				synctest.Wait()
				s.wantSent("one")
				pr.End()
				next.Close()
			})
		})
	}
}

// TestStayLost: a connection that is lost while it waits is opened again by the next visit, and by
// nobody else.
func TestStayLost(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.visit(ctx, h)
		s.servers[boxA].hook = failAt("idle", errNetwork)
		for range 2 {
			if err := h.Await(ctx, anHour); err == nil || !OfInbox(err) {
				t.Errorf("Await = %v, want the error of a lost connection", err)
			}
		}
		if h.Connected() {
			t.Error("a connection that was lost is connected")
		}
		s.visit(ctx, h)
		s.wantDials(2)
	})
}

// TestStayEndedByServer: a connection that the server ends because of a limit is not opened again
// at once, neither while it waits nor during a visit. The next visit does.
func TestStayEndedByServer(t *testing.T) {
	for _, at := range []string{"idle", "fetch", "describe"} {
		t.Run(at, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				_, h, ctx := s.stay()
				s.visit(ctx, h)
				s.put("one")
				over := &imapsrc.Error{Kind: imapsrc.KindLimit, Ended: true, Err: errors.New("BYE [OVERQUOTA]")}
				s.servers[boxA].hook = failAt(at, over)
				meets := func() error { _, err := h.Visit(ctx); return err }
				if at == "idle" {
					meets = func() error { return h.Await(ctx, anHour) }
				}
				if err := meets(); !errors.Is(err, over) || !OfInbox(err) {
					t.Errorf("the error is %v, want %v", err, over)
				}
				if h.Deliver(ctx); at == "idle" {
					if err := meets(); !errors.Is(err, over) {
						t.Errorf("the error without a connection is %v, want %v", err, over)
					}
				}
				synctest.Wait()
				if dials, _ := s.servers[boxA].counts(); dials != 1 || h.Connected() {
					t.Errorf("%d connections, connected is %v; want one, which is over", dials, h.Connected())
				}
				s.servers[boxA].hook = nil
				s.visit(ctx, h)
				s.wantSent("one")
				s.wantDials(2)
			})
		})
	}
}

// TestStayTriesAgain: a server that could not be reached is tried again by each visit.
func TestStayTriesAgain(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		down := true
		s.servers[boxA].hook = func(_ context.Context, op string, _ uint32) error {
			if op == "dial" && down {
				return errNetwork
			}
			return nil
		}
		s.put("one")
		for range 3 {
			if _, err := h.Visit(ctx); !errors.Is(err, errNetwork) || !OfInbox(err) {
				t.Errorf("Visit = %v, want %v", err, errNetwork)
			}
		}
		down = false
		s.visit(ctx, h)
		s.wantSent("one")
	})
}

// TestStayRelay: a relay that is at fault is tried again after a pause, and both ends are said
// once.
func TestStayRelay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		pr, h, ctx := s.stay()
		s.relay.onBegin = func(context.Context, string) error { return errRelay }
		s.put("one", "two")
		s.visit(ctx, h)
		for range 2 {
			if pr.RelayFault() == nil {
				t.Error("the relay is at fault: RelayFault is nil")
			}
			h.Deliver(ctx)
			synctest.Wait()
			time.Sleep(2 * time.Minute)
		}
		s.want("one received 0", "two received 0")
		s.relay.onBegin = nil
		h.Deliver(ctx)
		synctest.Wait()
		s.wantSent("one", "two")
		for _, line := range []string{"the relay failed: messages wait", "the relay takes messages again"} {
			if n := strings.Count(s.log.String(), line); n != 1 {
				t.Errorf("the log says %d times %q, want once", n, line)
			}
		}
	})
}

// TestStayDatabase: a deliverer that the database stopped begins again at the next occasion.
func TestStayDatabase(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.queue.hook = s.queue.away("Next", 0)
		s.put("one", "two", "three")
		s.visit(ctx, h)
		s.wantLog("the deliverer stopped", errAway.Error())
		if OfInbox(errAway) {
			t.Error("an error of the database counts as one of an inbox")
		}
		s.queue.hook = nil
		h.Deliver(ctx)
		synctest.Wait()
		s.wantSent("one", "two", "three")
	})
}

// TestStaySaysOnceWhatWaits: while the inbox cannot be read, its message is tried again and again.
// A warning says so once, and again when that was over. That the server takes no second connection
// in between does not end it.
func TestStaySaysOnceWhatWaits(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.visit(ctx, h)
		for n, subject := range []string{"one", "two"} {
			s.registered(boxA, subject)
			for _, kind := range []imapsrc.Kind{imapsrc.KindAuth, imapsrc.KindLimit, imapsrc.KindAuth} {
				ended := &imapsrc.Error{Kind: kind, Ended: true, Err: errors.New("BYE")}
				s.servers[boxA].hook = failAt("fetch", ended)
				time.Sleep(time.Hour)
				check(t, h.session.begin(ctx, h.dial))
				h.Deliver(ctx)
				synctest.Wait()
			}
			if got := strings.Count(s.log.String(), "level=WARN msg=\"messages wait until"); got != n+1 {
				t.Errorf("%d warnings say that messages wait, want %d", got, n+1)
			}
			s.servers[boxA].hook = nil
			time.Sleep(time.Hour)
			s.visit(ctx, h)
		}
		s.wantSent("one", "two")
	})
}

// TestStayNewsOfAFailure: what is registered while a deliverer fails waits for no other occasion.
func TestStayNewsOfAFailure(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		s.queue.hook = func(method string, _ int64) error {
			if method != "Receive" {
				return nil
			}
			s.queue.hook = nil
			h.Deliver(ctx)
			return errAway
		}
		s.registered(boxA, "one")
		h.Deliver(ctx)
		synctest.Wait()
		s.wantLog("the deliverer stopped", errAway.Error())
		s.wantSent("one")
	})
}

// TestStayScans while the relay hangs, and what comes then is delivered by the deliverer that is at
// work.
func TestStayScans(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, h, ctx := s.stay()
		hang := make(chan struct{})
		s.relay.onSend = func(string) error { <-hang; return nil }
		for _, subject := range []string{"one", "two", "three", "four"} {
			s.put(subject)
			s.visit(ctx, h)
		}
		if n := len(s.tasks()); n != 4 {
			t.Errorf("%d messages are registered while the relay hangs, want 4", n)
		}
		close(hang)
		synctest.Wait()
		s.wantSent("one", "two", "three", "four")
	})
}

// TestAdopt: a changed configuration costs no connection, and the old deliverer finishes.
func TestAdopt(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, old, ctx := s.stay()
		s.put("one")
		s.visit(ctx, old)
		pr := s.pass.Stay(ctx, nil, nil)
		h := pr.Hold(old.in)
		h.Adopt(old)
		old.Close()
		if !h.Ready() {
			t.Error("an adopted connection is not ready")
		}
		s.put("two")
		s.wantAwait(ctx, h, true, 0)
		s.visit(ctx, h)
		s.wantSent("one", "two")
		s.wantDials(1)
		pr.End()
		h.Close()
	})
}

// TestAdoptedIsDialledAgain: when an adopted connection breaks, the configuration in force says how
// to connect again: what the old one needs for that is closed.
func TestAdoptedIsDialledAgain(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		_, old, ctx := s.stay()
		s.visit(ctx, old)
		next, dials := *s.pass, 0
		next.Dial = func(ctx context.Context, in inbox.Inbox) (Source, error) {
			dials++
			return s.pass.Dial(ctx, in)
		}
		pr := next.Stay(ctx, nil, nil)
		h := pr.Hold(old.in)
		h.Adopt(old)
		old.Close()
		s.registered(boxA, "one")
		broken := false
		s.servers[boxA].hook = func(_ context.Context, op string, _ uint32) error {
			if op == "fetch" && !broken {
				broken = true
				return errNetwork
			}
			return nil
		}
		h.Deliver(ctx)
		pr.End()
		h.Close()
		s.wantSent("one")
		if dials != 1 {
			t.Errorf("the new configuration was used for %d connections, want 1", dials)
		}
	})
}

// TestStayStops: when its context ends, what is on the wire is finished and the rest is released.
func TestStayStops(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancel(t.Context())
		pr := s.pass.Stay(ctx, nil, nil)
		h := pr.Hold(s.inboxes([]string{boxA})[0])
		s.relay.onSend = func(string) error { cancel(); time.Sleep(time.Minute); return nil }
		s.put("one", "two", "three", "four", "five")
		_, _ = h.Visit(ctx) // interrupted
		pr.End()
		h.Close()
		if n := len(s.relay.subjects()); n == 0 || n > 2 {
			t.Errorf("%d messages were sent, want those that were on the wire: two at most", n)
		}
		for _, one := range s.tasks() {
			if one.Status == "in_progress" {
				t.Errorf("the task of %q is still claimed", one.Identity.Subject)
			}
		}
		if err := h.Await(ctx, anHour); err != nil {
			t.Errorf("Await with an ended context = %v; want no error", err)
		}
	})
}
