package said

import (
	"cmp"
	"context"
	"slices"

	"postrider/internal/health"
	"postrider/internal/pass"
)

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
	return s.say(ctx, found{r, alerts, ofPass}, whole)
}

// Meanwhile is AfterPass for a process that stays up, with what it has learned of the relay and of
// all active inboxes since it said something. Inboxes of which it learned nothing are Busy.
func (s *Store) Meanwhile(ctx context.Context, r pass.Report, alerts []health.Alert) ([]Line, error) {
	return s.say(ctx, found{r, alerts, ofStaying}, true)
}

// found is what there may be to say something about.
type found struct {
	report pass.Report
	alerts []health.Alert
	words  words
}

// words are about failures that have begun.
type words struct{ server, relay string }

var (
	ofPass = words{
		"the server cannot be reached; its remaining inboxes are skipped in this pass",
		"the relay failed: forwarding stops for this pass; the remaining messages wait for the next",
	}
	ofStaying = words{
		"the server cannot be reached; postrider tries again with growing pauses",
		"the relay failed: messages wait; the relay is tried again with growing pauses",
	}
)

func (s *Store) say(ctx context.Context, f found, whole bool) ([]Line, error) {
	states := statesOf(f.report, f.alerts)
	var all []string
	if whole {
		all = []string{ofAlert}
		states = append(states, State{ofNoInbox, len(f.report.Inboxes) == 0})
	}
	changes, err := s.Changes(ctx, states, all...)
	if err != nil { // what was taken before is said, too: nobody else does
		changes = slices.Concat(holding(states), changes)
	}
	return f.lines(bySubject(changes)), err
}

// Troubles are the sentences about messages, and the alerts, that hold after a pass, whatever was
// said before.
func Troubles(r pass.Report, alerts []health.Alert) []string {
	var out []string
	for _, l := range (found{r, alerts, ofPass}).lines(bySubject(holding(statesOf(r, alerts)))) {
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

// statesOf are the states that a pass found. It does not know the state of an inbox that another
// run scans, nor of a relay that it did not ask for anything, and not whether messages that failed
// before wait to be tried again.
func statesOf(r pass.Report, alerts []health.Alert) []State {
	var states []State
	for _, in := range r.Inboxes {
		if in.Error != "" || in.Busy == "" && !r.Interrupted {
			states = append(states,
				State{ofInbox + in.Email, in.Error != ""},
				State{ofBacklog + in.Email, in.Counters.Backlog > 0})
		}
		if in.Counters.Retry > 0 {
			states = append(states, State{ofRetry + in.Email, true})
		}
	}
	if r.RelayTried {
		states = append(states, State{ofRelay, r.RelayError != ""})
	}
	for _, a := range alerts {
		states = append(states, State{alertSubject(a), true})
	}
	return states
}

func alertSubject(a health.Alert) string {
	return ofAlert + string(a.Kind) + ":" + cmp.Or(a.Inbox, a.Destination)
}
