package tasks

import (
	"context"
	"time"
)

// Queue is the registry and the queue, as one interface for each kind of caller. It is safe for
// concurrent use by any number of processes.
type Queue interface {
	Registrar
	Worker
	Operator
	Tracker
	Reader
	Schedule
	Finder
	Auditor
	Retention
}

// Registrar is for the scanner: every message gets its disposition.
type Registrar interface {
	// Unseen returns those of uids that have no disposition yet under epoch, in the order given. A
	// task that ended because the message was gone is none.
	Unseen(ctx context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error)
	// Unregistered is like Unseen, but messages that were there before the start do not count as
	// having a disposition, only tasks do.
	Unregistered(ctx context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error)
	// Noted returns the ledger's messages of a folder with a UID in [from, to], by ascending UID.
	Noted(ctx context.Context, folderID, epoch int64, from, to uint32) ([]Noted, error)
	// Restate records what the server says now about messages in the ledger whose content is known
	// and was found to be the same. What the server does not say stays as it was.
	Restate(ctx context.Context, folderID, epoch int64, now map[uint32]Stated) error
	// Register gives every message of the page its disposition, records the decisions and moves the
	// folder's cursor, in one transaction. Doing it twice changes nothing. ErrEpochChanged when the
	// folder has begun a new epoch, ErrScanLost when another run has taken over the scan; then
	// nothing changes.
	Register(ctx context.Context, page Page) ([]Registration, error)
	// Baseline notes messages that were there before the start, and that everything up to
	// page.Cursor has been noted. It fails as Register does.
	Baseline(ctx context.Context, page Page) error
	// Unreconciled reports whether there are live tasks of an older epoch whose messages have not
	// been found again in the folder yet.
	Unreconciled(ctx context.Context, folderID, epoch int64) (bool, error)
}

// Worker is for the deliverer: every task is processed under a receipt.
type Worker interface {
	// Receive claims tasks that are due: highest priority first, and oldest first within it. It
	// claims nothing once ctx has ended; a claim under way is finished and returned, because an
	// unknown claim would have to wait for its lease to run out.
	Receive(ctx context.Context, want Want) ([]Claim, error)
	// Extend renews the leases of the receipts, and returns the receipts that are lost.
	Extend(ctx context.Context, lease time.Duration, receipts []Receipt) (lost []Receipt, err error)
	// Reserve records what a claimed task's message is and who gets it, and takes what the task
	// needs to own (see Own). It returns the deliveries after that: those that are pending and do
	// not wait may be sent. Call it for a claim that was decided under another revision, and for
	// one with deliveries that wait.
	Reserve(ctx context.Context, r Receipt, res Reservation) ([]Delivery, error)
	// Sending commits, before the final dot is sent, which recipients the message is about to go
	// to, and in which form. If the claim is not recorded yet (Offer), the same transaction records
	// it; ErrTaken if the task has changed since it was registered.
	Sending(ctx context.Context, c Claim, as Form, deliveries []Delivery) error
	// Note adds a line about a claimed task to its audit trail, unless it is there already.
	Note(ctx context.Context, r Receipt, note Note) error
	// Finish ends the claim. Deliveries that ended undelivered give up what they own, and tasks
	// that wait for a settled delivery become due. A second Finish with the same result changes
	// nothing; the same goes for Release.
	Finish(ctx context.Context, r Receipt, res Result) error
	// Release puts the task back and does not count the attempt. Without a delay it gets its old
	// place. A task that waits for another task's delivery becomes due when that delivery is
	// settled, and after WaitRecheck at the latest. For a claim that is not recorded (Offer)
	// Release returns ErrTaken and changes nothing.
	Release(ctx context.Context, c Claim, reason string, delay time.Duration, deliveries []Delivery) error
}

