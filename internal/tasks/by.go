package tasks

import "strings"

// By is the operator who does something, for the audit trail. Because adds the reason.
type By string

// Because is the operator with a reason.
func (b By) Because(why string) By { return By(b.Who() + "\n" + why) }

// Who is the operator alone.
func (b By) Who() string {
	who, _, _ := strings.Cut(string(b), "\n")
	return who
}

// Why is the reason; empty when there is none.
func (b By) Why() string {
	_, why, _ := strings.Cut(string(b), "\n")
	return why
}

// Detail is what the audit trail says of a change by an operator, besides who.
func (b By) Detail() string {
	if why := b.Why(); why != "" {
		return "by an operator: " + why
	}
	return "by an operator"
}
