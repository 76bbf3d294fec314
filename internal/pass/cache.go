package pass

import (
	"context"
	"sync"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// cache is the prefetch cache of one inbox. The scanner puts in the bodies of messages that it is
// about to register, and then the registered tasks; the deliverer takes them out. That saves a
// second download and a claim. Nothing depends on it: a body that is not in the cache is fetched by
// UID, and its task is claimed like any other.
type cache struct {
	maxOctets int64
	maxBodies int // open files, at the worst

	mu      sync.Mutex
	bodies  map[place]*cached
	octets  int64
	ready   int64 // how many bodies were ready to be claimed, ever
	closed  bool
	drained chan struct{} // closed when bodies have left
}

// place is where a message is.
type place struct {
	folderID int64
	at       tasks.Place
}

func placeOf(t tasks.Task) place { return place{t.FolderID, tasks.Place{Epoch: t.Epoch, UID: t.UID}} }

// cached is one body.
type cached struct {
	body  *message.Message
	size  int64
	ready int64  // its number among those whose messages are registered; 0 before that
	offer *offer // nil unless it can be sent as it was registered, and nobody here works on it yet
}

func newCache(maxOctets int64, maxBodies int) *cache {
	return &cache{
		maxOctets: maxOctets, maxBodies: maxBodies,
		bodies: map[place]*cached{}, drained: make(chan struct{}),
	}
}

// put takes a body, and closes it when it has no room.
func (c *cache) put(at place, m *message.Message) { c.add(at, m, false) }

// keep takes a body, whether it has room or not.
func (c *cache) keep(at place, m *message.Message) { c.add(at, m, true) }

func (c *cache) add(at place, m *message.Message, anyhow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := m.Body.Size()
	room := anyhow || len(c.bodies) < c.maxBodies && c.octets+size <= c.maxOctets
	if c.closed || c.bodies[at] != nil || !room {
		_ = m.Close()
		return
	}
	c.bodies[at] = &cached{body: m, size: size}
	c.octets += size
}

// registered says that the message is registered: from now on, somebody may claim its task. task is
// nil unless it can be sent as it was registered.
func (c *cache) registered(at place, task *tasks.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.bodies[at]; b != nil {
		c.ready++
		if b.ready = c.ready; task != nil {
			b.offer = &offer{*task, time.Now()}
		}
	}
}

// offer is a task that can be sent as it was registered.
type offer struct {
	task  tasks.Task
	since time.Time // when it was registered, by this host's clock
}

// offers is how many tasks can be offered.
func (c *cache) offers() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bodies {
		if b.offer != nil {
			n++
		}
	}
	return n
}

// offer gives the tasks out, up to the first one that it does not have, each once. Their bodies
// stay until they are taken.
func (c *cache) offer(ids []int64) (out []offer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bodies := map[int64]*cached{}
	for _, b := range c.bodies {
		if b.offer != nil {
			bodies[b.offer.task.ID] = b
		}
	}
	for _, id := range ids {
		b := bodies[id]
		if b == nil {
			break
		}
		out = append(out, *b.offer)
		b.offer = nil
	}
	return out
}

// take hands a body over, nil when there is none.
func (c *cache) take(at place) *message.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.bodies[at]
	if b == nil {
		return nil
	}
	c.remove(at, b)
	return b.body
}

// drop throws a body away, if it is there.
func (c *cache) drop(at place) {
	if m := c.take(at); m != nil {
		_ = m.Close()
	}
}

// remove is to be called with the lock held.
func (c *cache) remove(at place, b *cached) {
	delete(c.bodies, at)
	c.octets -= b.size
	close(c.drained)
	c.drained = make(chan struct{})
}

// mark is for dropUpTo: the bodies that are ready now.
func (c *cache) mark() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// dropUpTo drops the bodies that were ready at the mark: if nothing is due after it, others have
// claimed their tasks.
func (c *cache) dropUpTo(mark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, b := range c.bodies {
		if b.ready != 0 && b.ready <= mark {
			_ = b.body.Close()
			c.remove(at, b)
		}
	}
}

// cachePatience is how long a scanner waits for its deliverer. Then it continues, so that a hanging
// relay does not keep messages from being registered.
const cachePatience = 10 * time.Second

// wait waits until the cache is at most half full, so that a scanner does not run far ahead of its
// deliverer.
func (c *cache) wait(ctx context.Context) error {
	enough := time.After(cachePatience)
	for {
		c.mu.Lock()
		room := c.closed || len(c.bodies) <= c.maxBodies/2 && c.octets <= c.maxOctets/2
		drained := c.drained
		c.mu.Unlock()
		if room {
			return nil
		}
		select {
		case <-drained:
		case <-enough:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// clear drops all bodies: the deliverer that claims their tasks has stopped.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, b := range c.bodies {
		_ = b.body.Close()
		c.remove(at, b)
	}
}

// close is clear, and the cache accepts no more bodies: nothing will be claimed here.
func (c *cache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.clear()
}
