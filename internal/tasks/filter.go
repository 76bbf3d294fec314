package tasks

import (
	"slices"
	"strings"
)

// ByText reports whether the filter has texts, which Matches compares.
func (f Filter) ByText() bool { return f.Sender+f.Recipient+f.Subject+f.MessageID != "" }

// Matches reports whether a task has the texts of the filter.
func (f Filter) Matches(t Task) bool {
	return contains(t.Identity.Sender, f.Sender) && contains(t.Identity.Subject, f.Subject) && contains(t.Identity.MessageID, f.MessageID) &&
		(f.Recipient == "" || slices.ContainsFunc(t.Deliveries, func(d Delivery) bool { return contains(d.Recipient, f.Recipient) }))
}

// contains reports whether part is in text, whatever their case.
func contains(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
