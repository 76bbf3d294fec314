package tasks

import (
	"context"
	"slices"
	"time"

	"postrider/internal/message"
)

// Queue is the registry and the queue. It is safe for concurrent use by any number of processes.
type Queue interface {
	Registrar
	Claimer
	Steward
	Reader
}

// Registrar is the side of a scan: every message gets its disposition.
type Registrar interface {
	// Unseen returns those of uids that have no disposition yet under epoch, in the order given.
	Unseen(ctx context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error)
	// Unregistered is Unseen that counts only tasks as a disposition, not that a message was noted as there before
	// the start.
	Unregistered(ctx context.Context, folderID, epoch int64, uids []uint32) ([]uint32, error)
	// Register gives every message of the page its disposition and moves the folder's cursor, in one transaction. Doing it
	// twice changes nothing. ErrEpochChanged when the folder has moved on, ErrScanLost when another run has taken over the
	// scan; then nothing changes.
	Register(ctx context.Context, page Page) ([]Registration, error)
	// Baseline notes messages that were there before the start, and that everything up to page.Cursor has been noted. It fails
	// as Register does.
	Baseline(ctx context.Context, page Page) error
	// Unreconciled reports whether live tasks of an older epoch still wait to be found again in the folder.
	Unreconciled(ctx context.Context, folderID, epoch int64) (bool, error)
}

// Claimer is the side of a worker: every task is worked off under a receipt.
type Claimer interface {
	// Receive claims tasks that are due, highest priority first and oldest first within it. When none is, it waits for up
	// to want.Wait until one becomes due, and then returns none. The end of ctx ends the waiting, and nothing is claimed
	// after it; a claim under way is finished and returned, since one that nobody hears of would have to wait for its lease to
	// run out.
	Receive(ctx context.Context, want Want) ([]Claim, error)
	// Extend makes the receipts good for another lease. Those that are lost are returned.
	Extend(ctx context.Context, lease time.Duration, receipts []Receipt) (lost []Receipt, err error)
	// Sending commits, before the final dot, to whom it is about to go, as what, and why so.
	Sending(ctx context.Context, r Receipt, route string, as Form, deliveries []Delivery) error
	// Identify tells what message a claimed task is of, and reserves it when e.Route is not empty: from then on that is its
	// route. Nothing may be sent by a task of known content before it has a route, by Register or in this way. When an equal
	// message was forwarded, or is going to be, or shall not be by a person's word, the claim ends: this one is skipped as a
	// duplicate of that task, which is reported; 0 when there is none, and the claim goes on.
	Identify(ctx context.Context, r Receipt, e Entry, dedupe Dedupe) (duplicateOf int64, err error)
	// Note adds a line about a claimed task to its audit trail, unless it stands there already.
	Note(ctx context.Context, r Receipt, event, detail string) error
	// Finish ends the claim with what came of it. Doing it twice with the same end changes nothing; so with Release.
	Finish(ctx context.Context, r Receipt, res Result) error
	// Release puts the task back and does not count the attempt. With no delay it comes back in its old place.
	Release(ctx context.Context, c Claim, reason string, delay time.Duration, deliveries []Delivery) error
}

