package web

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// cached is an answer that is kept for a while, for all who ask. Those who ask meanwhile wait for
// the one who reads it.
type cached[T any] struct {
	log       *slog.Logger
	now       func() time.Time
	keep      time.Duration
	keepError time.Duration // in place of keep, when the answer is an error
	read      func(ctx context.Context) (T, error)

	reading singleflight.Group

	mu    sync.Mutex
	drops int       // how often the answer was dropped
	at    time.Time // of the answer; zero without one
	last  answer[T]
}

type answer[T any] struct {
	value T
	err   error
}

// get returns the answer. The reader is not stopped when the one who asked goes away: others wait
// for the same answer.
func (c *cached[T]) get(ctx context.Context) (T, error) {
	if kept, ok := c.kept(); ok {
		return kept.value, kept.err
	}
	done := c.reading.DoChan("", func() (any, error) { return c.fetch(context.WithoutCancel(ctx)), nil })
	select {
	case r := <-done:
		got := r.Val.(answer[T])
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// kept returns the answer, if it is still good.
func (c *cached[T]) kept() (answer[T], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := c.keep
	if c.last.err != nil {
		keep = c.keepError
	}
	return c.last, !c.at.IsZero() && c.now().Sub(c.at) < keep
}

func (c *cached[T]) fetch(ctx context.Context) (got answer[T]) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.mu.Lock()
	drops := c.drops
	c.mu.Unlock()
	got.value, got.err = c.guarded(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if drops == c.drops {
		c.at, c.last = c.now(), got
	}
	return got
}

// guarded reads. A panic is an error, as in a handler of net/http: this goroutine is none, and the
// process forwards mail, too.
func (c *cached[T]) guarded(ctx context.Context) (value T, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("a bug in this program, please report it: panic: %v", bug)
			c.log.Error("the status page could not be made", "error", err, "stack", string(debug.Stack()))
		}
	}()
	return c.read(ctx)
}

// drop forgets the answer, and does not keep one that is being read, because something was changed.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.at = time.Time{}
	c.reading.Forget("")
}
