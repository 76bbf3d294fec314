package watch

import (
	"log/slog"
	"sync"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/pass"
	"postrider/internal/text"
)

// health is whether an inbox can be read.
type health struct {
	watch           *Watch
	address, server string // of the inbox

	mu    sync.Mutex
	tried bool      // a visit has ended
	known bool      // one has found out whether it can be read
	news  bool      // one has, since report was called
	err   error     // of the last visit that failed; nil while it can be read
	since time.Time // since when it cannot be read
}

func (h *health) isWell() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known && h.err == nil
}

func (h *health) isSick() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err != nil
}

func (h *health) isTried() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tried
}

// visited notes that a visit has ended. One that found another run at work does not know whether
// the inbox can be read.
func (h *health) visited() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = true
}

// found notes that the inbox can be read, or why not.
func (h *health) found(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known || (err == nil) != (h.err == nil) {
		h.watch.tell()
	}
	switch {
	case err == nil && h.err != nil:
		h.watch.cfg.Log.Info("the inbox can be read again",
			"inbox", h.address, "after", time.Since(h.since).Round(time.Second))
	case err != nil && h.err == nil:
		h.since = time.Now()
		h.watch.cfg.Log.Info("the inbox cannot be read; postrider tries again with growing pauses",
			"inbox", h.address, "error", err)
	}
	h.known, h.news, h.err = true, true, err
}

// report is what to say of the inbox. What is older than the last report is not known: other
// processes may have found something else since.
func (h *health) report() pass.InboxReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := pass.InboxReport{Email: h.address}
	news := h.news
	h.news = false
	switch {
	case !news:
		r.Busy = notVisited
	case h.err == nil:
	case imapsrc.KindOf(h.err) == imapsrc.KindNetwork:
		r.Left = h.server
		fallthrough
	default:
		r.Error = text.Error(h.err)
	}
	return r
}

// notVisited stands in the report of an inbox that was not visited since the last one.
const notVisited = "not visited since"

// unsaid has the last report made again, because it could not be said.
func (h *health) unsaid() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news = true
}

// trouble is a failure of something that all inboxes share: the database, the disk. It is logged
// when it begins, and when it is over.
type trouble struct {
	log *slog.Logger

	mu sync.Mutex
	by map[work]bool // what failed last
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
		t.log.Error("the database cannot be used; nothing is lost, and postrider tries again with growing pauses",
			"error", err)
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
		t.log.Warn("the database can be used again")
	}
}

func (t *trouble) now() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.by) > 0
}
