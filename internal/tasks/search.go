package tasks

import (
	"context"
	"slices"
	"time"

	"postrider/internal/text"
)

// Finder searches tasks. Search reads at most Search.Examine of them, or the few that an index
// finds.
type Finder interface {
	// Search returns tasks that match, the newest first.
	Search(ctx context.Context, s Search) (Found, error)
	// History counts the tasks of the inboxes that ended since then, by hour and state. Purged
	// tasks are not counted.
	History(ctx context.Context, inboxIDs []int64, since time.Time) ([]Ended, error)
}

// Search is what people know about a message. Empty fields match everything. Texts are parts, and
// upper and lower case are the same.
type Search struct {
	Text                                  string // of the sender, a recipient, the subject or the Message-ID
	Sender, Recipient, Subject, MessageID string
	Statuses                              []Status
	Bounced                               bool      // with a delivery that bounced
	Inboxes                               []int64   // one of these; nil for all
	Since, Until                          time.Time // registered from Since on, and before Until

	Before int64 // only tasks with a lower ID; 0 for all
	Limit  int   // of the answer
	// Examine is how many tasks are read at most. Few tasks in some states, or of some inboxes, are
	// found by an index, whatever their age, and all of them are read.
	Examine int
}

// Found is the answer to a Search.
type Found struct {
	Tasks []Task
	// Next is the Search.Before that finds the older ones; 0 when there are none.
	Next int64
	// Until is when the oldest task that was looked at was registered, if the search ended because
	// it had read Search.Examine tasks; nil otherwise.
	Until *time.Time
}

// Ended is how many tasks ended in one hour.
type Ended struct {
	Hour   time.Time // its beginning, in UTC
	Status Status
	N      int
}

// Matches reports whether a task matches the search, without regard to Before.
func (s Search) Matches(t Task) bool {
	return (len(s.Statuses) == 0 || slices.Contains(s.Statuses, t.Status)) && (!s.Bounced || t.HasBounced()) &&
		(s.Inboxes == nil || slices.Contains(s.Inboxes, t.InboxID)) &&
		(s.Since.IsZero() || !t.CreatedAt.Before(s.Since)) && (s.Until.IsZero() || t.CreatedAt.Before(s.Until)) &&
		Filter{Sender: s.Sender, Recipient: s.Recipient, Subject: s.Subject, MessageID: s.MessageID}.Matches(t) &&
		(s.Text == "" || text.Contains(t.Identity.Sender, s.Text) || text.Contains(t.Identity.Subject, s.Text) ||
			text.Contains(t.Identity.MessageID, s.Text) || t.hasRecipient(s.Text))
}

// ByText reports whether texts have to be compared, and ByRecipient whether recipients have to be.
func (s Search) ByText() bool { return s.Sender+s.Subject+s.MessageID != "" || s.ByRecipient() }

// ByRecipient is explained at ByText.
func (s Search) ByRecipient() bool { return s.Recipient+s.Text != "" }
