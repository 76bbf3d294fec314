package watch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// TestDialsInLine: who waits for a server that cannot be reached has its scan lease, and does not
// wait for long.
func TestDialsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		first := true
		d := NewDials(8, 1).Through(func(context.Context, inbox.Inbox) (pass.Source, error) {
			if first {
				first = false
				return nil, errNetwork
			}
			<-release
			return nil, errNetwork
		})
		_, _ = d(t.Context(), inbox.Inbox{Host: "silent"})
		go func() { _, _ = d(t.Context(), inbox.Inbox{Host: "silent"}) }()
		synctest.Wait()
		began := time.Now()
		_, err := d(t.Context(), inbox.Inbox{Host: "silent"})
		if !errors.Is(err, errNetwork) || time.Since(began) != lineTime {
			t.Errorf("who waits in line gets %v after %s, want what the others met after %s",
				err, time.Since(began), lineTime)
		}
		close(release)
		synctest.Wait()
	})
}

// TestDialsAfterFailure: once a server was reached again, even if it refused that login, the others
// wait for their turn as long as it takes. The case of its name makes it no other server.
func TestDialsAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan error, 2)
		d := NewDials(8, 1).Through(func(context.Context, inbox.Inbox) (pass.Source, error) {
			time.Sleep(2 * lineTime)
			return nil, <-answers
		})
		answers <- errNetwork
		_, _ = d(t.Context(), inbox.Inbox{Host: "slow"})
		answers <- errAuth
		_, _ = d(t.Context(), inbox.Inbox{Host: "slow"})
		var both sync.WaitGroup
		began := time.Now()
		for _, host := range []string{"slow", "SLOW"} {
			answers <- nil
			both.Go(func() {
				if _, err := d(t.Context(), inbox.Inbox{Host: host}); err != nil {
					t.Errorf("%s is not tried after the server was reached: %v", host, err)
				}
			})
		}
		both.Wait()
		if took := time.Since(began); took != 4*lineTime {
			t.Errorf("two logins took %s, want one after the other in %s", took, 4*lineTime)
		}
	})
}

// TestDialsOfMany: nobody waits for a server for much longer than the first attempts take.
func TestDialsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 30 * time.Second
		d := NewDials(32, 32).Through(func(context.Context, inbox.Inbox) (pass.Source, error) {
			time.Sleep(takes)
			return nil, errNetwork
		})
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _, _ = d(t.Context(), inbox.Inbox{Host: "silent"}) })
		}
		all.Wait()
		if waited := time.Since(began); waited > 2*takes {
			t.Errorf("the last of 100 inboxes waited %s for a server whose silence is known after %s", waited, takes)
		}
	})
}

// TestDialsLimit: other limits hold for the connections that are opened next.
func TestDialsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan error)
		var trying atomic.Int32
		limits := NewDials(1, 1)
		d := limits.Through(func(context.Context, inbox.Inbox) (pass.Source, error) {
			trying.Add(1)
			defer trying.Add(-1)
			return nil, <-answers
		})
		try := func(host string) {
			go func() { _, _ = d(t.Context(), inbox.Inbox{Host: host}) }()
			synctest.Wait()
		}
		end := func() {
			answers <- nil
			synctest.Wait()
		}
		want := func(n int32, why string) {
			t.Helper()
			if got := trying.Load(); got != n {
				t.Errorf("%s: %d connections are being opened, want %d", why, got, n)
			}
		}
		for range 5 {
			try("one")
		}
		want(1, "one in all")
		limits.Limit(8, 2)
		end()
		want(2, "two to a server")
		limits.Limit(8, 1)
		end()
		end()
		want(1, "one to a server")
		limits.Limit(2, 8)
		end()
		end()
		for _, host := range []string{"one", "two", "three"} {
			try(host)
		}
		want(2, "two in all")
		for range 3 {
			end()
		}
	})
}

// TestDials: a server that is silent keeps at most a few places, and then one; others go on.
func TestDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		silent, reached := make(chan error), 0
		var trying atomic.Int32
		d := NewDials(8, 6).Through(func(_ context.Context, in inbox.Inbox) (pass.Source, error) {
			if in.Host != "silent" {
				reached++
				return nil, errAuth // which reached it
			}
			trying.Add(1)
			defer trying.Add(-1)
			return nil, <-silent
		})
		for range 20 {
			go func() { _, _ = d(ctx, inbox.Inbox{Host: "silent"}) }()
		}
		synctest.Wait()
		if trying.Load() != firstDials {
			t.Errorf("%d connections to a server of which nothing is known, want %d", trying.Load(), firstDials)
		}
		for range 10 {
			_, _ = d(ctx, inbox.Inbox{Host: "other"})
		}
		if reached != 10 {
			t.Errorf("%d connections to another server, want 10", reached)
		}
		for range firstDials {
			silent <- errNetwork
			synctest.Wait()
		}
		if trying.Load() != 1 {
			t.Errorf("%d connections to a server that cannot be reached, want 1 at a time", trying.Load())
		}
		for _, want := range []int32{2, 4, 6} { // one ends, and twice as many may begin, up to six
			silent <- nil
			synctest.Wait()
			if trying.Load() != want {
				t.Errorf("%d connections to a server that is there again, want %d", trying.Load(), want)
			}
		}
		cancel()
		if _, err := d(ctx, inbox.Inbox{Host: "silent"}); !errors.Is(err, context.Canceled) {
			t.Errorf("who waits is stopped with %v, want %v", err, context.Canceled)
		}
		close(silent)
		synctest.Wait()
	})
}
