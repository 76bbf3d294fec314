package tasks

import (
	"slices"

	"postrider/internal/text"
)

// ByText reports whether the filter has texts, which Matches compares.
func (f Filter) ByText() bool { return f.Sender+f.Recipient+f.Subject+f.MessageID != "" }

// Matches reports whether a task has the texts of the filter.
func (f Filter) Matches(t Task) bool {
	return text.Contains(t.Identity.Sender, f.Sender) &&
		text.Contains(t.Identity.Subject, f.Subject) &&
		text.Contains(t.Identity.MessageID, f.MessageID) &&
		(f.Recipient == "" || t.hasRecipient(f.Recipient))
}

func (t Task) hasRecipient(part string) bool {
	return slices.ContainsFunc(t.Deliveries, func(d Delivery) bool { return text.Contains(d.Recipient, part) })
}
