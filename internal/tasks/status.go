package tasks

import "slices"

// Status is the state of a task.
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
var Statuses = []Status{
	Received, InProgress, Error, Uncertain, Dead, Forwarded, SkippedNoMatch, Skipped,
}

// SkipReason is why a task was skipped.
type SkipReason string

// The reasons.
const (
	SkipDuplicate SkipReason = "duplicate"   // all recipients have the content by other tasks
	SkipLoop      SkipReason = "loop"        // forwarded before, made too many hops, or only for its own inbox
	SkipTooLarge  SkipReason = "too_large"   // larger than forward.max_size
	SkipVanished  SkipReason = "vanished"    // it is no longer in its folder, or its UID has another message
	SkipByRoute   SkipReason = "by_route"    // a route skips it
	SkipOperator  SkipReason = "by_operator" // an operator skipped it
	SkipReport    SkipReason = "report"      // a report of the bounce inbox: it was read, and is not forwarded
)

// KeepReason is why a message must stay on its server, whatever became of its task.
type KeepReason string

// The reasons, the strongest first.
const (
	KeepUndecided KeepReason = "undecided" // a route could not look at all of the message: others may have to get it
	KeepUnreached KeepReason = "unreached" // a route names a recipient that has no address
	KeepOwnCopy   KeepReason = "own_copy"  // the inbox itself was left out, and this is its only copy: it may be moved
)

// transitions is the state machine. What is not here is a programming error.
var transitions = map[Status][]Status{
	Received: {
		InProgress, // claim
		Skipped,    // operator
	},
	InProgress: {
		Forwarded, SkippedNoMatch, Skipped, Error, Dead, Uncertain, // finish
		InProgress, // claim after the lease ran out
		Received,   // release
	},
	Error: {
		InProgress, // claim when visible
		Received,   // operator: retry now
		Skipped,    // operator
	},
	Dead:           {Received, Skipped},            // operator
	Uncertain:      {Received, Forwarded, Skipped}, // operator
	Skipped:        {Received},                     // operator, or its message is there again
	SkippedNoMatch: {Received},                     // operator
	Forwarded:      {Received},                     // operator, if a recipient bounced
}

// registrable are the states in which a task may begin.
var registrable = []Status{Received, Skipped, SkippedNoMatch}

// Allowed reports whether a task may go from one state to another. An empty from stands for its
// registration.
func Allowed(from, to Status) bool {
	if from == "" {
		return slices.Contains(registrable, to)
	}
	return slices.Contains(transitions[from], to)
}

// From returns the states from which a task may go to the given one.
func From(to Status) []Status {
	var out []Status
	for _, s := range Statuses {
		if Allowed(s, to) {
			out = append(out, s)
		}
	}
	return out
}

// FromByOperator returns the states from which an operator may move a task to the given one. A task
// in progress belongs to its worker.
func FromByOperator(to Status) []Status {
	return slices.DeleteFunc(From(to), func(s Status) bool { return s == InProgress })
}

// EndsClaim reports whether a claim may be finished as s.
func (s Status) EndsClaim() bool {
	return s != InProgress && s != Received && Allowed(InProgress, s)
}

// Ended reports whether the task is done unless an operator steps in.
func (s Status) Ended() bool {
	return s != Received && s != InProgress && s != Error
}

// Purgeable are the states in which an operator may delete a task: every one that has ended, except
// Uncertain, which has to be resolved first.
var Purgeable = []Status{Forwarded, Skipped, SkippedNoMatch, Dead}
