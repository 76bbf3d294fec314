// Package tasks is the registry of every message ever seen and the queue that works it off.
//
// A message is registered once, by (folder, epoch, UID), in the transaction that moves the folder's cursor past it. A
// task is claimed with a fresh receipt and finished with the same receipt. The receipt alone decides: a worker whose
// lease ran out but whose task nobody else has changed still finishes it; once anybody has, by claiming it or as a person,
// Finish, Release, Sending, Note and Identify report ErrLeaseLost, change nothing, and the conflict goes into the audit trail.
//
// A recipient is `sending` in the registry before the relay gets the final dot, and `delivered` only after its reply. A
// process that dies in between leaves `sending` behind: that, and only that, is a message that may arrive twice.
//
// The package states the contract, the states and the policy. It knows neither IMAP nor SMTP; sqlqueue implements it
// on MySQL, MariaDB and SQLite, memqueue in memory; taskstest is the suite that both pass.
package tasks

import (
	"errors"
	"time"

	"postrider/internal/message"
)

// ErrLeaseLost reports that the receipt is no longer the task's: its lease ran out and somebody else claimed it, a person has
// changed the task, or its inbox was taken out of use or removed. What wraps it says which. Drop the task; whoever has it now goes on.
var ErrLeaseLost = errors.New("the lease of the task was lost")

// ErrEpochChanged reports that the folder's UIDVALIDITY is no longer the one that a page was read under.
var ErrEpochChanged = errors.New("the folder's UIDVALIDITY has changed")

// ErrScanLost reports that another run has taken over the scan of the inbox.
var ErrScanLost = errors.New("the scan lease was lost: another run has taken over the inbox")

// ErrMoved reports that the task's message was found again at another place of its folder.
var ErrMoved = errors.New("the message was found again at another place")

// ErrNotFound reports that there is no such task.
var ErrNotFound = errors.New("no such task")

// Priority orders the tasks of an inbox: higher first.
type Priority int

// The priorities, in the order they are claimed.
const (
	Normal Priority = 0
	High   Priority = 1
)

// Task is the registration of one message and where it stands.
type Task struct {
	ID        int64
	InboxID   int64
	Inbox     string // the inbox's address
	FolderID  int64
	Folder    string
	Epoch     int64 // as monitored_folders.uid_validity: low 32 bits are the server's UIDVALIDITY
	UID       uint32
	MessageID string
	Subject   string
	Sender    string
	Date      *time.Time
	Size      int64

	Fingerprint message.Fingerprint

	Route      string // the route that decided, empty while none has
	Form              // as what it goes out, or last did
	Priority   Priority
	Status     Status
	Attempts   int // counted at the claim
	LostLeases int
	VisibleAt  *time.Time // not before; nil once the task has ended
	Worker     string     // who made the last claim
	Reason     string     // why it stands where it stands: the last error, or why it was skipped

	CreatedAt  time.Time
	QueuedAt   time.Time // registered, or put back by a person
	UpdatedAt  time.Time
	FinishedAt *time.Time

	Deliveries []Delivery
}

// Form is as what a message goes out.
type Form struct {
	Mode       string // redirect, rewrite, attach, notice; empty while that is not decided
	ModeReason string // why, where that was decided for this message; mostly empty
}

// UIDValidity is the server's value, as 32 bits.
func (t Task) UIDValidity() uint32 { return uint32(t.Epoch) }

// DeliveryStatus is how far one recipient of a task got.
type DeliveryStatus string

// The states of a delivery.
const (
	Pending   DeliveryStatus = "pending"   // not sent yet, or refused for now
	Sending   DeliveryStatus = "sending"   // the final dot may have gone out, the reply is not known
	Delivered DeliveryStatus = "delivered" // the relay accepted it
	Failed    DeliveryStatus = "failed"    // refused for good, or given up on
)

// Delivery is one recipient of one task.
type Delivery struct {
	Recipient   string
	Status      DeliveryStatus
	Code        int    // the relay's last reply code, 0 when there was none
	Reply       string // the relay's last words, or what happened instead
	Attempts    int
	DeliveredAt *time.Time
}

// Event is one line of the audit trail.
type Event struct {
	TaskID int64
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

// Claim is a task in the hands of a worker, with the receipt that lets it go on.
type Claim struct {
	Task
	Receipt Receipt
	// Alone is true for a task that lost its lease before: it may be what kills its workers, so nothing else of its inbox
	// should be in work beside it.
	Alone bool
	// At is when it was claimed, by the registry's clock.
	At time.Time
	// Due is when the task had become visible before it was claimed; Release puts it back there, so that order is kept.
	Due time.Time
}
