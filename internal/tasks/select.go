package tasks

import (
	"fmt"
	"slices"
	"strings"

	"postrider/internal/text"
)

// Tally counts the tasks that a filter selects, for the question to the operator.
type Tally struct {
	IDs      []int64
	byStatus map[Status]int
	inboxes  []string
	bounced  int
}

// Add counts a task.
func (y *Tally) Add(t Task) {
	if y.byStatus == nil {
		y.byStatus = map[Status]int{}
	}
	y.IDs = append(y.IDs, t.ID)
	y.byStatus[t.Status]++
	if t.Status == Forwarded && t.HasBounced() {
		y.bounced++
	}
	if !slices.Contains(y.inboxes, t.Inbox) {
		y.inboxes = append(y.inboxes, t.Inbox)
	}
}

// String is like "213 tasks: 13 uncertain, 200 dead, in desk@firm.example".
func (y Tally) String() string {
	parts := []string{}
	for _, s := range Statuses {
		if n := y.byStatus[s]; n > 0 {
			part := fmt.Sprintf("%d %s", n, s)
			if s == Forwarded && y.bounced > 0 {
				part += fmt.Sprintf(" (%d bounced)", y.bounced)
			}
			parts = append(parts, part)
		}
	}
	where := strings.Join(y.inboxes, ", ")
	if len(y.inboxes) > 3 {
		where = fmt.Sprintf("%d inboxes", len(y.inboxes))
	}
	return fmt.Sprintf("%s: %s, in %s", text.Count(len(y.IDs), "task"), strings.Join(parts, ", "), where)
}
