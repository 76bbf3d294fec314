package tasks

import (
	"slices"
	"strings"
)

// Change says to which tasks an operator may do something.
type Change struct {
	From  []Status // it is for tasks in these states
	Meant []Status // those of them that are meant when the operator does not say which

	// Bounced are the states that are meant when the operator gives --bounced. Tasks in the states
	// OnlyBounced are not changed unless a delivery bounced.
	Bounced, OnlyBounced []Status
}

// Fits reports whether the command may change the task.
func (c Change) Fits(t Task) bool { return slices.Contains(c.From, t.Status) && !c.arrived(t) }

// arrived reports whether the command is for bounced tasks only, and this one has not bounced.
func (c Change) arrived(t Task) bool {
	return slices.Contains(c.OnlyBounced, t.Status) && !t.HasBounced()
}

// states names the states that the command is for.
func (c Change) states() string {
	names := Names(c.From)
	for i, s := range c.From {
		if slices.Contains(c.OnlyBounced, s) {
			names[i] += " and bounced"
		}
	}
	return strings.Join(names, ", ")
}

// ToRetry is for Requeue.
func ToRetry() Change {
	return Change{
		From: FromByOperator(Received), Meant: failed(),
		Bounced: []Status{Forwarded, Dead}, OnlyBounced: []Status{Forwarded},
	}
}

// ToSkip is for Skip.
func ToSkip() Change { return Change{From: FromByOperator(Skipped), Meant: failed()} }

// ToResolve is for Resolve.
func ToResolve() Change {
	return Change{From: FromByOperator(Forwarded), Meant: FromByOperator(Forwarded)}
}

// ToPurge is for Purge.
func ToPurge() Change { return Change{From: Purgeable, Meant: []Status{Forwarded}} }

// failed are the states of tasks that a recipient did not get, or may not have got.
func failed() []Status { return []Status{Error, Uncertain, Dead} }
