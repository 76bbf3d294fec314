package tasks

import (
	"fmt"
	"strconv"
	"strings"
)

// DuplicatePrefix and the id of a task make the reason of a duplicate of it.
const DuplicatePrefix = "duplicate: the same message is task "

// ByPersonPrefix and who it was make the reason of a task that a person skipped.
const ByPersonPrefix = "by_person: "

// DuplicateOf is the reason of a task that is skipped because task id accounts for an equal message.
func DuplicateOf(id int64) string {
	return DuplicatePrefix + strconv.FormatInt(id, 10)
}

// InPlaceOf is what the audit trail says of a duplicate of task id that takes its place.
func InPlaceOf(id int64, why string) string {
	return fmt.Sprintf("task %d, of which this was a duplicate, left its place: %s", id, why)
}

// OutOfUse is why tasks leave their claims and their place when their inbox is disabled.
const OutOfUse = "its inbox was taken out of use"

// MayHaveArrived begins the reason of a task that waits for a person since its outcome is not known, whatever else is known.
const MayHaveArrived = "it may have arrived"

// Poisoned is how a task ends that lost so many leases, and why: dead, or uncertain when a worker was sending it.
func Poisoned(t Task) (Status, string) {
	why := fmt.Sprintf("its worker died or hung %d times (last: %s): it seems to kill its workers; try again with `postrider task retry %d`",
		t.LostLeases, t.Worker, t.ID)
	if stands(t.Deliveries, Sending) {
		return Uncertain, MayHaveArrived + ": " + why
	}
	return Dead, why
}

// TakenOver is what the audit trail says of a claim whose lease ran out under another worker, and to whom the message may
// have gone by then.
func TakenOver(from string, ds []Delivery) string {
	var sending []string
	for _, d := range ds {
		if d.Status == Sending {
			sending = append(sending, d.Recipient)
		}
	}
	if len(sending) == 0 {
		return "taken over from " + from
	}
	return "taken over from " + from + "; it was sending to " + strings.Join(sending, ", ")
}

// Standing is how a task stands whose receipt was stale, and why. heldBy is who has claimed it since, empty when nobody has; is is empty when
// the task is not there any more.
func Standing(is Status, heldBy string, inboxInUse bool) string {
	switch {
	case is == "":
		return "the task has been deleted, or its inbox was removed"
	case heldBy != "":
		return fmt.Sprintf("the task is %s, last claimed by %s", is, heldBy)
	case !inboxInUse:
		return fmt.Sprintf("the task is %s: %s", is, OutOfUse)
	}
	return fmt.Sprintf("the task is %s: somebody else has changed it", is)
}

// Conflict is what the audit trail says of a receipt that was stale when its holder wanted the task to become wanted.
func Conflict(wanted Status, standing string) string {
	return fmt.Sprintf("its lease was lost, and it wanted %s; %s", wanted, standing)
}