// Steward is the side of people and of retention. What a person does leaves its line in the audit trail, with who and
// when; tasks in a state that it is not for stay as they are. The methods report how many tasks changed.
type Steward interface {
	// Requeue lets tasks begin anew; recipients that were delivered stay delivered. One that nobody got has no route then, and is
	// reserved again before it goes out: it may turn out to be a duplicate.
	Requeue(ctx context.Context, who string, ids ...int64) (int, error)
	// Skip ends tasks by a person's word. That accounts for the message: equal ones are its duplicates, also once it is purged.
	Skip(ctx context.Context, who string, ids ...int64) (int, error)
	// Resolve settles unknown outcomes by a person's word: who was being sent to has it. The task ends as forwarded,
	// or goes on for recipients that are still pending.
	Resolve(ctx context.Context, who string, ids ...int64) (int, error)
	// Purge deletes tasks in one of the states Purgeable. What was seen stays known, with the state in which its task ended.
	// A duplicate stays while the task that it is a duplicate of is there and was not forwarded: it may have to take its place.
	Purge(ctx context.Context, who string, ids ...int64) (int, error)
	// Disable takes an inbox out of use: none of its tasks is claimed any more, and none that is registered has a route. Its live
	// tasks that nobody got leave the claims that they are in, have no route any more, and leave their place to duplicates in
	// other inboxes.
	Disable(ctx context.Context, who string, inboxID int64) error
	// Remove takes an inbox out of use for good: those of its live tasks that somebody got leave their place, too. It deletes the
	// inbox with its folders, its tasks and all that is known of its messages, the live tasks first; the audit trail stays. When it is cut
	// short, the inbox is out of use, has no cursors, and no live tasks: doing it again goes on.
	Remove(ctx context.Context, who string, inboxID int64) error

	// Forget drops from the ledger those of the messages whose tasks others than the queue have deleted (Disposition.Lost), so that
	// they can be registered anew. Their duplicates take their place: nobody knows whether they were forwarded.
	Forget(ctx context.Context, who string, folderID, epoch int64, uids ...uint32) (int, error)

	// Expire deletes the forwarded tasks of an inbox that ended longer than age ago, oldest first, at most limit of them.
	Expire(ctx context.Context, inboxID int64, age time.Duration, limit int) (int, error)
	// ExpireEvents deletes lines of the audit trail that are older than age, oldest first, at most limit of them. That an outcome was
	// unknown stays in the trail of a task until that is forwarded or purged: as long as it matters to what becomes of it.
	ExpireEvents(ctx context.Context, age time.Duration, limit int) (int, error)
}

// Reader tells what is known.
type Reader interface {
	List(ctx context.Context, f Filter, each func(Task) error) error
	// Get fails with ErrNotFound.
	Get(ctx context.Context, id int64) (Task, error)
	// Events is the audit trail of a task, in order. It outlives the task.
	Events(ctx context.Context, taskID int64) ([]Event, error)
	Stats(ctx context.Context, inboxID int64) (Stats, error)
	// Due counts the tasks that could be claimed now, at no cost for those that have ended.
	Due(ctx context.Context, inboxID int64) (int, error)
	// Dispositions tells how each message of a folder with a UID in [from, to] is accounted for, by ascending UID. A UID that is
	// missing is not accounted for.
	Dispositions(ctx context.Context, folderID, epoch int64, from, to uint32) ([]Disposition, error)
	// Purged counts the tasks of an inbox that were registered within that time and purged since: at most so many, since the ledger
	// does not know when. Those that others than the queue have deleted are not among them.
	Purged(ctx context.Context, inboxID int64, within time.Duration) (int, error)
	// LeftBehind tells of each task that a folder had in an epoch before the given one, and whose message has not been found again
	// since: by ascending epoch and UID.
	LeftBehind(ctx context.Context, folderID, before int64, each func(epoch int64, d Disposition) error) error
}

// Dedupe says where an equal message counts as the same one.
type Dedupe string

// The scopes of deduplication.
const (
	DedupeInbox Dedupe = "inbox"
	DedupeAll   Dedupe = "all"
	DedupeOff   Dedupe = "off"
)

// Page is a range of UIDs of one folder, read under one epoch.
type Page struct {
	InboxID, FolderID int64
	Epoch             int64
	ScanToken         int64  // of the inbox's scan lease, under which the page was read
	Cursor            uint32 // everything at or below it has a disposition with this page; the cursor never moves back
	Entries           []Entry
	Dedupe            Dedupe
	KnownOnly         bool // find tasks of older epochs again, and register nothing
	DryRun            bool // tell the fates and change nothing
}

// In is the page as it is registered: without routes when its inbox is not in use. What is registered then is decided on later, and
// makes no duplicates of what others can send now.
func (p Page) In(active bool) Page {
	if active {
		return p
	}
	p.Entries = slices.Clone(p.Entries)
	for i := range p.Entries {
		p.Entries[i].Route = ""
	}
	return p
}

