package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// health is whether an inbox can be read. It is logged when that changes.
type health struct {
	watch *Watch
	in    inbox.Inbox

	mu    sync.Mutex
	known bool      // a visit has ended
	since time.Time // when it could be read no more; zero while it can
	via   string    // the server that could not be reached; empty for another reason
}

func (h *health) isWell() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known && h.since.IsZero()
}

func (h *health) isSick() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.since.IsZero()
}

// well notes that the inbox can be read.
func (h *health) well() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = true
	if h.since.IsZero() {
		return
	}
	level := h.watch.servers.well(h.via)
	h.watch.cfg.Log.Log(context.Background(), level, "the inbox can be read again", "inbox", h.in.Address, "after", time.Since(h.since).Round(time.Second))
	h.since, h.via = time.Time{}, ""
}

// sick notes that it cannot.
func (h *health) sick(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = true
	if !h.since.IsZero() {
		return
	}
	h.since = time.Now()
	if e := new(imapsrc.Error); errors.As(err, &e) && e.Kind == imapsrc.KindNetwork {
		h.via = server(h.in)
	}
	level := h.watch.servers.sick(h.via)
	h.watch.cfg.Log.Log(context.Background(), level, "the inbox cannot be read; it is tried again from time to time", "inbox", h.in.Address, "error", err)
}

// forget is called when the inbox is no longer kept.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() {
		h.watch.servers.well(h.via)
	}
}

// servers are those that cannot be reached: the first inbox of a server says it, and the last one
// says that it is over.
type servers struct {
	mu  sync.Mutex
	ill map[string]int // inboxes by server
}

// sick and well return the level at which an inbox logs it.
func (s *servers) sick(server string) slog.Level {
	if server == "" {
		return slog.LevelError
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ill[server]++; s.ill[server] > 1 {
		return slog.LevelInfo
	}
	return slog.LevelError
}

func (s *servers) well(server string) slog.Level {
	if server == "" {
		return slog.LevelWarn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ill[server]--; s.ill[server] > 0 {
		return slog.LevelInfo
	}
	delete(s.ill, server)
	return slog.LevelWarn
}

// trouble is that of what all inboxes share: the database, the disk. It is logged when it begins,
// and when it is over.
type trouble struct {
	log *slog.Logger

	mu    sync.Mutex
	since time.Time
	by    map[work]bool // what failed last
}

// work is what fails: when the disk is full, looking still works.
type work int

const (
	visiting work = iota
	looking
)

func (t *trouble) met(by work, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.by) == 0 {
		t.since = time.Now()
		t.log.Error("the database cannot be used; nothing is lost, and it is tried again from time to time", "error", err)
	}
	t.by[by] = true
}

func (t *trouble) over(by work) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.by[by] {
		return
	}
	if delete(t.by, by); len(t.by) == 0 {
		t.log.Warn("the database can be used again", "after", time.Since(t.since).Round(time.Second))
	}
}

func (t *trouble) now() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.by) > 0
}
