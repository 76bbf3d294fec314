package pass

import "postrider/internal/tasks"

// ReplayOutcome is what a replay found of one message.
type ReplayOutcome string

// The outcomes.
const (
	Unchanged   ReplayOutcome = "unchanged"    // the same recipients, or again none
	Elsewhere   ReplayOutcome = "elsewhere"    // other recipients
	Waiting     ReplayOutcome = "waiting"      // not sent yet: the next run decides
	NotByRoute  ReplayOutcome = "not_by_route" // duplicate, loop, report, too large, or an operator decided
	NotCompared ReplayOutcome = "not_compared" // the routes need what cannot be read now, or ever

	Compared ReplayOutcome = "" // it can be compared; the outcome is not known yet
)

// ReplayFate is who gets a message.
type ReplayFate struct {
	Status     tasks.Status `json:"status"`
	Route      string       `json:"route"`
	Recipients []string     `json:"recipients"`
	LeftOut    string       `json:"left_out,omitempty"` // the inbox's own address, which gets nothing
	Reason     string       `json:"reason,omitempty"`   // why there is no recipient
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
	Now     *ReplayFate   `json:"now"`           // nil when it could not be compared
	Why     string        `json:"why,omitempty"` // why not
}

// ReplayCounts are how many messages there are of each outcome.
type ReplayCounts struct {
	Messages    int `json:"messages"`
	Unchanged   int `json:"unchanged"`
	Elsewhere   int `json:"elsewhere"`
	Waiting     int `json:"waiting"`
	NotByRoute  int `json:"not_by_route"`
	NotCompared int `json:"not_compared"`
	// Purged are messages of that time whose tasks are purged, so not compared and not in Messages.
	// It is an upper limit, and counts every route.
	Purged int `json:"purged"`
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
	Error  string // why not all of it could be compared now
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
