package tasks

import "postrider/internal/message"

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
	Cursor            uint32 // everything at or below it has a disposition with this page; it never moves back
	Entries           []Entry
	Dedupe            Dedupe
	KnownOnly         bool // find tasks of older epochs again, and register nothing
	DryRun            bool // say what would become of the entries, and change nothing
}

// Entry is one message of a page.
type Entry struct {
	UID      uint32
	Stated   Stated
	Identity Identity
	Decision *Decision // nil: to be decided at the first claim
	Mode     string    // the form in which it has to go out; mostly empty, and decided later
	Header   *Header   // to be kept for events; nil when no event includes it, or it is not known
}

// Outline is that by which a message that was there before the start is known again.
func (e Entry) Outline() message.Fingerprint { return e.Stated.Outline() }

// Read reports whether the content is known, and not only the outline.
func (e Entry) Read() bool { return e.Identity.Fingerprint != e.Outline() }

// Decision is who gets a message: made once, and recorded with the task.
type Decision struct {
	Revision   string     // of the rules that made it
	Route      string     // the names of the routes that matched, joined by "+"
	Recipients []string   // nobody: the task ends skipped, or skipped_no_match
	Priority   Priority   // from the routes
	Skip       SkipReason // nobody gets it on purpose
	Reason     string     // why nobody gets it
	Notes      []Note     // for the audit trail
	Keep       KeepReason // why the message must stay on its server; mostly empty
}

// Status is where the decision takes a task.
func (d *Decision) Status() Status {
	switch {
	case d == nil || d.Skip == "" && len(d.Recipients) > 0:
		return Received
	case d.Skip != "":
		return Skipped
	}
	return SkippedNoMatch
}

// Note is a line for the audit trail.
type Note struct{ Event, Detail string }

// Reservation is what Reserve records.
type Reservation struct {
	// Identity is what the message is; nil when that is recorded already. When only the header was
	// read, the fingerprint is the one that the task has.
	Identity *Identity
	// Decision replaces the recipients of a task that has not begun (Task.Begun); nil keeps them.
	Decision *Decision
	Revision string // of the rules in force
	Dedupe   Dedupe
}

// Fate is what registering did with a message.
type Fate int

// The fates of an entry.
const (
	New   Fate = iota // registered; Registration.Status says where it stands
	Known             // registered or noted before, nothing was done
	Moved             // the task of an older epoch found its message again
)

// Registration is what became of one entry.
type Registration struct {
	UID    uint32
	TaskID int64 // 0 when there is none
	Fate   Fate
	Status Status     // of a new task: received, skipped, skipped_no_match
	Skip   SkipReason // of a new task
	Task   *Task      // a new task that can be sent as it is (see Offer); nil otherwise
}
