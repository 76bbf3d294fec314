// Package outbox processes what follows from a task's end: events for other systems, and actions on
// the IMAP server.
//
// An Occurrence is written in the transaction in which it happens, so neither a crash nor an
// unavailable database can lose it. A later transaction asks the Plan which destinations want it,
// and replaces the occurrence with one Entry for each of them. An entry is processed like a task:
// it is claimed with a receipt and a lease, and ends as done, dead or skipped.
//
// An entry is sent at least once. Its ID and its octets are the same in all tries. A destination
// gets the events of one task in order; nothing is promised about the order across tasks, or of
// actions. A failing destination holds up nothing but itself.
package outbox

import (
	"context"
	"time"
)

// Kind is what happened.
type Kind string

// The kinds: to a task, and to an inbox.
const (
	Registered     Kind = "registered"
	Forwarded      Kind = "forwarded"
	SkippedNoMatch Kind = "skipped_no_match"
	Skipped        Kind = "skipped"
	Dead           Kind = "dead"
	Uncertain      Kind = "uncertain"
	Bounced        Kind = "bounced" // a delivery of the task failed after the relay had accepted it

	InboxUnreachable Kind = "inbox_unreachable"
	InboxOK          Kind = "inbox_ok"
	NeedsLogin       Kind = "needs_login"
)

// Server is the destination of actions on the IMAP server. No destination of events has that name.
const Server = "imap"

// Status is the state of an entry.
type Status string

// The states of an entry.
const (
	Waiting    Status = "waiting" // to be done, not before VisibleAt
	InProgress Status = "in_progress"
	Done       Status = "done"
	DeadLetter Status = "dead"
	Dropped    Status = "skipped" // by an operator, or because there was nothing left to do
)

// Statuses are all states, in the order in which people read them.
var Statuses = []Status{Waiting, InProgress, DeadLetter, Done, Dropped}

// The states in which an operator may change an entry: see Store.Retry, Store.Skip and Store.Purge.
var (
	Retryable = []Status{Waiting, DeadLetter, Dropped}
	Skippable = []Status{Waiting, DeadLetter}
	Purgeable = []Status{Done, DeadLetter, Dropped}
)

// Entry is what follows from one occurrence for one destination.
type Entry struct {
	ID           int64
	OccurrenceID int64
	EventID      string // the same in all tries, and never used twice
	Destination  string
	Kind         Kind
	TaskID       int64 // 0: of an inbox
	InboxID      int64
	Action       string // for Server: seen, flag:KEYWORD, move:FOLDER, delete
	Body         []byte // for others: a CloudEvent as JSON

	Status     Status
	Attempts   int // counted at the claim
	Worker     string
	VisibleAt  *time.Time // not before; nil once it has ended
	Error      string     // of the last try
	CreatedAt  time.Time
	FinishedAt *time.Time
}

// Claim is an entry that a worker has claimed. All entries that were claimed together have the same
// receipt.
type Claim struct {
	Entry
	Receipt string
	Age     time.Duration // since it was created, or last requeued by an operator
}

// Want says what Receive and Expand may claim.
type Want struct {
	Destination string
	InboxID     int64 // of Receive; 0: of any inbox
	Max         int
	Lease       time.Duration
	Worker      string
}

// Outcome is what became of a claim: Done, DeadLetter, Dropped, or Waiting when it is to be tried
// again after Delay.
type Outcome struct {
	Claim     Claim
	Status    Status
	Error     string
	Delay     time.Duration
	Uncounted bool // of Waiting: the try was not the entry's fault
	Trail     Line // of its task's audit trail; empty for none
}

// Line is a line of a task's audit trail.
type Line struct{ Event, Detail string }

// Message is an event on its way to a destination.
type Message struct {
	ID   string
	Kind Kind
	Key  string // of what it is about: messages with the same key stay in order
	Body []byte // a CloudEvent as JSON (structured mode)
}

// Publisher hands events to one destination.
type Publisher interface {
	// Publish sends messages, in order, and returns when the destination has acknowledged them or
	// failed, or ctx has ended. It returns an error for each message, nil for those that arrived.
	// An error other than *Refused, *Later or ErrGone is the destination's fault, not the
	// message's.
	Publish(ctx context.Context, batch []Message) []error
	Close(ctx context.Context) error
}
