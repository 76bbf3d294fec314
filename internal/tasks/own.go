package tasks

import (
	"slices"
	"strings"
	"time"

	"postrider/internal/address"
)

// WaitRecheck is how long a task waits at most for another task's delivery before it checks again.
// When that delivery is settled, the task is woken; only if the wake-up is lost does it wait this
// long.
const WaitRecheck = time.Minute

// Owner is the task that owns (scope, content, recipient).
type Owner struct {
	TaskID int64
	// Open is set while the owner has not delivered to the recipient, and may still give it up (no
	// operator skipped the owner).
	Open bool
}

// Settled reports whether an owner in that status has settled its delivery. A task or delivery that
// no longer exists was purged after it had been settled.
func Settled(task Status, delivery DeliveryStatus) bool {
	return task == Skipped || delivery != Pending && delivery != Sending
}

// OwnerOf makes the Owner of a recipient's mailbox from the status of its task and delivery. A
// refused delivery whose recipient is still owned is open: the task is about to give the recipient
// up.
func OwnerOf(id int64, status Status, ds []Delivery, mailbox string) Owner {
	return Owner{TaskID: id, Open: slices.ContainsFunc(ds, func(d Delivery) bool {
		return address.Mailbox(d.Recipient) == mailbox &&
			(!Settled(status, d.Status) || d.Status == Failed && status != Skipped)
	})}
}

// Own is the rule by which nobody gets the same content twice: a delivery may go out only while its
// task owns (scope, content, recipient). ds are the deliveries of a task, and owners the current
// owners of their recipients, by address.Mailbox. Own returns the updated deliveries, and the
// mailboxes that the task has to take.
//
//   - Nobody owns the recipient: the task takes it.
//   - The owner's delivery is settled: this delivery is a duplicate.
//   - The owner's delivery is open: this delivery waits for it; the task's other deliveries do not.
//
// A delivery with an unknown outcome takes a recipient that nobody owns, and stays unknown.
func Own(taskID int64, ds []Delivery, owners map[string]Owner) (out []Delivery, take []string) {
	out = slices.Clone(ds)
	for i := range out {
		d := &out[i]
		if d.Status != Pending && d.Status != Sending {
			continue
		}
		owner, owned := owners[address.Mailbox(d.Recipient)]
		switch {
		case !owned:
			take = append(take, address.Mailbox(d.Recipient))
			d.DuplicateOf = 0
		case owner.TaskID == taskID:
			d.DuplicateOf = 0
		case d.Status == Sending:
		case owner.Open:
			d.DuplicateOf = owner.TaskID
		default:
			d.Status, d.DuplicateOf = Duplicated, owner.TaskID
		}
	}
	return out, take
}

// GivesUp returns the recipients that a task no longer owns when its claim ends in this status:
// those that were refused or given up, and, if the message was skipped, those that did not get it.
func GivesUp(status Status, ds []Delivery) []string {
	return recipients(ds, func(d Delivery) bool {
		return d.Status == Failed || status == Skipped && d.Status == Pending
	})
}

// Settles returns the recipients whose deliveries are settled when a claim ends in this status:
// tasks that wait for one of them become due.
func Settles(status Status, ds []Delivery) []string {
	return recipients(ds, func(d Delivery) bool { return Settled(status, d.Status) })
}

// Recipients returns the recipients whose deliveries are in one of the states.
func Recipients(ds []Delivery, in ...DeliveryStatus) []string {
	return recipients(ds, func(d Delivery) bool { return slices.Contains(in, d.Status) })
}

func recipients(ds []Delivery, which func(Delivery) bool) []string {
	var out []string
	for _, d := range ds {
		if which(d) {
			out = append(out, d.Recipient)
		}
	}
	return out
}

// Decided returns the deliveries of a task for a new decision.
func Decided(d *Decision) []Delivery {
	var ds []Delivery
	if d.Status() != Received {
		return nil
	}
	for _, to := range d.Recipients {
		ds = append(ds, Delivery{Recipient: to, Status: Pending})
	}
	slices.SortFunc(ds, func(a, b Delivery) int { return strings.Compare(a.Recipient, b.Recipient) })
	return ds
}

// Begin returns the state in which a new task begins, from its decision and from what other tasks
// delivered to its recipients. wait is set if it has nothing to send until another task's delivery
// is settled.
func Begin(d *Decision, ds []Delivery) (status Status, skip SkipReason, reason string, wait bool) {
	switch {
	case d.Status() != Received:
		return d.Status(), d.Skip, d.Reason, false
	case OnlyWaits(ds):
		return Received, "", waitsFor(ds), true
	case len(ds) == 0 || stands(ds, Pending, Sending):
		return Received, "", "", false
	}
	return Skipped, SkipDuplicate, duplicateOf(ds), false
}

// OnlyWaits reports whether a task has nothing to send until another task's delivery is settled.
func OnlyWaits(ds []Delivery) bool {
	return slices.ContainsFunc(ds, Delivery.Waits) &&
		!slices.ContainsFunc(ds, func(d Delivery) bool { return d.Status == Sending || d.ToSend() })
}
