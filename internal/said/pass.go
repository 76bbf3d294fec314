package said

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/health"
	"postrider/internal/pass"
	"postrider/internal/text"
)

// Line is one thing to print. Exactly one of NoInbox, Failure, Good and Sentence is set.
type Line struct {
	NoInbox  bool     // there is no active inbox
	Failure  string   // what failed; Error has why
	Good     string   // what works again
	Sentence string   // a whole sentence
	Error    string   // one line
	Inboxes  []string // that Failure and Good are about; none for the relay

	server string // one line is for all inboxes of it
}

// maxNamed is how many inboxes a line names.
const maxNamed = 20

// Who names the inboxes.
func (l Line) Who() string {
	if more := len(l.Inboxes) - maxNamed; more > 0 {
		return strings.Join(l.Inboxes[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(l.Inboxes, ", ")
}

// The subjects of states. An address follows those that end with a colon.
const (
	ofNoInbox = "no inbox"
	ofRelay   = "relay"
	ofInbox   = "inbox:"
	ofBacklog = "backlog:"
	ofRetry   = "retry:"
	ofAlert   = "alert:"
)

// AfterPass returns what to print after a pass. whole says that the pass was over all active
// inboxes. When the database fails AfterPass returns everything that holds, with the error.
func (s *Store) AfterPass(ctx context.Context, r pass.Report, alerts []health.Alert, whole bool) ([]Line, error) {
	states := statesOf(r, alerts)
	var all []string
	if whole {
		all = []string{ofAlert}
		states = append(states, State{ofNoInbox, len(r.Inboxes) == 0})
	}
	changes, err := s.Changes(ctx, states, all...)
	if err != nil { // what was taken before is said, too: nobody else does
		changes = slices.Concat(holding(states), changes)
	}
	return lines(r, alerts, bySubject(changes)), err
}

// Troubles are the sentences about messages, and the alerts, that hold after a pass, whatever was
// said before.
func Troubles(r pass.Report, alerts []health.Alert) []string {
	var out []string
	for _, l := range lines(r, alerts, bySubject(holding(statesOf(r, alerts)))) {
		if l.Sentence != "" {
			out = append(out, l.Sentence)
		}
	}
	return out
}

func bySubject(changes []Change) map[string]Change {
	news := map[string]Change{}
	for _, c := range changes {
		news[c.Subject] = c
	}
	return news
}

// holding are the states that hold, as if nothing had been said.
func holding(states []State) []Change {
	var out []Change
	for _, state := range states {
		if state.Holds {
			out = append(out, Change{State: state, Kind: Began})
		}
	}
	return out
}

// statesOf are the states that a pass found. It does not know the state of an inbox that another run
// scans, nor of a relay that it did not ask for anything, and not whether messages that failed
// before wait to be tried again.
func statesOf(r pass.Report, alerts []health.Alert) []State {
	var states []State
	for _, in := range r.Inboxes {
		if in.Error != "" || in.Busy == "" && !r.Interrupted {
			states = append(states, State{ofInbox + in.Email, in.Error != ""}, State{ofBacklog + in.Email, in.Counters.Backlog > 0})
		}
		if in.Counters.Retry > 0 {
			states = append(states, State{ofRetry + in.Email, true})
		}
	}
	if r.RelayError != "" || r.Totals.Forwarded > 0 {
		states = append(states, State{ofRelay, r.RelayError != ""})
	}
	for _, a := range alerts {
		states = append(states, State{alertSubject(a), true})
	}
	return states
}

func alertSubject(a health.Alert) string { return ofAlert + string(a.Kind) + ":" + a.Inbox }

// lines are what to say: failures of inboxes and of the relay, then what became of messages, then
// alerts.
func lines(r pass.Report, alerts []health.Alert, news map[string]Change) []Line {
	var out []Line
	if c, ok := news[ofNoInbox]; ok && c.Kind == Began {
		out = append(out, Line{NoInbox: true})
	}
	for _, in := range r.Inboxes {
		if c, ok := news[ofInbox+in.Email]; ok {
			out = add(out, inboxLine(in, c))
		}
	}
	if c, ok := news[ofRelay]; ok {
		out = append(out, relayLine(r, c))
	}
	for _, in := range r.Inboxes {
		if s := trouble(in, news); s != "" {
			out = append(out, Line{Sentence: s})
		}
	}
	for _, a := range alerts {
		if _, ok := news[alertSubject(a)]; ok {
			out = append(out, Line{Sentence: text.Line(a.Message)})
		}
	}
	return out
}

func inboxLine(in pass.InboxReport, c Change) Line {
	began, lasts := "the inbox failed", "the inbox still fails"
	if in.Left != "" {
		began, lasts = "the server cannot be reached, and is left for this pass", "the server still cannot be reached"
	}
	l := about(c, began, lasts, "again reachable", in.Error)
	l.Inboxes = []string{in.Email}
	if c.Kind != Ended {
		l.server = in.Left
	}
	return l
}

func relayLine(r pass.Report, c Change) Line {
	return about(c, "the relay is at fault: forwarding stops for this pass; what is not forwarded waits for the next",
		"the relay is still at fault", "the relay takes mail again", r.RelayError)
}

func about(c Change, began, lasts, ended, why string) Line {
	switch c.Kind {
	case Began:
		return Line{Failure: began, Error: why}
	case Lasts:
		return Line{Failure: lasts + " after " + text.Lasted(c.Lasted), Error: why}
	}
	return Line{Good: ended + " after " + text.Lasted(c.Lasted)}
}

// add adds a line, or its inbox to an equal line. For a server any of the errors will do.
func add(lines []Line, l Line) []Line {
	for i, other := range lines {
		same := other.Error == l.Error && other.server == l.server || l.server != "" && other.server == l.server
		if same && other.Failure == l.Failure && other.Good == l.Good {
			lines[i].Inboxes = append(lines[i].Inboxes, l.Inboxes...)
			return lines
		}
	}
	return append(lines, l)
}

// trouble is what became of messages of an inbox, when somebody should know. That a message died is
// always worth a line. That messages wait is a state.
func trouble(in pass.InboxReport, news map[string]Change) string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if _, ok := news[ofRetry+in.Email]; ok {
		add(in.Counters.Retry, "to be retried")
	}
	add(in.Counters.Dead, "dead (see `postrider task list --status dead`)")
	add(in.Counters.Uncertain, "uncertain (see `postrider task list --status uncertain`)")
	if _, ok := news[ofBacklog+in.Email]; ok {
		add(in.Counters.Backlog, "not registered yet")
	}
	if len(parts) == 0 {
		return ""
	}
	add(in.Counters.Waiting, "waiting for smtp.limits") // which alone is not an error
	return in.Email + ": " + strings.Join(parts, ", ")
}
