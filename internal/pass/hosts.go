package pass

import (
	"context"
	"strings"
	"sync"
)

// hosts bounds how many inboxes of one server are worked on at once: servers bound connections, and shut out who asks
// for more.
type hosts struct {
	limit int
	mu    sync.Mutex
	slots map[string]chan struct{}
}

func newHosts(limit int) *hosts { return &hosts{limit: limit, slots: map[string]chan struct{}{}} }

// enter waits for a place at the host. It fails only with ctx.
func (h *hosts) enter(ctx context.Context, host string) (leave func(), err error) {
	h.mu.Lock()
	key := strings.ToLower(host)
	slots := h.slots[key]
	if slots == nil {
		slots = make(chan struct{}, h.limit)
		h.slots[key] = slots
	}
	h.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
