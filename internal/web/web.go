// Package web is the status page and its endpoints: what needs a person, whether a message reached
// somebody, each message with its trail, and the inboxes.
//
// It shows and stores no message content, only subjects, senders, recipients and the relay's words.
// It has no rules of its own: what it shows comes from package status and the queue, and it changes
// only what the commands change, in the same transactions. Only an operator can change something;
// the same transaction records in the audit trail who did, and why. A process that is killed before
// the commit has changed nothing.
//
// An audit is that of the command. It runs in the background, at most one for each inbox, and ends
// with Close; its result is stored. One message at a time is fetched to be explained.
//
// Everything that others wrote is escaped, and made one printable line. The pages work without
// JavaScript and have no inline script; the Content-Security-Policy allows only our script file.
//
// Access says who may look and who may change. Loopback needs no login. Any other address needs
// users with TLS, or a proxy that logs them in; without these Open refuses.
//
// Each request reads a bounded number of rows, whatever the registry holds. What is counted over
// the whole registry is kept for a few seconds, for all who ask.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/status"
	"postrider/internal/tasks"
)

// Queue is what the page needs of a queue.
type Queue interface {
	tasks.Finder
	tasks.Changer
	List(ctx context.Context, f tasks.Filter, each func(tasks.Task) error) error
	Events(ctx context.Context, taskID int64) ([]tasks.Event, error)
	InboxEvents(ctx context.Context, inboxID int64, limit int) ([]tasks.Event, error)
	Disable(ctx context.Context, by tasks.By, inboxID int64) error
}

// Relay is what is known of the relay.
type Relay struct {
	Name  string                          // host:port
	Probe func(ctx context.Context) error // whether it can be used now
	// Patience is how long Probe may take. A relay that takes longer, such as one that delays its
	// greeting, counts as usable if it took mail when a pass last tried it.
	Patience time.Duration
}

// slowError is that of a probe that ran out of time.
type slowError struct{ error }

// Options are what the page shows, and how.
type Options struct {
	Access  *Access
	Queue   Queue
	Inboxes *inbox.Store
	Status  func(ctx context.Context) (status.Report, error)
	Relay   Relay
	// Explain tries the current routes on the message of a task, which it fetches from its server.
	Explain func(ctx context.Context, t tasks.Task) ([]route.Step, error)
	// Audit audits one inbox as the command does, until ctx ends, and stores the result.
	Audit   func(ctx context.Context, in inbox.Inbox, who string)
	Metrics http.Handler // of /metrics
	// Broken reports whether the configuration cannot be used, so that an older one is in force. It
	// is nil if the configuration is read only once.
	Broken func() bool
	// PassEvery is how long after the last complete scan the page is not ready any more.
	PassEvery time.Duration
	Now       func() time.Time
	Zone      *time.Location // of the times on the pages
	Log       *slog.Logger
}

// Server is the page.
type Server struct {
	Options
	pages      pages
	running    *running   // audits
	explaining sync.Mutex // held while a message is fetched to be explained
	report     cached[status.Report]
	history    cached[[]tasks.Ended]
	probe      cached[struct{}] // of the relay
}

// How long what is counted over the whole registry is kept.
const (
	keepReport  = 10 * time.Second
	keepHistory = time.Minute
	keepRelay   = time.Minute // also a failure: the relay takes many failed logins for an attack
	keepError   = time.Second
)

// New returns the page. Close it when it answers no requests any more.
func New(o Options) *Server {
	s := &Server{Options: o, pages: parsePages(o.Zone), running: newRunning()}
	s.report = cached[status.Report]{log: o.Log, now: o.Now, keep: keepReport, keepError: keepError, read: o.Status}
	s.history = cached[[]tasks.Ended]{
		log: o.Log, now: o.Now, keep: keepHistory, keepError: keepError, read: s.readHistory,
	}
	s.probe = cached[struct{}]{log: o.Log, now: o.Now, keep: keepRelay, keepError: keepRelay}
	s.probe.read = func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, o.Relay.Patience)
		defer cancel()
		err := o.Relay.Probe(ctx)
		if err != nil && ctx.Err() != nil {
			err = slowError{err}
		}
		return struct{}{}, err
	}
	return s
}

// relayProblem is why the relay cannot be used; nil if it can.
func (s *Server) relayProblem(ctx context.Context, report status.Report) error {
	_, err := s.probe.get(ctx)
	if errors.As(err, new(slowError)) && report.RelayUp != nil && *report.RelayUp {
		return nil
	}
	return err
}

// Close stops the audits that the page runs, and waits for their end.
func (s *Server) Close() { s.running.close() }

// Handler answers everything.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	s.open(mux)
	look := func(pattern string, h handler) { mux.Handle(pattern, s.allow(false, h)) }
	change := func(pattern string, h handler) { mux.Handle(pattern, s.allow(true, h)) }
	look("GET /{$}", s.overview)
	look("GET /messages", s.messages)
	look("GET /messages/{id}", s.message)
	look("GET /inboxes", s.inboxes)
	look("GET /inboxes/{address}", s.inbox)
	look("GET /audit", s.audit)
	look("POST /messages/{id}/explain", s.explain)
	change("POST /messages/{id}/{action}", s.changeMessage)
	change("POST /inboxes/{address}/{action}", s.changeInbox)
	look("GET /api/v1/status", noParameters(s.apiStatus))
	look("GET /api/v1/messages", s.apiMessages)
	look("GET /api/v1/messages/{id}", noParameters(s.apiMessage))
	look("GET /api/v1/inboxes", noParameters(s.apiInboxes))
	look("GET /api/v1/inboxes/{address}", noParameters(s.apiInbox))
	look("GET /api/v1/history", noParameters(s.apiHistory))
	look("GET /api/v1/openapi.json", noParameters(s.apiDocument))
	look("GET /metrics", func(w http.ResponseWriter, r *http.Request, _ user) error {
		s.Metrics.ServeHTTP(w, r)
		return nil
	})
	look("/", func(w http.ResponseWriter, r *http.Request, _ user) error { return notServed(w, r, mux) })
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, user{}, &failure{
			http.StatusForbidden, "This request came from another site, so nothing was done.",
		})
	}))
	return s.guarded(crossOrigin.Handler(mux))
}

// open has what needs no login.
func (s *Server) open(mux *http.ServeMux) {
	mux.Handle("GET /assets/", assets())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"process": "ok"})
	})
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /login", s.loginForm)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
}
