package pass

import "postrider/internal/tasks"

// ReplayOutcome is what a replay found of one message.
type ReplayOutcome string

// The outcomes.
const (
	Unchanged   ReplayOutcome = "unchanged"    // to the same people as before; nobody is the same, too
	Elsewhere   ReplayOutcome = "elsewhere"    // to others
	Waiting     ReplayOutcome = "waiting"      // not sent yet: the next run decides by the current routes
	NotByRoute  ReplayOutcome = "not_by_route" // something else decided: a duplicate, a loop, too large, a person
	NotCompared ReplayOutcome = "not_compared" // the routes ask for what cannot be read any more, or not now

	Compared ReplayOutcome = "" // not told apart yet
)

// ReplayFate is to whom a message goes.
type ReplayFate struct {
	Status     tasks.Status `json:"status"`
	Route      string       `json:"route"`
	Recipients []string     `json:"recipients"`
	LeftOut    string       `json:"left_out,omitempty"` // the inbox's own address, which does not get it by the routes of today
	Reason     string       `json:"reason,omitempty"`   // nobody gets it
}

// Replayed is one message that would go elsewhere, or that could not be compared.
type Replayed struct {
	TaskID  int64         `json:"id"`
	Inbox   string        `json:"inbox"`
	Folder  string        `json:"folder"`
	UID     uint32        `json:"uid"`
	Subject string        `json:"subject"`
	Outcome ReplayOutcome `json:"outcome"`
	Before  ReplayFate    `json:"before"`
	Now     *ReplayFate   `json:"now"`           // nil: it could not be compared
	Why     string        `json:"why,omitempty"` // for this reason
}

// ReplayCounts are how many messages there are of each outcome.
type ReplayCounts struct {
	Messages    int `json:"messages"`
	Unchanged   int `json:"unchanged"`
	Elsewhere   int `json:"elsewhere"`
	Waiting     int `json:"waiting"`
	NotByRoute  int `json:"not_by_route"`
	NotCompared int `json:"not_compared"`
	Purged      int `json:"purged"` // beside Messages, at most: messages of that time whose tasks are not there to be compared, by whatever route
}

func (c *ReplayCounts) count(o ReplayOutcome) {
	switch o {
	case Unchanged:
		c.Unchanged++
	case Elsewhere:
		c.Elsewhere++
	case Waiting:
		c.Waiting++
	case NotByRoute:
		c.NotByRoute++
	case NotCompared:
		c.NotCompared++
	}
}

func (c *ReplayCounts) add(o ReplayCounts) {
	c.Messages += o.Messages
	c.Unchanged += o.Unchanged
	c.Elsewhere += o.Elsewhere
	c.Waiting += o.Waiting
	c.NotByRoute += o.NotByRoute
	c.NotCompared += o.NotCompared
	c.Purged += o.Purged
}

// InboxReplay is what a replay found in one inbox.
type InboxReplay struct {
	Email  string
	Error  string // why not all of it could be compared, though it may be later
	Counts ReplayCounts
}

// ReplayReport is what came of a replay.
type ReplayReport struct {
	Interrupted bool          `json:"interrupted,omitempty"`
	Totals      ReplayCounts  `json:"totals"`
	Inboxes     []InboxReplay `json:"inboxes"`
}

// Whole reports whether everything was compared that still can be.
func (r *ReplayReport) Whole() bool {
	for _, in := range r.Inboxes {
		if in.Error != "" {
			return false
		}
	}
	return !r.Interrupted
}
