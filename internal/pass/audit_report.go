package pass

import (
	"time"

	"postrider/internal/tasks"
)

// Account is how a message on the server is accounted for.
type Account string

// The accounts.
const (
	AsForwarded   Account = "forwarded"
	AsNoMatch     Account = "skipped_no_match"
	AsSkipped     Account = "skipped"
	AsWaiting     Account = "waiting" // to be worked off, or being worked on
	AsUncertain   Account = "uncertain"
	AsDead        Account = "dead"
	AsPurged      Account = "purged"       // its task has ended and is deleted; to whom it went is no longer known
	AsBeforeStart Account = "before_start" // it was there before the start and is not forwarded
	AsNotNoted    Account = "not_noted"    // the same, and the next run notes it
	AsNew         Account = "new"          // above the cursor: the next run registers it
	AsReappeared  Account = "reappeared"   // its task ended as vanished, and here it is: a person has to look
	AsMissing     Account = "missing"      // at or below the cursor, and the registry does not know it; or others have deleted its task
)

// Accounts are all accounts, in the order in which people read them.
var Accounts = []Account{
	AsForwarded, AsNoMatch, AsSkipped, AsWaiting, AsUncertain, AsDead, AsPurged, AsBeforeStart, AsNotNoted, AsNew,
	AsReappeared, AsMissing,
}

// accountOf is the account of a message that has a task.
var accountOf = map[tasks.Status]Account{
	tasks.Received: AsWaiting, tasks.InProgress: AsWaiting, tasks.Error: AsWaiting, tasks.Uncertain: AsUncertain,
	tasks.Dead: AsDead, tasks.Forwarded: AsForwarded, tasks.SkippedNoMatch: AsNoMatch, tasks.Skipped: AsSkipped,
}

// Audited is one message on the server, or one task whose message is not there, and how it is accounted for.
type Audited struct {
	Inbox       string       `json:"inbox"`
	Folder      string       `json:"folder"`
	UIDValidity uint32       `json:"uid_validity"`
	UID         uint32       `json:"uid"`
	Account     Account      `json:"account"`
	Gone        bool         `json:"gone,omitempty"`      // its message is not on the server any more
	Unwatched   bool         `json:"unwatched,omitempty"` // or it was not looked for: its folder is not watched any more
	TaskID      int64        `json:"task_id,omitempty"`
	Status      tasks.Status `json:"status,omitempty"` // of its task; of a purged one that in which it ended
	To          []string     `json:"to,omitempty"`     // who has it
	Reason      string       `json:"reason,omitempty"`
	Since       *time.Time   `json:"since,omitempty"`    // of one that waits: registered, or put back by a person
	NextTry     *time.Time   `json:"next_try,omitempty"` // of one that waits: not before; the end of its lease when it is being worked on
	Received    *time.Time   `json:"received,omitempty"` // by the server; of a missing one
	Size        int64        `json:"size,omitempty"`     // in octets; of a missing one
}

// MissingMessage is a message that the registry does not know, or whose task others than postrider have deleted.
type MissingMessage struct {
	UID      uint32    `json:"uid"`
	TaskID   int64     `json:"task_id,omitempty"` // the one that was deleted
	Received time.Time `json:"received"`          // zero when the server does not say
	Size     int64     `json:"size"`
}

// Stray is an unfinished task whose message is not on the server, or not found again since UIDVALIDITY changed, or in a folder
// that is not watched any more; or one that was skipped as vanished and whose message is there; or one that others than postrider
// have deleted, and whose message is not there either.
type Stray struct {
	TaskID      int64        `json:"task_id"`
	UIDValidity uint32       `json:"uid_validity"`
	UID         uint32       `json:"uid"`
	Status      tasks.Status `json:"status"` // empty when the task was deleted
}

// Lost reports whether others have deleted the task.
func (s Stray) Lost() bool { return s.Status == "" }

// FolderAudit is what an audit found in one folder.
type FolderAudit struct {
	Name         string           `json:"name"`
	UIDValidity  uint32           `json:"uid_validity"`
	Error        string           `json:"error"`                   // why nothing, or not all, could be proved
	NeverScanned bool             `json:"never_scanned,omitempty"` // no run has looked into it yet
	Unwatched    bool             `json:"unwatched,omitempty"`     // no longer watched, and not compared: Gone and Strays are all its tasks
	Messages     int              `json:"messages"`                // on the server
	Counts       map[Account]int  `json:"counts"`                  // of these, with all accounts
	Registered   int              `json:"registered"`              // of these, missing before they were registered by the audit
	Missing      []MissingMessage `json:"missing"`
	Gone         int              `json:"gone"`                // tasks that have ended and whose message is no longer on the server
	GoneAs       map[Account]int  `json:"gone_as"`             // how these are accounted for
	Strays       []Stray          `json:"strays"`              // tasks that have not ended, or were deleted; and reappeared messages
	Forgotten    int              `json:"forgotten,omitempty"` // strays that had been deleted, dropped by a repair
}

// InboxAudit is what an audit found in one inbox.
type InboxAudit struct {
	Email   string         `json:"email"`
	Error   string         `json:"error"` // why not all of it could be compared or repaired
	Folders []*FolderAudit `json:"folders"`
}

// AuditReport is what came of an audit. It is what `audit --json` prints.
type AuditReport struct {
	StartedAt   time.Time    `json:"started_at"`
	DurationMS  int64        `json:"duration_ms"`
	Interrupted bool         `json:"interrupted,omitempty"`
	Inboxes     []InboxAudit `json:"inboxes"`
}

func newFolderAudit(name string) *FolderAudit {
	a := &FolderAudit{Name: name, Counts: map[Account]int{}, GoneAs: map[Account]int{}, Missing: []MissingMessage{}, Strays: []Stray{}}
	for _, as := range Accounts {
		a.Counts[as] = 0
	}
	return a
}

// AuditSum is what was found in all folders.
type AuditSum struct {
	Messages, Missing, Reappeared, Registered int
	Gone, Lost, Forgotten                     int  // tasks whose messages are not there: ended; deleted by others; and of these, dropped
	Proved                                    bool // everything could be compared
}

// Sum adds the folders up.
func (r *AuditReport) Sum() AuditSum {
	sum := AuditSum{Proved: !r.Interrupted}
	for _, in := range r.Inboxes {
		sum.Proved = sum.Proved && in.Error == ""
		for _, f := range in.Folders {
			sum.Proved = sum.Proved && f.Error == ""
			sum.Messages += f.Messages
			sum.Missing += len(f.Missing)
			sum.Reappeared += f.Counts[AsReappeared]
			sum.Registered += f.Registered
			sum.Gone += f.Gone
			sum.Forgotten += f.Forgotten
			for _, s := range f.Strays {
				if s.Lost() {
					sum.Lost++
				}
			}
		}
	}
	return sum
}

// Clean reports whether every message is accounted for.
func (s AuditSum) Clean() bool { return s.Proved && s.Missing == 0 && s.Reappeared == 0 && s.Lost == 0 }
