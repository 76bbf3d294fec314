// Package tasks is the registry of every message ever seen and the queue that processes it.
//
// A message is registered once, by (folder, epoch, UID), in the transaction that moves the folder's
// cursor past it. A task is claimed with a fresh receipt and changed with the same receipt. The
// receipt alone decides: a worker whose lease ran out, but whose task nobody else has claimed or
// changed, still finishes it. Otherwise every call reports ErrLeaseLost and changes nothing, and
// the conflict goes into the audit trail. A process may begin a transaction with the relay for a
// task that it has just registered before it claims the task, see Offer.
//
// Who gets a message is decided once and recorded (Decision). Nobody gets the same content twice: a
// delivery is sent only while its task owns the row (scope, content, recipient), see Own.
//
// A delivery is `sending` before the relay gets the final dot, and `delivered` only after its
// reply. A process that dies in between leaves `sending` behind: that message, and only that, may
// arrive twice.
//
// The package has the contract, the states and the policy. It knows neither IMAP nor SMTP. sqlqueue
// implements the contract on MySQL, MariaDB and SQLite, memqueue in memory; taskstest is the test
// suite that both pass.
package tasks

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"postrider/internal/message"
)

// ErrLeaseLost reports that the receipt is no longer good: another worker has claimed the task, an
// operator has changed it, or its inbox was disabled or removed. The error that wraps it says
// which. Drop the task.
var ErrLeaseLost = errors.New("the lease of the task was lost")

// ErrTaken reports that a task has changed since this process registered it: another worker claimed
// it, an operator changed it, or its inbox was disabled. The claim was never recorded and nothing
// was sent. Drop the task.
var ErrTaken = errors.New("the task was claimed or changed by somebody else after it was registered")

// ErrSending reports that a message of an inbox is being sent: the inbox cannot be removed yet.
var ErrSending = errors.New("one of its messages is being sent")

// ErrEpochChanged reports that the folder's UIDVALIDITY is no longer the one that a page was read
// under.
var ErrEpochChanged = errors.New("the folder's UIDVALIDITY has changed")

// ErrScanLost reports that another run has taken over the scan of the inbox.
var ErrScanLost = errors.New("the scan lease was lost: another run has taken over the inbox")

// ErrMoved reports that the task's message was found again at another UID of its folder.
var ErrMoved = errors.New("the message was found again under another UID")

// ErrNotFound reports that there is no such task, or no such delivery of it.
var ErrNotFound = errors.New("no such task")

// Priority orders the tasks of an inbox: higher first.
type Priority int

// The priorities, in the order they are claimed.
const (
	Normal Priority = 0
	High   Priority = 1
)

// Identity is what the content of a message tells about it. If the message could not be read, or
// only its header was read, Fingerprint is the outline.
type Identity struct {
	Fingerprint message.Fingerprint
	MessageID   string
	Subject     string
	Sender      string
	Date        time.Time // zero when unknown
	Size        int64     // octets
}

// Task is the registration of one message, and its state.
type Task struct {
	ID       int64
	InboxID  int64
	Inbox    string // the inbox's address
	Disabled bool   // the inbox is, as far as List, Search and Get know: nothing of it is claimed
	FolderID int64
	Folder   string
	Epoch    int64 // monitored_folders.uid_validity: the low 32 bits are the server's UIDVALIDITY
	UID      uint32
	Identity Identity
	Read     bool // the fingerprint is that of the content, and not the outline

	Revision   string // of the rules that decided; empty: not decided, or to be decided again
	Route      string // the route that decided, empty while none has
	Form       Form   // how it goes out, or last did
	Priority   Priority
	Status     Status
	Skip       SkipReason // why it was skipped; empty in other states
	Keep       KeepReason // see Decision.Keep
	InDoubt    bool       // an operator requeued it while an outcome was unknown
	Attempts   int        // counted at the claim
	LostLeases int
	VisibleAt  *time.Time // not before; nil once the task has ended
	Worker     string     // who made the last claim
	Reason     string     // the last error, or why nobody gets it

	CreatedAt  time.Time
	QueuedAt   time.Time // registered, or requeued by an operator
	UpdatedAt  time.Time
	FinishedAt *time.Time

	Deliveries []Delivery // by recipient
}

// Form is how a message is sent.
type Form struct {
	Mode       string // redirect, rewrite, attach, notice; empty while that is not decided
	ModeReason string // why, where that was decided for this message; mostly empty
}