// Entry is one message of a page.
type Entry struct {
	UID         uint32
	Fingerprint message.Fingerprint
	Outline     message.Fingerprint // by which a message that was there before the start is known again
	MessageID   string
	Subject     string
	Sender      string
	Date        time.Time // zero when unknown
	Size        int64
	Route       string   // the route it takes now; empty when it is not forwarded
	To          []string // whom it would go to now; not stored
	LeftOut     string   // who does not get it then, being the inbox itself; not stored
	Why         string   // what decided on that; not stored
	Priority    Priority
	Skip        string // not empty: registered as skipped, for this reason
	Mode        string // as what it has to go out; mostly empty, and decided later
}

// Fate is what registering did with a message.
type Fate int

// The fates of an entry.
const (
	New       Fate = iota // registered, waiting to be claimed
	SkippedAt             // registered as skipped, as the entry asked
	Duplicate             // registered as skipped: an equal message is or was being forwarded, or a person skipped it
	Known                 // registered or noted before, nothing was done
	Moved                 // the task of an older epoch found its message again
)

// Registration tells what became of one entry.
type Registration struct {
	UID    uint32
	TaskID int64 // 0 when there is none
	Fate   Fate
}

// Want says what Receive may claim.
type Want struct {
	InboxID       int64
	Max           int
	Lease         time.Duration
	Worker        string
	Wait          time.Duration // for a task to become due, when none is; a moment longer when others have locked what is due
	InHand        []int64       // tasks that the caller is at work on: not to be claimed, even when their leases ran out
	Buried        func(Task)    // called for each task that ended instead of being claimed: it kills its workers; may be nil
	MaxLostLeases int           // a task whose lease is lost that often while it is worked on alone is dead: it kills its workers
}

// Result is what came of a claim.
type Result struct {
	Status     Status
	Reason     string
	Route      string
	Delay      time.Duration // for Error: not before that has passed
	Deliveries []Delivery
	// Yields says that nobody else will get the message by this task: an equal one that was skipped as its duplicate, if there is
	// one, takes its place. When somebody got it, that one has its route and deliveries, and this one only keeps those that were
	// delivered.
	Yields bool
	// Refused says, when it yields, that nobody can be reached by the route of this one: it leaves its place only to one by another.
	Refused bool
	Dedupe  Dedupe // when it yields: where an equal message counts as the same one
	Missed  *Place // where the message was looked for and not found
}

// Place is where a message is in its folder.
type Place struct {
	Epoch int64
	UID   uint32
}

// Filter selects tasks. Empty fields select all. Ages go by the registry's clock.
type Filter struct {
	Statuses   []Status
	InboxID    int64
	Route      string        // the route, or one of the routes, that decided
	Registered time.Duration // registered at least so long ago
	Within     time.Duration // registered at most so long ago
	Ended      time.Duration // ended at least so long ago
	Due        bool          // could be claimed now
	Limit      int           // newest first when set, oldest first otherwise
}

// Stats counts the tasks of an inbox.
type Stats struct {
	ByStatus map[Status]int
	Due      int        // could be claimed now
	Oldest   *time.Time // when the longest waiting live task was registered
	Now      time.Time  // by the registry's clock

	// Of the last day:
	Ended     int // tasks that ended with their outcome known: forwarded, dead
	Retried   int // of these, those that needed more than one attempt
	Conflicts int // times that a worker lost its lease to another and then wanted to change the task
}

// Disposition is how one message is accounted for.
type Disposition struct {
	UID        uint32
	TaskID     int64  // 0: it was there before the start and is not forwarded
	Status     Status // of its task, or in which its task ended that was purged; empty without a task, and of one that is lost
	Purged     bool
	Reason     string
	QueuedAt   time.Time  // of its task
	VisibleAt  *time.Time // of its task; nil once that has ended
	Deliveries []Delivery // gone with the task when that was purged
}

// Lost reports whether the message had a task that others than the queue have deleted: nobody knows what became of it.
func (d Disposition) Lost() bool { return d.TaskID != 0 && d.Status == "" }
