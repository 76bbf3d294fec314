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
