package tasks

// By is the operator who does something, and mostly why, for the audit trail.
type By struct{ Who, Why string }

// Detail is what the audit trail says of a change by an operator, besides who.
func (b By) Detail() string {
	if b.Why != "" {
		return "by an operator: " + b.Why
	}
	return "by an operator"
}