// Operator is for people. Everything that an operator does is recorded in the audit trail, with
// who, when and why. A method leaves alone the tasks in states that it does not handle. The methods
// report how many tasks changed.
type Operator interface {
	// Requeue starts tasks again; forwarded ones only when a delivery has bounced. Recipients that
	// were delivered stay delivered, except those that bounced. When no recipient has the message,
	// it is decided again.
	Requeue(ctx context.Context, by By, ids ...int64) (int, error)
	// Skip ends tasks. They own their recipients from then on: equal messages are their duplicates,
	// even after they are purged.
	Skip(ctx context.Context, by By, ids ...int64) (int, error)
	// Resolve settles unknown outcomes: the recipients in question have the message. The task ends
	// as forwarded, or continues for recipients that do not have it.
	Resolve(ctx context.Context, by By, ids ...int64) (int, error)
	// Purge deletes tasks in one of the states Purgeable. What was seen stays known.
	Purge(ctx context.Context, by By, ids ...int64) (int, error)
	// Disable takes an inbox out of use: none of its tasks is claimed any more. Its live tasks lose
	// their claims, unless the relay has the message and its reply is not recorded yet (see
	// EndAbandoned), and give up the recipients that they have not delivered to. The inbox's own
	// trail has a line about it, if it was active.
	Disable(ctx context.Context, by By, inboxID int64) error
	// Remove disables an inbox and deletes it with its folders, its tasks and its part of the
	// ledger. The audit trail stays, and so does who got which content. If it is interrupted, the
	// inbox is disabled and has no cursors and no live tasks; calling it again continues. It
	// returns ErrSending if Disable leaves a claim: the inbox is then only disabled.
	Remove(ctx context.Context, who string, inboxID int64) error
	// Forget drops from the ledger those of the messages whose tasks something other than the queue
	// deleted (Disposition.Lost), so that they can be registered again. Their duplicates are
	// requeued: what became of the originals is unknown.
	Forget(ctx context.Context, who string, folderID, epoch int64, uids ...uint32) (int, error)
}

// Reader says what is known of tasks.
type Reader interface {
	List(ctx context.Context, f Filter, each func(Task) error) error
	// Get fails with ErrNotFound.
	Get(ctx context.Context, id int64) (Task, error)
	// Events is the audit trail of a task, in order. It outlives the task.
	Events(ctx context.Context, taskID int64) ([]Event, error)
	// InboxEvents is what operators did to an inbox, the newest first, at most limit of them. It
	// outlives the inbox.
	InboxEvents(ctx context.Context, inboxID int64, limit int) ([]Event, error)
	// Stats returns the counts of each inbox. It takes a few statements, however many inboxes there
	// are.
	Stats(ctx context.Context, inboxIDs []int64) (map[int64]Stats, error)
}

// Schedule says what can be claimed, and when. Ended tasks cost nothing.
type Schedule interface {
	// Next returns the tasks that are due, in the order in which Receive claims them, at most
	// want.Max.
	Next(ctx context.Context, want Want) ([]int64, error)
	// DueOf counts the tasks of inboxes that could be claimed now. Inboxes that have none are not
	// in it.
	DueOf(ctx context.Context, inboxIDs []int64) (map[int64]int, error)
	// NextDue returns the time until the next task of the inboxes that cannot be claimed now
	// becomes due, because its pause ends or the lease of its claim expires. ok is false when there
	// is none.
	NextDue(ctx context.Context, inboxIDs []int64) (in time.Duration, ok bool, err error)
}

// Auditor says how messages are accounted for.
type Auditor interface {
	// Dispositions returns how each message of a folder with a UID in [from, to] is accounted for,
	// by ascending UID. A UID that is missing is not accounted for.
	Dispositions(ctx context.Context, folderID, epoch int64, from, to uint32) ([]Disposition, error)
	// Highest returns the highest UID of a folder that is accounted for in an epoch, or 0. A cursor
	// that was moved back is below it.
	Highest(ctx context.Context, folderID, epoch int64) (uint32, error)
	// Purged counts the tasks of an inbox that were registered within that time and purged since:
	// an upper bound, because the ledger does not record when. Tasks that something other than
	// the queue deleted do not count.
	Purged(ctx context.Context, inboxID int64, within time.Duration) (int, error)
	// LeftBehind calls each for the tasks that a folder had in an epoch before the given one, and
	// whose messages have not been found again since, by ascending epoch and UID.
	LeftBehind(ctx context.Context, folderID, before int64, each func(epoch int64, d Disposition) error) error
}

