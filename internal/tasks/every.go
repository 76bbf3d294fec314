package tasks

import (
	"context"
	"sync"
	"time"
)

// Every calls f at each turn of the interval until ctx ends or stop is called. Stop ends the
// context of a call under way and waits for the call. It is used to renew leases.
func Every(ctx context.Context, interval time.Duration, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f(ctx)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
