package pass

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"postrider/internal/tasks"
)

// cached bodies are 4 KiB of the budget each, and as many octets as fakeMail.
func onCache(t *testing.T, octets int64, bodies int, test func(t *testing.T, c *cacheRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cacheRig{t: t, cache: newCache(octets, bodies), server: newFakeServer(t)}
		test(t, c)
		c.cache.close()
		c.server.checkNothingLeft("the cache")
	})
}

type cacheRig struct {
	t      *testing.T
	cache  *cache
	server *fakeServer
}

func at(uid uint32) place { return place{1, tasks.Place{Epoch: 7, UID: uid}} }

var cacheBody = fakeMail("cached")

func (c *cacheRig) put(uids ...uint32) {
	for _, uid := range uids {
		c.cache.put(at(uid), spooled(c.t, c.server.spool, cacheBody))
	}
}

// want checks which of the UIDs 1 to 9 are in the cache.
func (c *cacheRig) want(uids ...uint32) {
	c.t.Helper()
	var got []uint32
	for uid := uint32(1); uid < 10; uid++ {
		if c.cache.bodies[at(uid)] != nil {
			got = append(got, uid)
		}
	}
	if !slices.Equal(got, uids) || c.cache.octets != int64(len(uids)*len(cacheBody)) {
		c.t.Errorf("the cache has %v, %d octets; want %v", got, c.cache.octets, uids)
	}
}

func TestCacheBounds(t *testing.T) {
	t.Run("bodies", func(t *testing.T) {
		onCache(t, 1<<20, 2, func(t *testing.T, c *cacheRig) {
			c.put(1, 2, 3)
			c.want(1, 2)
			c.cache.drop(at(1))
			c.put(4)
			c.want(2, 4)
		})
	})
	t.Run("octets", func(t *testing.T) {
		onCache(t, int64(3*len(cacheBody)-1), 9, func(t *testing.T, c *cacheRig) {
			c.put(1, 2, 3)
			c.want(1, 2)
		})
	})
}

func TestCacheTakesAndDrops(t *testing.T) {
	onCache(t, 1<<20, 9, func(t *testing.T, c *cacheRig) {
		c.put(1, 1, 2) // the second one is closed
		m := c.cache.take(at(1))
		if m == nil || m.Subject() != "cached" {
			t.Fatalf("the cache hands over %v, want the body", m)
		}
		check(t, m.Close())
		if again := c.cache.take(at(1)); again != nil {
			t.Error("the cache hands a body over twice")
		}
		c.cache.drop(at(2))
		c.cache.drop(at(3))
		c.want()
	})
}

// TestCacheDropsWhatOthersClaim: what was ready at the mark, and nothing else.
func TestCacheDropsWhatOthersClaim(t *testing.T) {
	onCache(t, 1<<20, 9, func(t *testing.T, c *cacheRig) {
		c.put(1, 2)
		c.cache.registered(at(1), nil)
		mark := c.cache.mark()
		c.put(3)
		c.cache.registered(at(2), nil)
		c.cache.registered(at(3), nil)
		c.cache.registered(at(9), nil) // it is not here
		c.put(4)
		c.cache.dropUpTo(mark)
		c.want(2, 3, 4)
		c.cache.dropUpTo(c.cache.mark())
		c.want(4) // it is not registered yet
	})
}

// TestCacheOffersOnce: a task is given out once, and not before those that are registered before
// it.
func TestCacheOffersOnce(t *testing.T) {
	onCache(t, 1<<20, 9, func(t *testing.T, c *cacheRig) {
		c.put(1, 2)
		c.cache.registered(at(1), &tasks.Task{ID: 1})
		c.cache.registered(at(2), &tasks.Task{ID: 2})
		if n := c.cache.offers(); n != 2 {
			t.Errorf("%d tasks can be offered, want 2", n)
		}
		for _, want := range []int{1, 0} {
			if got := c.cache.offer([]int64{1, 9, 2}); len(got) != want {
				t.Errorf("%d tasks are given out, want %d", len(got), want)
			}
		}
		if n := c.cache.offers(); n != 1 {
			t.Errorf("%d tasks can be offered, want the one that was not given out", n)
		}
	})
}

func TestCacheWait(t *testing.T) {
	onCache(t, 1<<20, 4, func(t *testing.T, c *cacheRig) {
		c.put(1, 2)
		check(t, c.cache.wait(t.Context())) // half full
		c.put(3)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() { done <- c.cache.wait(ctx) }()
			synctest.Wait()
			if len(done) > 0 {
				t.Fatal("the cache is more than half full, and nobody waits")
			}
			return done
		}
		stopped := waiting(ctx)
		cancel()
		if err := soon(t, "who waits is stopped", stopped); !errors.Is(err, context.Canceled) {
			t.Errorf("who waits is stopped with %v, want %v", err, context.Canceled)
		}
		drained := waiting(t.Context())
		c.cache.drop(at(2))
		check(t, soon(t, "there is room", drained))
		c.put(5, 6)
		closed := waiting(t.Context())
		c.cache.close()
		check(t, soon(t, "the cache is closed", closed))
		c.put(7)
		c.want()
		check(t, c.cache.wait(t.Context()))
	})
}

func TestCacheWaitForOctets(t *testing.T) {
	onCache(t, int64(2*len(cacheBody)), 9, func(t *testing.T, c *cacheRig) {
		c.put(1)
		check(t, c.cache.wait(t.Context()))
		c.put(2)
		done := make(chan error, 1)
		go func() { done <- c.cache.wait(t.Context()) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatal("the cache is full, and nobody waits")
		}
		c.cache.registered(at(2), nil)
		c.cache.dropUpTo(c.cache.mark())
		check(t, soon(t, "there is room", done))
	})
}
