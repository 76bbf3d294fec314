package pass

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/limits"
)

func TestGateKeepsTheFirstFault(t *testing.T) {
	g := &gate{}
	first := errors.New("first")
	if g.fault() != nil {
		t.Error("a new gate has a fault")
	}
	if !g.fail(first) || g.fail(errors.New("second")) {
		t.Error("the first fault is news, and the second is not")
	}
	if !errors.Is(g.fault(), first) {
		t.Errorf("the fault is %v, want %v", g.fault(), first)
	}
}

// TestGateOpens: the pauses after faults of the relay grow, and begin again with the first one
// after it took a message.
func TestGateOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{now: time.Now, again: func(n int) time.Duration { return time.Duration(n) * time.Minute }}
		wantTried(t, g, 0, nil)
		down := errors.New("421")
		for i, pause := range []time.Duration{time.Minute, 2 * time.Minute} {
			g.fail(down)
			wantTried(t, g, i+1, down)
			if time.Sleep(pause - time.Second); g.fault() == nil {
				t.Errorf("the relay is tried again before %s have passed", pause)
			}
			if time.Sleep(time.Second); g.fault() != nil || g.last() == nil {
				t.Errorf("the relay is not tried again after %s, or is said to work", pause)
			}
		}
		if !g.works() || g.works() || g.last() != nil {
			t.Error("that the relay works is not news once")
		}
		wantTried(t, g, 4, nil)
		g.fail(down)
		if time.Sleep(time.Minute); g.fault() != nil {
			t.Error("the pause of a relay that worked meanwhile has grown")
		}
	})
}

// TestGateForgets: a fault that is forgotten closes the gate no more, and was one all the same.
func TestGateForgets(t *testing.T) {
	g, down := &gate{now: time.Now, again: func(int) time.Duration { return time.Hour }}, errors.New("421")
	g.fail(down)
	if g.forget(); g.last() != nil || g.fault() != nil {
		t.Errorf("the fault is still %v", g.last())
	}
	wantTried(t, g, 1, down)
	if !g.fail(down) {
		t.Error("a fault after one that was forgotten is not news")
	}
	wantTried(t, g, 2, down)
}

func wantTried(t *testing.T, g *gate, tries int, fault error) {
	t.Helper()
	if n, got := g.tried(); n != tries || !errors.Is(got, fault) {
		t.Errorf("the relay was tried %d times, the last time with %v; want %d and %v", n, got, tries, fault)
	}
}

// TestGateOfAPass: within a pass the relay is not tried again, although messages that were in
// flight arrive after its fault.
func TestGateOfAPass(t *testing.T) {
	g := &gate{now: time.Now}
	if g.works() {
		t.Error("that a relay works that was never at fault is news")
	}
	wantTried(t, g, 1, nil)
	g.fail(errors.New("421"))
	if g.works() || g.fault() == nil {
		t.Error("a message in flight opens the gate again")
	}
}

func TestGateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, why := &gate{now: time.Now}, &limits.Reached{Key: "smtp.limits.per_minute", Wait: time.Minute}
		if !g.wait(t.Context()) || g.limited() != nil {
			t.Error("a new gate has a limit")
		}
		if !g.meet(why) || g.meet(why) {
			t.Error("a limit is news once")
		}
		begun := time.Now()
		if g.wait(t.Context()) || time.Now().After(begun) {
			t.Error("it waits for a limit that holds for a minute")
		}
		time.Sleep(time.Minute - limitPatience)
		if g.limited() != why {
			t.Error("the limit is over too early")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if g.wait(ctx) {
			t.Error("it waits after its context")
		}
		if !g.wait(t.Context()) || time.Since(begun) != time.Minute || g.limited() != nil {
			t.Errorf("waited until %s after it was met, want until the limit is over", time.Since(begun))
		}
		if !g.meet(why) {
			t.Error("a limit that was over and is met again is news")
		}
	})
}
