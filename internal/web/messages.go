package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// What one request of a search reads and shows at most.
const (
	messagesOnPage = 50
	examined       = 50_000
	maxText        = 500 // characters of a parameter
)

// searchForm is what was asked for, as it was typed, by the names of the fields.
type searchForm map[string]string

var searchFields = []string{
	"q", "from", "to", "subject", "message_id", "since", "until", "inbox", "label", "state", "before",
}

// searchBody is what the list of messages shows.
type searchBody struct {
	Form    searchForm
	More    bool // more than the text was asked for
	States  []tasks.Status
	Inboxes []string
	Labels  []string
	Zone    string // in which days begin
	Found   []messageRow
	ID      int64  // a message that has the text as its number; 0 for none
	Older   string // the address of the older ones; empty when there are none
	Until   *time.Time
	Newest  string // the address of the newest ones; empty when these are they
	Problem string
}

// formOf reads a search.
func formOf(q url.Values) searchForm {
	f := searchForm{}
	for _, name := range searchFields {
		f[name] = text.Line(q.Get(name))
	}
	return f
}

// address is the page of the search before a message.
func (f searchForm) address(before int64) string {
	q := url.Values{}
	for name, value := range f {
		if value != "" && name != "before" {
			q.Set(name, value)
		}
	}
	if before != 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	return strings.TrimSuffix("/messages?"+q.Encode(), "?")
}

// more reports whether more than the text was asked for.
func (f searchForm) more() bool {
	return slices.ContainsFunc(searchFields, func(name string) bool {
		return f[name] != "" && name != "q" && name != "before"
	})
}

// What can be searched for besides the states.
const (
	waitingStates   = "waiting"
	attentionStates = "attention"
	bouncedState    = "bounced" // a mark, and no state of a task
)

// search is what the queue is asked for. Its failures name the field.
func (f searchForm) search(boxes []inbox.Inbox, zone *time.Location) (tasks.Search, error) {
	q := tasks.Search{
		Text: f["q"], Sender: f["from"], Recipient: f["to"], Subject: f["subject"], MessageID: f["message_id"],
		Limit: messagesOnPage, Examine: examined,
	}
	var err error
	if f["before"] != "" {
		if q.Before, err = strconv.ParseInt(f["before"], 10, 64); err != nil || q.Before < 0 {
			return q, badRequest("%q is not the number of a message.", f["before"])
		}
	}
	if q.Since, err = day(f["since"], 0, zone); err != nil {
		return q, err
	}
	if q.Until, err = day(f["until"], 1, zone); err != nil { // that day, too
		return q, err
	}
	switch state := f["state"]; state {
	case "":
	case waitingStates:
		q.Statuses = []tasks.Status{tasks.Received, tasks.InProgress, tasks.Error}
	case attentionStates:
		q.Statuses = []tasks.Status{tasks.Dead, tasks.Uncertain}
	case bouncedState:
		q.Bounced = true
	default:
		if !slices.Contains(tasks.Statuses, tasks.Status(state)) {
			known := append(text.Strings(tasks.Statuses), waitingStates, attentionStates, bouncedState)
			return q, badRequest("There is no state %q; there are %s%s",
				state, strings.Join(known, ", "), cmp.Or(text.DidYouMean(state, known), "."))
		}
		q.Statuses = []tasks.Status{tasks.Status(state)}
	}
	if address := f["inbox"]; address != "" {
		boxes = slices.DeleteFunc(slices.Clone(boxes), func(in inbox.Inbox) bool {
			return !strings.EqualFold(in.Address, address)
		})
		if len(boxes) == 0 {
			return q, badRequest("There is no inbox %q; give its whole address.", address)
		}
	}
	if label := f["label"]; label != "" {
		boxes = slices.DeleteFunc(slices.Clone(boxes), func(in inbox.Inbox) bool {
			return !inbox.Selection{Labels: []string{label}}.Has(in)
		})
	}
	if f["inbox"]+f["label"] != "" {
		q.Inboxes = inbox.IDs(boxes)
	}
	return q, nil
}

// day is when the day so many days after s begins.
func day(s string, after int, zone *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1971 || t.Year() > 9000 {
		return time.Time{}, badRequest("%q is not a day; write it like 2026-03-31.", s)
	}
	return text.Midnight(t.AddDate(0, 0, after), zone), nil
}

// find runs the search of a request.
func (s *Server) find(r *http.Request) (f searchForm, found tasks.Found, boxes []inbox.Inbox, err error) {
	if boxes, err = s.Inboxes.List(r.Context()); err != nil {
		return f, found, nil, err
	}
	asked, err := parameters(r, searchFields...)
	f = formOf(asked)
	if err != nil {
		return f, found, boxes, err
	}
	q, err := f.search(boxes, s.Zone)
	if err == nil {
		found, err = s.Queue.Search(r.Context(), q)
	}
	return f, found, boxes, err
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request, u user) error {
	f, found, boxes, err := s.find(r)
	b := searchBody{Form: f, More: f.more(), States: tasks.Statuses, Zone: s.zone()}
	code := http.StatusOK
	var bad *failure // of the form
	if errors.As(err, &bad) {
		code, b.Problem = bad.code, bad.says
	} else if err != nil {
		return err
	}
	b.ID = s.numbered(r.Context(), f["q"])
	for _, in := range boxes {
		b.Inboxes = append(b.Inboxes, in.Address)
	}
	b.Labels = labels(boxes)
	b.Found, b.Until = rowsOf(found.Tasks, f["q"], f["to"]), found.Until
	if found.Next != 0 {
		b.Older = f.address(found.Next)
	}
	if f["before"] != "" {
		b.Newest = f.address(0)
	}
	s.show(w, code, "messages", page{Title: "Messages", Nav: "messages", User: u, Query: f["q"], Body: b})
	return nil
}

// zone names the zone of the server, such as CET or UTC-03.
func (s *Server) zone() string {
	name := s.Now().In(s.Zone).Format("MST")
	if strings.ContainsAny(name, "+-") {
		name = "UTC" + name
	}
	return name
}

// numbered is the message whose number was searched for; 0 when there is none.
func (s *Server) numbered(ctx context.Context, q string) int64 {
	id, err := strconv.ParseInt(strings.TrimPrefix(q, "#"), 10, 64)
	if err != nil || id < 1 {
		return 0
	}
	if _, err := s.Queue.Get(ctx, id); err != nil {
		return 0
	}
	return id
}

// labels are those of all inboxes, each once.
func labels(boxes []inbox.Inbox) []string {
	var out []string
	for _, in := range boxes {
		out = append(out, in.Labels.Texts()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// messageRow is a message in a list.
type messageRow struct {
	tasks.Task
	To   []tasks.Delivery
	More int // recipients that are not in To
}

// recipientsInList is how many recipients a message in a list has at most.
const recipientsInList = 5

// rowsOf are messages for a list. Recipients that were searched for come first.
func rowsOf(all []tasks.Task, searched ...string) []messageRow {
	out := make([]messageRow, len(all))
	for i, t := range all {
		var first, others []tasks.Delivery
		for _, d := range t.Deliveries {
			if slices.ContainsFunc(searched, func(q string) bool { return q != "" && text.Contains(d.Recipient, q) }) {
				first = append(first, d)
			} else {
				others = append(others, d)
			}
		}
		to := slices.Concat(first, others)
		n := min(len(to), recipientsInList)
		out[i] = messageRow{t, to[:n], len(to) - n}
	}
	return out
}
