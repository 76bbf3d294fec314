package memqueue

import (
	"slices"
	"time"

	"postrider/internal/address"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// onceKey is what one task at most owns: a recipient gets this content, within this scope, by it.
type onceKey struct {
	scope   int64
	content message.Fingerprint
	mailbox string
}

// everywhere is the scope of tasks.DedupeAll. That of tasks.DedupeInbox is the inbox.
const everywhere = 0

func onceKeyOf(t *task, dedupe tasks.Dedupe, recipient string) onceKey {
	key := onceKey{t.InboxID, t.Identity.Fingerprint, address.Mailbox(recipient)}
	if dedupe == tasks.DedupeAll {
		key.scope = everywhere
	}
	return key
}

// own has a task take what it needs to own. A task whose content is not known owns nothing:
// dropping is worse than repeating.
func (q *Queue) own(t *task, dedupe tasks.Dedupe) {
	owners := map[string]tasks.Owner{}
	if dedupe != tasks.DedupeOff && t.Read {
		for _, d := range t.Deliveries {
			if id, ok := q.once[onceKeyOf(t, dedupe, d.Recipient)]; ok {
				owners[address.Mailbox(d.Recipient)] = q.owner(id, address.Mailbox(d.Recipient))
			}
		}
	}
	var take []string
	t.Deliveries, take = tasks.Own(t.ID, t.Deliveries, owners)
	if dedupe == tasks.DedupeOff || !t.Read {
		return
	}
	for _, mailbox := range take {
		q.once[onceKeyOf(t, dedupe, mailbox)] = t.ID
	}
}

func (q *Queue) owner(id int64, mailbox string) tasks.Owner {
	t := q.tasks[id]
	if t == nil { // purged
		return tasks.Owner{TaskID: -id}
	}
	return tasks.OwnerOf(id, t.Status, t.Deliveries, mailbox)
}

// open reports whether a task owns a recipient, and its delivery is open.
func (q *Queue) open(id int64, recipient string) bool {
	for key, owner := range q.once {
		if owner == id && key.mailbox == address.Mailbox(recipient) {
			return q.owner(id, key.mailbox).Open
		}
	}
	return false
}

// giveUp has a task give up recipients, and wakes the tasks that wait for them.
func (q *Queue) giveUp(t *task, recipients []string, now time.Time) {
	for _, r := range recipients {
		for key, owner := range q.once {
			if owner == t.ID && key.mailbox == address.Mailbox(r) {
				delete(q.once, key)
			}
		}
	}
	q.wakeWaiting(t.ID, recipients, now)
}

// wakeWaiting makes tasks due that wait for a task's deliveries to these recipients.
func (q *Queue) wakeWaiting(id int64, recipients []string, now time.Time) {
	for _, t := range q.tasks {
		if t.Status != tasks.Received && t.Status != tasks.Error || !t.VisibleAt.After(now) {
			continue
		}
		if slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool {
			return d.Waits() && d.DuplicateOf == id && contains(recipients, d.Recipient)
		}) {
			q.show(t, now)
		}
	}
}

// contains reports whether a recipient is among those given, by mailbox.
func contains(recipients []string, recipient string) bool {
	return slices.ContainsFunc(recipients, func(r string) bool {
		return address.Mailbox(r) == address.Mailbox(recipient)
	})
}
