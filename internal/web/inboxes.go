package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"postrider/internal/health"
	"postrider/internal/inbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

const inboxesOnPage = 100

// inboxesBody is what the list of inboxes shows, and that of their audits.
type inboxesBody struct {
	Now    time.Time
	Q      string // a part of the address, or a label
	Show   string // one of shows, or empty for all
	Rows   []inboxRow
	All    int // that match
	Next   string
	First  string // the address of the first ones; empty when these are they
	Counts inboxCounts
	Audits auditCounts
}

var shows = []string{"failing", "disabled", "unproved", "never"}

// auditCounts are how many inboxes have which last audit.
type auditCounts struct{ Clean, Unproved, Never int }

// inboxRow is an inbox and where it stands.
type inboxRow struct {
	Inbox  inbox.Inbox
	Status status.Inbox
	Audit  auditState
}

// Trouble is why somebody should look at the inbox; empty when nobody has to.
func (r inboxRow) Trouble() string {
	switch {
	case !r.Inbox.Active:
		return ""
	case r.Status.NeedsLogin != "":
		return "needs a login: " + r.Status.NeedsLogin
	case r.Inbox.LastError != "" || !r.Status.Late:
		return r.Inbox.LastError
	case r.Inbox.LastScannedAt == nil:
		return "was never scanned completely"
	}
	return "the last complete scan was " + text.Ago(r.Status.Numbers.SinceScan)
}

// rows are all inboxes with where they stand, sorted by their address.
func (s *Server) rows(r *http.Request) ([]inboxRow, error) {
	report, err := s.report.get(r.Context())
	if err != nil {
		return nil, err
	}
	boxes, err := s.Inboxes.List(r.Context())
	if err != nil {
		return nil, err
	}
	states := standings(report, boxes...)
	audits, err := s.auditsOf(r.Context(), boxes...)
	out := make([]inboxRow, len(boxes))
	for i, in := range boxes {
		out[i] = inboxRow{in, states[i], audits[i]}
	}
	return out, err
}

// standings are where the inboxes stand, in their order. The report may be older than they, and
// lack a new one.
func standings(report status.Report, boxes ...inbox.Inbox) []status.Inbox {
	known := map[int64]status.Inbox{}
	for _, in := range report.Inboxes {
		known[in.ID] = in
	}
	out := make([]status.Inbox, len(boxes))
	for i, in := range boxes {
		st, ok := known[in.ID]
		if !ok {
			st = status.Of(health.Facts{})
		}
		st.Email, st.Active, st.LastError = in.Address, in.Active, in.LastError
		st.LastScannedAt = text.UTC(in.LastScannedAt)
		out[i] = st
	}
	return out
}

// matches reports whether an inbox has the text in its address, its description or a label.
func (r inboxRow) matches(q, show string) bool {
	switch {
	case show == "failing" && r.Trouble() == "", show == "disabled" && r.Inbox.Active,
		show == "unproved" && !r.Audit.Unproved(), show == "never" && r.Audit.Last != nil:
		return false
	}
	has := func(s string) bool { return text.Contains(s, q) }
	return q == "" || has(r.Inbox.Address) || has(r.Inbox.Description) ||
		slices.ContainsFunc(r.Inbox.Labels.Texts(), has)
}

func (s *Server) inboxes(w http.ResponseWriter, r *http.Request, u user) error {
	return s.list(w, r, u, "inboxes", "Inboxes")
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request, u user) error {
	return s.list(w, r, u, "audit", "Audit")
}

