package pass

import (
	"time"

	"postrider/internal/tasks"
)

// Counters count messages.
type Counters struct {
	Registered     int `json:"registered"`
	Forwarded      int `json:"forwarded"`
	SkippedNoMatch int `json:"skipped_no_match"`
	Skipped        int `json:"skipped"`
	Retry          int `json:"retry"` // failed and to be retried, or released
	Dead           int `json:"dead"`
	Uncertain      int `json:"uncertain"`
	Waiting        int `json:"waiting"` // for a limit of the relay's provider
	Backlog        int `json:"backlog"` // UIDs above the cursor that this pass did not scan
}

// InboxReport is the result of one inbox.
type InboxReport struct {
	Email    string
	Labels   map[string]string
	Error    string // empty when the inbox was finished
	Left     string // its server, if that was left for this pass before the inbox was tried to its end
	Busy     string // another run scans it: who, and until when
	Counters Counters
}

// Report is the result of a pass. It is what `run --json` prints.
type Report struct {
	StartedAt  time.Time `json:"started_at"`
	DurationMS int64     `json:"duration_ms"`
	RelayError string    `json:"relay_error,omitempty"` // why forwarding stopped
	// RelayTried says that the relay was handed a message, whatever it replied.
	RelayTried bool `json:"-"`
	// LimitReached says which of smtp.limits is used up, and until when. Waiting messages wait for
	// it.
	LimitReached string        `json:"limit_reached,omitempty"`
	Interrupted  bool          `json:"interrupted,omitempty"` // by a signal or --timeout
	Totals       Counters      `json:"totals"`
	Inboxes      []InboxReport `json:"inboxes"`
}

func (c *Counters) add(o Counters) {
	c.Registered += o.Registered
	c.Forwarded += o.Forwarded
	c.SkippedNoMatch += o.SkippedNoMatch
	c.Skipped += o.Skipped
	c.Retry += o.Retry
	c.Dead += o.Dead
	c.Uncertain += o.Uncertain
	c.Waiting += o.Waiting
	c.Backlog += o.Backlog
}

// count adds one task that ended in s. It does not count those that are to be retried.
func (c *Counters) count(s tasks.Status) {
	switch s {
	case tasks.Forwarded:
		c.Forwarded++
	case tasks.SkippedNoMatch:
		c.SkippedNoMatch++
	case tasks.Skipped:
		c.Skipped++
	case tasks.Dead:
		c.Dead++
	case tasks.Uncertain:
		c.Uncertain++
	}
}

// Clean reports whether nothing is left to be retried, and an operator has nothing to decide. A
// message may wait for a limit: later passes send it.
func (r *Report) Clean() bool {
	if r.RelayError != "" || r.Interrupted {
		return false
	}
	for _, in := range r.Inboxes {
		if in.Error != "" {
			return false
		}
	}
	return r.Totals.Retry == 0 && r.Totals.Dead == 0 && r.Totals.Uncertain == 0 && r.Totals.Backlog == 0
}
