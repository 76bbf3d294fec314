package web

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCached: those who ask at the same time get one answer, and who gives up does not wait for it.
// A change while it is read has it read again.
func TestCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		c := cached[int32]{now: time.Now, keep: time.Minute, read: func(context.Context) (int32, error) {
			time.Sleep(time.Second)
			return reads.Add(1), nil
		}}
		want := func(n int32) {
			t.Helper()
			if got, err := c.get(t.Context()); got != n || err != nil {
				t.Errorf("got %d, %v, want %d", got, err, n)
			}
		}
		for range 3 {
			go want(1)
		}
		synctest.Wait()
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.get(gone); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gives up gets %v, want to be told so", err)
		}
		want(1)
		time.Sleep(time.Minute)
		go want(2)
		time.Sleep(time.Millisecond)
		c.drop()
		want(3)
		want(3)
	})
}

// TestCachedPanic: a panic of the reader is an error for those who ask.
func TestCachedPanic(t *testing.T) {
	c := cached[int]{
		log: slog.New(slog.DiscardHandler), now: time.Now, keep: time.Minute,
		read: func(context.Context) (int, error) { panic("out of range") },
	}
	if _, err := c.get(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: out of range") {
		t.Errorf("the error is %v, want the panic", err)
	}
}

// TestCachedError: an error is kept for a shorter time.
func TestCachedError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := cached[int]{now: time.Now, keep: time.Minute, keepError: 6 * time.Second}
		c.read = func(context.Context) (int, error) {
			reads++
			return 0, errors.New("no")
		}
		for range 3 {
			if _, err := c.get(t.Context()); err == nil {
				t.Error("there is no error")
			}
		}
		time.Sleep(6 * time.Second)
		_, _ = c.get(t.Context())
		if reads != 2 {
			t.Errorf("it was read %d times, want twice", reads)
		}
	})
}