// Retention ends and deletes what is old.
type Retention interface {
	// EndAbandoned ends the claims of tasks of disabled inboxes whose leases have run out: no
	// worker takes such a claim over. A task that was being sent ends as uncertain, and gives up
	// its other recipients, as with Disable. A worker that comes back has lost the lease.
	EndAbandoned(ctx context.Context) (int, error)
	// Expire deletes the forwarded tasks of the inboxes that ended longer than age ago, the oldest
	// of an inbox first, at most limit of them.
	Expire(ctx context.Context, inboxIDs []int64, age time.Duration, limit int) (int, error)
	// ExpireEvents deletes lines of the audit trail that are older than age, oldest first, at most
	// limit of them.
	ExpireEvents(ctx context.Context, age time.Duration, limit int) (int, error)
}

// Want says what Receive may claim.
type Want struct {
	InboxID       int64
	Max           int
	Lease         time.Duration
	Worker        string
	InHand        []int64    // tasks that the caller has claimed already: not to be claimed again
	Poisoned      func(Task) // called for each task that ended instead of being claimed; may be nil
	MaxLostLeases int        // a task that loses its lease more often ends as dead or uncertain
}

// Result is what came of a claim.
type Result struct {
	Status     Status
	Skip       SkipReason // for Skipped
	Reason     string
	Delay      time.Duration // for Error: not before that has passed
	Deliveries []Delivery
	Missed     *Place // where the message was looked for and not found
}

// Place is where a message is in its folder.
type Place struct {
	Epoch int64
	UID   uint32
}

// Filter selects tasks. Empty fields select all. Ages go by the registry's clock.
type Filter struct {
	Statuses   []Status
	Inboxes    []int64       // one of these; empty for all
	Route      string        // the route, or one of the routes, that decided
	Registered time.Duration // registered at least this long ago
	Within     time.Duration // registered at most this long ago
	Ended      time.Duration // ended at least this long ago
	Due        bool          // could be claimed now
	Bounced    bool          // with a delivery that bounced

	// Parts of texts, compared without case. No index serves them.
	Sender, Recipient, Subject, MessageID string

	Limit int // newest first when set, oldest first otherwise
}

// Stats counts the tasks of an inbox.
type Stats struct {
	ByStatus map[Status]int
	Due      int        // could be claimed now
	Oldest   *time.Time // when the live task that has waited longest was registered or requeued
	Now      time.Time  // by the registry's clock

	Bounced  int                   // tasks with a delivery that bounced
	Arrivals map[ArrivalStatus]int // deliveries, by what became of them: those among Troubles

	// Of the last day:
	Ended     int // tasks that ended with their outcome known: forwarded, dead
	Retried   int // of these, those that needed more than one attempt
	Conflicts int // times that a worker wanted to change a task after it had lost the lease
	Bounces   int // deliveries of which a bounce was recorded
}

// Disposition is how one message is accounted for.
type Disposition struct {
	UID        uint32
	Noted      Noted
	TaskID     int64      // 0: it was there before the start and is not forwarded
	Status     Status     // of its task, or in which its purged task ended; empty when there is none
	Skip       SkipReason // of its task
	Purged     bool
	Reason     string
	Mode       string     // see Form
	QueuedAt   time.Time  // of its task
	VisibleAt  *time.Time // of its task; nil once that has ended
	Deliveries []Delivery // gone with the task when that was purged
}

// Lost reports whether something other than the queue deleted the message's task: what became of
// the message is unknown.
func (d Disposition) Lost() bool { return d.TaskID != 0 && d.Status == "" }
