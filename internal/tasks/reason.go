package tasks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/text"
)

func filter(ds []Delivery, keep func(Delivery) bool) []Delivery {
	return slices.DeleteFunc(slices.Clone(ds), func(d Delivery) bool { return !keep(d) })
}

// lines are deliveries for the reason of a task.
func lines(ds []Delivery) string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = d.line()
	}
	return strings.Join(out, "; ")
}

func (d Delivery) line() string {
	switch {
	case d.Reply == "":
		return d.Recipient
	case d.Code == 0:
		return d.Recipient + ": " + d.Reply
	}
	return fmt.Sprintf("%s: %d %s", d.Recipient, d.Code, d.Reply)
}

func gaveUp(t Task, now time.Time) string {
	age := now.Sub(t.QueuedAt).Round(time.Second)
	return fmt.Sprintf("given up after %s in %s: ", text.Count(t.Attempts, "attempt"), age)
}

// duplicateOf is the reason of a task whose recipients all have the content through other tasks.
func duplicateOf(ds []Delivery) string {
	return "duplicate: the same message is " + owners(ds, Duplicated)
}

// waitsFor is the reason of a task that waits for deliveries of other tasks.
func waitsFor(ds []Delivery) string { return "waits: the same message is " + owners(ds, Pending) }

// owners names the tasks that deliveries in one state are duplicates of, or wait for.
func owners(ds []Delivery, in DeliveryStatus) string {
	var ids []string
	for _, d := range ds {
		id := fmt.Sprintf("task %d", d.DuplicateOf)
		if d.Status == in && d.DuplicateOf != 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ", ")
}

// BySkip is the reason of a task that an operator skipped.
func BySkip(by By) string {
	if by.Why != "" {
		return "by_operator: " + by.Who + ": " + by.Why
	}
	return "by_operator: " + by.Who
}

// Disabled is why tasks lose their claims when their inbox is disabled.
const Disabled = "its inbox was disabled"

// TakenOver is what the audit trail says about a claim that another worker takes over, and about
// the recipients who may have the message by then.
func TakenOver(from string, ds []Delivery) string {
	sending := Recipients(ds, Sending)
	if len(sending) == 0 {
		return "taken over from " + from
	}
	return "taken over from " + from + ", which was sending to " + strings.Join(sending, ", ") + ", who may have it"
}

// Stale is why a receipt is no longer good. heldBy is who has claimed the task since, empty when it
// is not claimed; is is empty when the task is gone.
func Stale(is Status, heldBy string, inboxActive bool) string {
	switch {
	case is == "":
		return "the task has been deleted, or its inbox was removed"
	case heldBy != "":
		return fmt.Sprintf("the task is %s, last claimed by %s", is, heldBy)
	case !inboxActive:
		return fmt.Sprintf("the task is %s: %s", is, Disabled)
	}
	return fmt.Sprintf("the task is %s: it was changed concurrently", is)
}

// Conflict is what the audit trail says about a stale receipt whose holder tried to set the status
// wanted.
func Conflict(wanted Status, stale string) string {
	return fmt.Sprintf("the lease was lost, so the status %s was not recorded; %s", wanted, stale)
}
