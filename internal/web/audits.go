package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// The limits of audits that the page runs. Each has an IMAP connection.
const (
	auditTime  = time.Hour
	mostAudits = 4 // at once
)

var errTooLong = errors.New("the audit took longer than an hour")

// running are the audits under way: one at a time for each inbox.
type running struct {
	ctx  context.Context // of all audits
	stop context.CancelFunc
	all  sync.WaitGroup

	mu    sync.Mutex
	since map[int64]time.Time // by the inbox's id
}

func newRunning() *running {
	ctx, stop := context.WithCancel(context.Background())
	return &running{ctx: ctx, stop: stop, since: map[int64]time.Time{}}
}

// begin counts an audit in. The failure says why there cannot be one now.
func (a *running) begin(id int64, now time.Time) *failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch _, runs := a.since[id]; {
	case a.ctx.Err() != nil:
		return &failure{
			http.StatusServiceUnavailable, "postrider is stopping, or reads its configuration again. Try again.",
		}
	case runs:
		return &failure{http.StatusConflict, "An audit of this inbox is running already."}
	case len(a.since) >= mostAudits:
		return &failure{
			http.StatusConflict,
			fmt.Sprintf("%d audits are running. Try again when one of them has ended.", mostAudits),
		}
	}
	a.since[id] = now
	a.all.Add(1)
	return nil
}

func (a *running) end(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, id)
	a.all.Done()
}

// of is since when an inbox is being audited; nil when it is not.
func (a *running) of(id int64) *time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since, ok := a.since[id]; ok {
		return &since
	}
	return nil
}

// close stops the audits under way, has new ones refused, and waits.
func (a *running) close() {
	a.mu.Lock()
	a.stop()
	a.mu.Unlock()
	a.all.Wait()
}

// startAudit has an inbox audited. It does not wait for the end.
func (s *Server) startAudit(ctx context.Context, in inbox.Inbox, by tasks.By) error {
	if f := s.running.begin(in.ID, s.Now()); f != nil {
		return f
	}
	if err := s.Inboxes.AuditBegins(ctx, in.ID, by.Who, by.Detail()); err != nil {
		s.running.end(in.ID)
		return err
	}
	go func() {
		defer s.running.end(in.ID)
		ctx, cancel := context.WithTimeoutCause(s.running.ctx, auditTime, errTooLong)
		defer cancel()
		s.Audit(ctx, in, by.Who)
		if errors.Is(ctx.Err(), context.Canceled) {
			s.Log.Warn("an audit was stopped before its end; start it again", "inbox", in.Address)
		}
	}()
	return nil
}

// auditState is what is known of the audits of an inbox.
type auditState struct {
	Last  *inbox.Audit // nil: there was none
	Since *time.Time   // of the one that is running; nil when none is
}

// auditsOf are those of the inboxes, in their order.
func (s *Server) auditsOf(ctx context.Context, boxes ...inbox.Inbox) ([]auditState, error) {
	last, err := s.Inboxes.Audits(ctx, inbox.IDs(boxes)...)
	out := make([]auditState, len(boxes))
	for i, in := range boxes {
		if a, ok := last[in.ID]; ok {
			out[i].Last = &a
		}
		out[i].Since = s.running.of(in.ID)
	}
	return out, err
}

// Unproved reports whether the last audit could not account for everything.
func (a auditState) Unproved() bool { return a.Last != nil && !a.Last.Clean }

// Why is what kept the last audit from a proof.
func (a auditState) Why() string { return cmp.Or(a.Last.Error, a.Last.Summary) }

// auditNeeds name the inboxes whose last audit found what is not accounted for. Those that could
// not be compared are one line.
func auditNeeds(boxes []inbox.Inbox, states []auditState) (out []need) {
	failed := 0
	for i, a := range states {
		switch {
		case !a.Unproved(), !boxes[i].Active:
		case a.Last.Unaccounted == 0:
			failed++
		default:
			what := number(a.Last.Unaccounted, "message of %s is", "messages of %s are") + " not accounted for"
			out = append(out, need{
				Title: fmt.Sprintf(what, boxes[i].Address), Says: a.Last.Summary,
				Link: inboxPath(boxes[i].Address) + "#audit",
			})
		}
	}
	out = bounded(out, need{
		Title: "More inboxes with messages that are not accounted for", Link: "/audit?show=unproved",
	})
	if failed > 0 {
		out = append(out, need{
			Title: "The last audit of " + number(failed, "inbox", "inboxes") + " could not compare everything",
			Fix:   "Look at the error, and run the audit again.", Link: "/audit?show=unproved",
		})
	}
	return out
}
