package web

import (
	"context"
	"sync"
	"time"
)

// cached is an answer that is kept for a while, for all who ask. Those who ask meanwhile wait for
// the one who reads it.
type cached[T any] struct {
	now  func() time.Time
	keep time.Duration
	read func(ctx context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// get returns the answer. The reader is not stopped when the one who asked goes away: others wait
// for the same answer.
func (c *cached[T]) get(ctx context.Context) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || c.now().Sub(c.at) >= c.keep || c.err != nil && ctx.Err() == nil && c.now().Sub(c.at) >= c.keep/10 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		c.value, c.err = c.read(ctx)
		c.at = c.now()
	}
	return c.value, c.err
}

// drop forgets the answer, because something was changed.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}