// Shut reports whether the task waits until its inbox is enabled.
func (t Task) Shut() bool { return t.Disabled && t.VisibleAt != nil && t.Status != InProgress }

// Begun reports whether a recipient has the message, or may have it. From then on its recipients
// and its form stay, whatever the rules say now.
func (t Task) Begun() bool { return t.InDoubt || Reached(t.Deliveries) }

// UIDValidity is the server's value, as 32 bits.
func (t Task) UIDValidity() uint32 { return uint32(t.Epoch) }

// DeliveryStatus is the state of one recipient of a task.
type DeliveryStatus string

// The states of a delivery.
const (
	Pending    DeliveryStatus = "pending"   // not sent yet, or deferred
	Sending    DeliveryStatus = "sending"   // the final dot may have gone out, the reply is not known
	Delivered  DeliveryStatus = "delivered" // the relay accepted it
	Failed     DeliveryStatus = "failed"    // permanently refused, or given up on
	Duplicated DeliveryStatus = "duplicate" // another task with the same content is responsible for the recipient
)

// Delivery is one recipient of one task.
type Delivery struct {
	Recipient string
	Status    DeliveryStatus
	// DuplicateOf is the task through which the recipient has the same content. For a pending
	// delivery, it is the task whose delivery this one waits for; 0 if it waits for none.
	DuplicateOf int64
	Code        int    // the relay's last reply code, 0 when there was none
	Reply       string // the relay's last words, or what happened instead
	Attempts    int
	DeliveredAt *time.Time
	// Arrival is what became of the delivery after that; nil when nothing is known. The Reader, the
	// Finder and the Auditor fill it in; workers do not need it.
	Arrival *Arrival
}

// Waits reports whether the delivery waits for that of another task.
func (d Delivery) Waits() bool { return d.Status == Pending && d.DuplicateOf != 0 }

// ToSend reports whether the delivery is to be sent, and waits for no other task.
func (d Delivery) ToSend() bool { return d.Status == Pending && d.DuplicateOf == 0 }

// stands reports whether one of the deliveries is in one of the states.
func stands(ds []Delivery, in ...DeliveryStatus) bool {
	return slices.ContainsFunc(ds, func(d Delivery) bool { return slices.Contains(in, d.Status) })
}

// Reached reports whether a recipient has the message through this task, or may have it.
func Reached(ds []Delivery) bool { return stands(ds, Delivered, Sending) }

// Event is one line of the audit trail: of a task, or of an inbox.
type Event struct {
	TaskID int64 // 0 of an inbox
	At     time.Time
	Worker string
	Event  string
	Detail string
}

// Receipt is the token of one claim of one task.
type Receipt struct {
	TaskID int64
	Token  string
	Worker string // who made the claim, for the audit trail
}

// Claim is a task that a worker processes, with the receipt for changing it.
type Claim struct {
	Task    Task
	Receipt Receipt
	// Alone is set for a task whose lease was lost before: its worker may have crashed because of
	// it, so nothing else should be processed at the same time.
	Alone bool
	At    time.Time // when it was claimed, by the registry's clock
	Due   time.Time // when it had become visible: Release puts it back there, which keeps the order
	// Lease is the lease of an Offer, which the first Sending records; 0 for a claim that is
	// recorded.
	Lease time.Duration
}

// Recorded reports whether the registry has the claim.
func (c Claim) Recorded() bool { return c.Lease == 0 }

// Offer returns a claim that the registry does not have yet, of a task that this process has just
// registered. The first Sending records it. Until then any worker may claim the task, and a killed
// process leaves nothing behind. token identifies the process. A task is offered once, so no two
// claims have the same receipt.
func Offer(t Task, token, worker string, lease time.Duration) Claim {
	c := Claim{
		Receipt: Receipt{TaskID: t.ID, Token: Token(token, t.ID), Worker: worker},
		At:      t.CreatedAt, Due: *t.VisibleAt, Lease: lease,
	}
	t.Status, t.Worker = InProgress, worker
	t.Attempts++
	c.Task = t
	return c
}

// CanOffer reports whether a task that was just registered can be sent as it is.
func (t Task) CanOffer() bool {
	return t.Status == Received && t.Read && t.Revision != "" &&
		len(t.Deliveries) > 0 && !slices.ContainsFunc(t.Deliveries, Delivery.Waits)
}

// Token is the token of one of the claims that are made together.
func Token(of string, taskID int64) string { return of + "-" + strconv.FormatInt(taskID, 10) }
