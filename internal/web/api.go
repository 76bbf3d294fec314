package web

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"postrider/internal/inbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
)

// openAPI describes what follows.
//
//go:embed openapi.json
var openAPI []byte

// apiFound is a page of messages.
type apiFound struct {
	Messages      []tasks.View `json:"messages"`
	Next          int64        `json:"next"`           // before, for the older ones; 0 when there are none
	SearchedUntil *time.Time   `json:"searched_until"` // the search ended here, and not at the last message; else null
}

// apiInboxView is an inbox. Where its password comes from is not in it.
type apiInboxView struct {
	status.Inbox
	Description string             `json:"description"`
	Host        string             `json:"host"`
	Port        int                `json:"port"`
	Security    inbox.Security     `json:"security"`
	Labels      inbox.Labels       `json:"labels"`
	Folders     []inbox.FolderView `json:"folders"`
	Since       *time.Time         `json:"failing_since"`
	LastAudit   *inbox.Audit       `json:"last_audit"`
	AuditSince  *time.Time         `json:"audit_running_since"`
}

// apiEnded is an hour of the history.
type apiEnded struct {
	Hour   time.Time    `json:"hour"`
	Status tasks.Status `json:"status"`
	N      int          `json:"count"`
}

func (s *Server) apiDocument(w http.ResponseWriter, _ *http.Request, _ user) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(openAPI)
	return err
}

func (s *Server) apiStatus(w http.ResponseWriter, r *http.Request, _ user) error {
	report, err := s.report.get(r.Context())
	if err == nil {
		writeJSON(w, http.StatusOK, report)
	}
	return err
}

func (s *Server) apiMessages(w http.ResponseWriter, r *http.Request, _ user) error {
	_, found, boxes, err := s.find(r)
	if err != nil {
		return err
	}
	out := apiFound{Messages: []tasks.View{}, Next: found.Next, SearchedUntil: found.Until}
	labels := map[int64]inbox.Labels{}
	for _, in := range boxes {
		labels[in.ID] = in.Labels
	}
	for _, t := range found.Tasks {
		v := tasks.ViewOf(t)
		v.Labels = labels[t.InboxID]
		out.Messages = append(out.Messages, v)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// parameters are those of a request, each at most once. It refuses what would select something else
// than was asked for; what could be read is returned with the error.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, badRequest("The parameters cannot be read: %v; write %% as %%25, and ; as %%3B.", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			return q, badRequest("There is no parameter %q; there are %s.",
				name, cmp.Or(strings.Join(known, ", "), "none"))
		case len(values) > 1:
			return q, badRequest("The parameter %q occurs %d times; give it once.", name, len(values))
		case utf8.RuneCountInString(values[0]) > maxText:
			return q, badRequest("The parameter %q has more than %d characters; shorten it.", name, maxText)
		}
	}
	return q, nil
}

func badRequest(format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// noParameters is a handler that takes none.
func noParameters(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, u user) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		return h(w, r, u)
	}
}

func (s *Server) apiMessage(w http.ResponseWriter, r *http.Request, _ user) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	t, err := s.Queue.Get(r.Context(), id)
	gone := errors.Is(err, tasks.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	events, err := s.Queue.Events(r.Context(), id)
	switch {
	case err != nil:
		return err
	case gone && len(events) == 0:
		return tasks.ErrNotFound
	case gone:
		writeJSON(w, http.StatusOK, tasks.GoneView{ID: id, Gone: true, Events: tasks.EventsOf(events)})
		return nil
	}
	boxes, err := s.Inboxes.ByID(r.Context(), []int64{t.InboxID})
	if err == nil {
		details := tasks.DetailsOf(t, events)
		details.Labels = boxes[t.InboxID].Labels
		writeJSON(w, http.StatusOK, details)
	}
	return err
}

func (s *Server) apiInboxes(w http.ResponseWriter, r *http.Request, _ user) error {
	rows, err := s.rows(r)
	if err != nil {
		return err
	}
	out := []apiInboxView{}
	for _, row := range rows {
		out = append(out, row.view())
	}
	writeJSON(w, http.StatusOK, map[string][]apiInboxView{"inboxes": out})
	return nil
}

func (s *Server) apiInbox(w http.ResponseWriter, r *http.Request, _ user) error {
	in, err := s.Inboxes.Get(r.Context(), r.PathValue("address"))
	if err != nil {
		return err
	}
	rows, err := s.rows(r)
	for _, row := range rows {
		if row.Inbox.ID == in.ID {
			writeJSON(w, http.StatusOK, row.view())
			return nil
		}
	}
	if err == nil {
		err = &inbox.NotFoundError{Address: in.Address}
	}
	return err
}

func (r inboxRow) view() apiInboxView {
	in := r.Inbox
	v := apiInboxView{
		Inbox: r.Status, Description: in.Description, Host: in.Host, Port: in.Port, Security: in.Security,
		Labels: inbox.Labels{}, Folders: in.FolderViews(), Since: in.FailingSince,
		LastAudit: r.Audit.Last, AuditSince: r.Audit.Since,
	}
	if in.Labels != nil {
		v.Labels = in.Labels
	}
	return v
}

func (s *Server) apiHistory(w http.ResponseWriter, r *http.Request, _ user) error {
	hours, err := s.history.get(r.Context())
	if err != nil {
		return err
	}
	out := []apiEnded{}
	for _, h := range hours {
		out = append(out, apiEnded(h))
	}
	writeJSON(w, http.StatusOK, map[string][]apiEnded{"hours": out})
	return nil
}

// readiness is the answer of /readyz. It needs no login, so it has no names and no errors.
type readiness struct {
	Ready    bool       `json:"ready"`
	Database string     `json:"database"` // ok, failed
	Relay    string     `json:"relay"`
	LastPass string     `json:"last_pass"` // ok, late, never, unknown
	PassedAt *time.Time `json:"last_pass_at"`
}

// ready says whether mail can go its way: the database and the relay answer, and passes are done.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	out := readiness{Database: "ok", Relay: "ok"}
	report, err := s.report.get(r.Context())
	if err != nil {
		out.Database, out.LastPass = "failed", "unknown"
	} else {
		out.PassedAt, out.LastPass = s.lastPass(report)
	}
	if s.relayProblem(r.Context(), report) != nil {
		out.Relay = "failed"
	}
	out.Ready = out.Database == "ok" && out.Relay == "ok" && out.LastPass == "ok"
	code := http.StatusOK
	if !out.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, out)
}

// lastPass is when the newest scan of an active inbox completed, and whether that is ok, late or
// never. It goes by the clock of the database, as all ages do.
func (s *Server) lastPass(report status.Report) (at *time.Time, state string) {
	active, late := false, true
	for _, in := range report.Inboxes {
		active = active || in.Active
		if !in.Active || in.LastScannedAt == nil {
			continue
		}
		late = late && in.Numbers.SinceScan > s.PassEvery
		if at == nil || in.LastScannedAt.After(*at) {
			at = in.LastScannedAt
		}
	}
	switch {
	case !active:
		return nil, "ok"
	case at == nil:
		return nil, "never"
	case late:
		return at, "late"
	}
	return at, "ok"
}
