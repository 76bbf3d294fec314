package tasks

import "slices"

// By is the operator who does something, and mostly why, for the audit trail.
type By struct {
	Who, Why string
	From     []Status // a task that is in none of these states by now is left alone; nil: in any
}

// Means reports whether a task in the state may be changed as far as From goes.
func (b By) Means(s Status) bool { return b.From == nil || slices.Contains(b.From, s) }

// Detail is what the audit trail says of a change by an operator, besides who.
func (b By) Detail() string {
	if b.Why != "" {
		return "by an operator: " + b.Why
	}
	return "by an operator"
}
