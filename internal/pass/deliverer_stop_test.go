package pass

import (
	"context"
	"testing"
	"testing/synctest"
)

// stopped runs a pass over inboxes, stops it once all wait, and then lets go of what release holds.
func (s *site) stopped(release func(), addrs ...string) Report {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := s.start(ctx, addrs...)
	synctest.Wait()
	cancel()
	synctest.Wait()
	if release != nil {
		release()
	}
	rep := s.end(done)
	if !rep.Interrupted {
		s.t.Error("the report does not say that the pass was interrupted")
	}
	s.wantNoError(rep)
	return rep
}

// TestStopAtTheRelay: what is there is finished and recorded, what is due behind it stays.
func TestStopAtTheRelay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		c := make(chan struct{})
		s.relay.onSend = func(string) error { <-c; return nil }
		s.stopped(func() { close(c) })
		s.want("one forwarded 1", "two forwarded 1", "three received 0")
		s.wantSent("one", "two")
	})
}

// TestStopBeforeTheRelayTookTheSender: the attempt does not count.
func TestStopBeforeTheRelayTookTheSender(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three")
		s.relay.onBegin = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		s.stopped(nil)
		s.want("one received 0", "two received 0", "three received 0")
		s.wantSent()
	})
}

// TestStopWhileBodiesAreFetched: the claims are released in their old place.
func TestStopWhileBodiesAreFetched(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		before := s.task("one").VisibleAt
		s.servers[boxA].hook = onFetch(func(ctx context.Context, _ uint32) error { <-ctx.Done(); return nil })
		s.stopped(nil)
		s.want("one received 0", "two received 0", "three received 0")
		if after := s.task("one").VisibleAt; !after.Equal(*before) {
			t.Errorf("it is due at %s, want its old place, %s", after, before)
		}
	})
}

// TestStopBetweenClaimAndRelay: what has its body already does not go out any more.
func TestStopBetweenClaimAndRelay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two")
		ctx, cancel := context.WithCancel(t.Context())
		s.servers[boxA].hook = onFetch(func(_ context.Context, uid uint32) error {
			if uid == 2 {
				cancel()
			}
			return nil
		})
		s.wantNoError(s.end(s.start(ctx)))
		s.want("one received 0", "two received 0")
		s.wantSent()
	})
}

// TestStopWhileAnotherHasTheSession: the deliverer waits for the scanner's fetch.
func TestStopWhileAnotherHasTheSession(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two")
		s.put("new")
		searches := make(chan struct{})
		s.servers[boxA].hook = func(ctx context.Context, op string, _ uint32) error {
			if op == "search" {
				close(searches)
				<-ctx.Done()
			}
			return nil
		}
		s.queue.hook = func(method string, _ int64) error {
			if method == "Next" {
				<-searches
			}
			return nil
		}
		s.stopped(nil)
		s.want("one received 0", "two received 0")
	})
}

// TestStopWhileAnotherInboxHasTheSlots: nothing is claimed, and what has the slots is finished.
func TestStopWhileAnotherInboxHasTheSlots(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxB, "b1", "b2")
		c := make(chan struct{})
		s.relay.onSend = func(string) error { <-c; return nil }
		s.put("a1", "a2")
		s.queue.hook = s.holdUp(boxA, "Register", "b1", "b2")
		s.stopped(func() { close(c) }, boxA, boxB)
		s.want("b1 forwarded 1", "b2 forwarded 1", "a1 received 0", "a2 received 0")
	})
}

// TestStopWhileTheScannerWaitsForRoom: it does not wait for the relay.
func TestStopWhileTheScannerWaitsForRoom(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		c := make(chan struct{})
		s.relay.onSend = func(string) error { <-c; return nil }
		s.put("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
		rep := s.stopped(func() { close(c) })
		if n := rep.Totals; n.Registered+n.Backlog != 10 || n.Registered == 10 || n.Forwarded != 2 {
			t.Errorf("the pass reports %+v, want that some of ten were registered, "+
				"the others are its backlog, and 2 forwarded", n)
		}
		s.relay.onSend = nil
		s.wantNoError(s.run())
		s.wantSent("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	})
}

// TestStopWhileASuspectWaits for what is at the relay.
func TestStopWhileASuspectWaits(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "suspect")
		s.crashed(boxA)
		s.registered(boxB, "busy")
		c := make(chan struct{})
		s.relay.onSend = func(string) error { <-c; return nil }
		s.queue.hook = s.holdUp(boxA, "Next", "busy")
		s.stopped(func() { close(c) }, boxA, boxB)
		s.want("suspect received 1", "busy forwarded 1")
	})
}

// TestStopBeforeItBegins: nothing is done, not even a connection.
func TestStopBeforeItBegins(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan Report, 1)
		in := s.boxes.rows[:1]
		cancel()
		go func() { done <- s.pass.Run(ctx, in) }()
		s.wantNoError(s.end(done))
		s.want("one received 0")
		wantCounted(t, s.servers[boxA], 1, 1)
	})
}
