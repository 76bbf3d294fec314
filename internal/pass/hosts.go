package pass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/text"
)

// enoughFailures is how many inboxes in a row have to find a server unreachable before this pass
// gives the server up.
const enoughFailures = 2

// maxNamed is how many inboxes a line of the log names.
const maxNamed = 20

// hosts are the IMAP servers of a pass, each a host and a port. Only the inboxes that
// find a server unreachable wait for its timeouts; the inboxes behind them do not.
type hosts struct {
	mu      sync.Mutex
	ended   *sync.Cond // an attempt to reach a server
	servers map[string]*server
}

type server struct {
	trying   int      // inboxes that try to reach it now
	failures int      // inboxes that could not reach it, since the last one that could
	why      error    // the last failure
	rest     []string // inboxes that failed, or were not tried, after it was left
}

func (s *server) left() bool { return s.failures >= enoughFailures }

func newHosts() *hosts {
	h := &hosts{servers: map[string]*server{}}
	h.ended = sync.NewCond(&h.mu)
	return h
}

// Dial logs in to an inbox.
type Dial[S any] func(ctx context.Context, in inbox.Inbox) (S, error)

// GivingUp is dial for one look at many inboxes: it fails at once for a server that two inboxes in
// a row could not reach.
func GivingUp[S any](dial Dial[S]) Dial[S] { return through(newHosts(), dial) }

// through is dial for the servers that were not given up.
func through[S any](h *hosts, dial Dial[S]) Dial[S] {
	return func(ctx context.Context, in inbox.Inbox) (src S, err error) {
		name := ServerOf(in)
		if err := h.try(name, in.Address); err != nil {
			return src, err
		}
		src, err = dial(ctx, in)
		h.tried(name, in.Address, err, ctx.Err() != nil)
		return src, err
	}
}

// ServerOf is the server of an inbox, as host:port in lower case.
func ServerOf(in inbox.Inbox) string { return strings.ToLower(in.HostPort()) }

// try returns an error if the server was given up. While that is undecided, it waits for the
// inboxes that are already trying.
func (h *hosts) try(name, address string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[name]
	if s == nil {
		s = &server{}
		h.servers[name] = s
	}
	for s.trying > 0 && s.failures > 0 && !s.left() {
		h.ended.Wait()
	}
	if !s.left() {
		s.trying++
		return nil
	}
	s.rest = append(s.rest, address)
	// Without the type of the error: what an inbox's own connection met is another matter.
	return fmt.Errorf("not tried: %s could not be reached (%s)", name, text.Brief(s.why))
}

// tried notes whether the server was reached. A refused login reached it, and one that was
// interrupted says nothing.
func (h *hosts) tried(name, address string, err error, interrupted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.ended.Broadcast()
	s := h.servers[name]
	s.trying--
	switch {
	case interrupted:
	case imapsrc.KindOf(err) != imapsrc.KindNetwork:
		if !s.left() {
			s.failures = 0
		}
	case s.left():
		s.rest = append(s.rest, address)
	default:
		s.failures++
		s.why = err
	}
}

// names reports whether report names the inbox, so that its error needs no line of its own.
func (h *hosts) names(address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		if slices.Contains(s.rest, address) {
			return true
		}
	}
	return false
}

// report logs one line for each server that was given up. The line names the inboxes that have no
// line of their own.
func (h *hosts) report(ctx context.Context, log *slog.Logger, level slog.Level) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.servers {
		if len(s.rest) == 0 {
			continue
		}
		slices.Sort(s.rest)
		log.Log(ctx, level, "the server cannot be reached; its remaining inboxes are skipped in this pass",
			"server", name, "inboxes", strings.Join(text.Some(s.rest, maxNamed), ", "), "error", s.why)
	}
}