// list shows the inboxes on the page of that name.
func (s *Server) list(w http.ResponseWriter, r *http.Request, u user, name, title string) error {
	q, err := parameters(r, "q", "show", "after")
	if err != nil {
		return err
	}
	if show := q.Get("show"); show != "" && !slices.Contains(shows, show) {
		return badRequest("There is no %q to show; there are %s.", show, strings.Join(shows, ", "))
	}
	all, err := s.rows(r)
	if err != nil {
		return err
	}
	b := inboxesBody{Now: s.Now(), Q: text.Line(q.Get("q")), Show: q.Get("show")}
	for _, row := range all {
		switch {
		case row.Audit.Last == nil:
			b.Audits.Never++
		case row.Audit.Unproved():
			b.Audits.Unproved++
		default:
			b.Audits.Clean++
		}
		switch {
		case !row.Inbox.Active:
			b.Counts.Disabled++
		case row.Trouble() != "":
			b.Counts.Failing++
		default:
			b.Counts.Active++
		}
	}
	all = slices.DeleteFunc(all, func(row inboxRow) bool { return !row.matches(b.Q, b.Show) })
	b.All = len(all)
	page1 := func(after string) string {
		v := url.Values{"q": {b.Q}, "show": {b.Show}, "after": {after}}
		return "/" + name + "?" + v.Encode()
	}
	if after := q.Get("after"); after != "" {
		all = slices.DeleteFunc(all, func(row inboxRow) bool { return row.Inbox.Address <= after })
		b.First = page1("")
	}
	if len(all) > inboxesOnPage {
		all = all[:inboxesOnPage]
		b.Next = page1(all[inboxesOnPage-1].Inbox.Address)
	}
	b.Rows = all
	s.show(w, http.StatusOK, name, page{Title: title, Nav: name, User: u, Body: b})
	return nil
}

// inboxBody is what the page of one inbox shows.
type inboxBody struct {
	Now     time.Time
	Inbox   inbox.Inbox
	Status  status.Inbox
	Counts  []stateCount
	Trail   []moment
	Latest  []messageRow
	Audit   auditState
	Done    string
	Problem string
	Why     string
}

// Trouble is as inboxRow has it.
func (b inboxBody) Trouble() string { return inboxRow{Inbox: b.Inbox, Status: b.Status}.Trouble() }

// Labels are in order.
func (b inboxBody) Labels() []string { return b.Inbox.Labels.Texts() }

// trailOfInbox is how many lines of its trail an inbox shows.
const trailOfInbox = 50

func (s *Server) inbox(w http.ResponseWriter, r *http.Request, u user) error {
	in, err := s.Inboxes.Get(r.Context(), r.PathValue("address"))
	if err != nil {
		return err
	}
	done := map[string]string{
		"enable":  "The inbox is enabled: the next pass reads it.",
		"disable": "The inbox is disabled: nothing of it is read or forwarded.",
		"audit":   "The audit was started. Load this page again to see whether it has ended.",
	}[r.URL.Query().Get("done")]
	return s.showInbox(w, r, u, http.StatusOK, inboxBody{Inbox: in, Done: done})
}

func (s *Server) showInbox(w http.ResponseWriter, r *http.Request, u user, code int, b inboxBody) error {
	report, err := s.report.get(r.Context())
	if err != nil {
		return err
	}
	b.Status = standings(report, b.Inbox)[0]
	for _, state := range tasks.Statuses {
		if n := b.Status.Counts[state]; n > 0 {
			b.Counts = append(b.Counts, stateCount{state, n})
		}
	}
	events, err := s.Queue.InboxEvents(r.Context(), b.Inbox.ID, trailOfInbox)
	if err != nil {
		return err
	}
	for _, e := range events {
		b.Trail = append(b.Trail, momentOf(e))
	}
	latest, err := s.Queue.Search(r.Context(), tasks.Search{
		Inboxes: []int64{b.Inbox.ID}, Limit: latestOnHome, Examine: examined,
	})
	if err != nil {
		return err
	}
	audits, err := s.auditsOf(r.Context(), b.Inbox)
	if err != nil {
		return err
	}
	b.Now, b.Audit, b.Latest = s.Now(), audits[0], rowsOf(latest.Tasks)
	s.show(w, code, "inbox", page{Title: b.Inbox.Address, Nav: "inboxes", User: u, Body: b})
	return nil
}
