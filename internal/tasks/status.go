package tasks

import "slices"

// Status is where a task stands.
type Status string

// The states of a task.
const (
	Received       Status = "received"
	InProgress     Status = "in_progress"
	Forwarded      Status = "forwarded"
	SkippedNoMatch Status = "skipped_no_match"
	Skipped        Status = "skipped"
	Error          Status = "error"
	Dead           Status = "dead"
	Uncertain      Status = "uncertain"
)

// Statuses are all states, in the order in which people read them.
var Statuses = []Status{Received, InProgress, Error, Uncertain, Dead, Forwarded, SkippedNoMatch, Skipped}

// transitions is the state machine. What is not here is a programming error.
var transitions = map[Status][]Status{
	Received: {
		InProgress, // claim
		Skipped,    // by a person
	},
	InProgress: {
		Forwarded, SkippedNoMatch, Skipped, Error, Dead, Uncertain, // finish
		InProgress, // claim after the lease ran out
		Received,   // release
	},
	Error: {
		InProgress, // claim when visible
		Received,   // by a person: try now
		Skipped,    // by a person
	},
	Dead:           {Received, Skipped},            // by a person
	Uncertain:      {Received, Forwarded, Skipped}, // by a person
	Skipped:        {Received},                     // by a person, or in place of an equal one that is gone
	SkippedNoMatch: {Received},                     // by a person
	Forwarded:      {},
}

// registrable are the states in which a task may begin.
var registrable = []Status{Received, Skipped}

// Allowed reports whether a task may go from one state to another. An empty from stands for its registration.
func Allowed(from, to Status) bool {
	if from == "" {
		return slices.Contains(registrable, to)
	}
	return slices.Contains(transitions[from], to)
}

// From are the states that lead to to.
func From(to Status) []Status {
	var out []Status
	for _, s := range Statuses {
		if Allowed(s, to) {
			out = append(out, s)
		}
	}
	return out
}

// FromByPerson are the states out of which a person may take a task to to; one in progress belongs to its worker.
func FromByPerson(to Status) []Status {
	return slices.DeleteFunc(From(to), func(s Status) bool { return s == InProgress })
}

// EndsClaim reports whether a claim may be finished as s.
func (s Status) EndsClaim() bool {
	return s != InProgress && s != Received && Allowed(InProgress, s)
}

// Ended reports whether nothing happens to the task any more unless a person steps in.
func (s Status) Ended() bool {
	return s != Received && s != InProgress && s != Error
}

// Purgeable are the states in which a person may have a task deleted: ended, and with nothing left to decide.
var Purgeable = []Status{Forwarded, Skipped, SkippedNoMatch, Dead}
