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
	AsWaiting     Account = "waiting" // received, in progress, or to be retried
	AsUncertain   Account = "uncertain"
	AsDead        Account = "dead"
	AsPurged      Account = "purged"       // its task ended and was deleted, with its recipients
	AsBeforeStart Account = "before_start" // older than the start, so it is not forwarded
	AsNotNoted    Account = "not_noted"    // the same, and the next run notes it
	AsNew         Account = "new"          // above the cursor: the next run registers it
	AsReappeared  Account = "reappeared"   // its task ended as vanished: an operator has to decide
	// AsMissing: it is at or below the cursor, and the registry does not know it, or something
	// other than postrider deleted its task.
	AsMissing Account = "missing"
)

// Accounts are all accounts, in the order in which they are printed.
var Accounts = []Account{
	AsForwarded, AsNoMatch, AsSkipped, AsWaiting, AsUncertain, AsDead, AsPurged, AsBeforeStart, AsNotNoted, AsNew,
	AsReappeared, AsMissing,
}

// accountOf is the account of a message that has a task.
var accountOf = map[tasks.Status]Account{
	tasks.Received: AsWaiting, tasks.InProgress: AsWaiting, tasks.Error: AsWaiting, tasks.Uncertain: AsUncertain,
	tasks.Dead: AsDead, tasks.Forwarded: AsForwarded, tasks.SkippedNoMatch: AsNoMatch, tasks.Skipped: AsSkipped,
}

// Audited is one message on the server, or one task whose message is not there, and how it is
// accounted for.
type Audited struct {
	Inbox       string       `json:"inbox"`
	Folder      string       `json:"folder"`
	UIDValidity uint32       `json:"uid_validity"`
	UID         uint32       `json:"uid"`
	Account     Account      `json:"account"`
	Gone        bool         `json:"gone,omitempty"`      // its message is no longer on the server
	Unwatched   bool         `json:"unwatched,omitempty"` // its folder is not watched, so not compared
	TaskID      int64        `json:"task_id,omitempty"`
	Status      tasks.Status `json:"status,omitempty"` // of its task; of a purged one the last one
	To          []string     `json:"to,omitempty"`     // for whom the relay accepted it, and who did not bounce
	Reason      string       `json:"reason,omitempty"`
	Mode        string       `json:"mode,omitempty"` // how it goes out; a notice is not the message

	// What became of it after the relay had accepted it, as reports say.
	Confirmed []string `json:"confirmed,omitempty"` // of To: who has it in the mailbox
	Bounced   []string `json:"bounced,omitempty"`

	// Of a task that waits: when it was registered or requeued, and when it is due. One in progress
	// is due when its lease ends.
	Since   *time.Time `json:"since,omitempty"`
	NextTry *time.Time `json:"next_try,omitempty"`

	// Of a missing message: when the server received it, and its octets.
	Received *time.Time `json:"received,omitempty"`
	Size     int64      `json:"size,omitempty"`
}

// MissingMessage is a message that the registry does not know, or whose task something other than
// postrider deleted.
type MissingMessage struct {
	UID      uint32     `json:"uid"`
	TaskID   int64      `json:"task_id,omitempty"` // of the deleted task
	Received *time.Time `json:"received"`          // nil when the server does not say
	Size     int64      `json:"size"`
}

// Stray is a task that is at odds with the server:
//   - it is unfinished, and its message is not on the server, or was not found again since
//     UIDVALIDITY changed, or is in a folder that is no longer watched;
//   - it was skipped as vanished, and its message is on the server;
//   - something other than postrider deleted it, and its message is not on the server either.
type Stray struct {
	TaskID      int64        `json:"task_id"`
	UIDValidity uint32       `json:"uid_validity"`
	UID         uint32       `json:"uid"`
	Status      tasks.Status `json:"status"` // empty when the task was deleted
}

// Lost reports whether something other than postrider deleted the task.
func (s Stray) Lost() bool { return s.Status == "" }

// FolderAudit is what an audit found in one folder.
type FolderAudit struct {
	Name         string `json:"name"`
	UIDValidity  uint32 `json:"uid_validity"`
	Error        string `json:"error"`                   // why nothing, or not all, could be proved
	NeverScanned bool   `json:"never_scanned,omitempty"` // no run has scanned it yet
	// Unwatched: it is no longer watched, so it is not compared. Gone and Strays have all its
	// tasks.
	Unwatched bool `json:"unwatched,omitempty"`

	Messages   int              `json:"messages"`   // on the server
	Counts     map[Account]int  `json:"counts"`     // of these messages, for every account
	Registered int              `json:"registered"` // of these, by this audit
	Missing    []MissingMessage `json:"missing"`

	// Of all tasks of the folder, on the server or not, as reports say: how many bounced for a
	// recipient, and how many were confirmed (IsConfirmed) for all that the relay accepted and that
	// did not bounce.
	Bounced   int `json:"bounced,omitempty"`
	Confirmed int `json:"confirmed,omitempty"`

	Gone      int             `json:"gone"`                // ended tasks, message not on the server
	GoneAs    map[Account]int `json:"gone_as"`             // how these are accounted for
	Strays    []Stray         `json:"strays"`              // unfinished, deleted and reappeared ones
	Forgotten int             `json:"forgotten,omitempty"` // deleted ones that a repair dropped
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
	a := &FolderAudit{
		Name: name, Counts: map[Account]int{}, GoneAs: map[Account]int{},
		Missing: []MissingMessage{}, Strays: []Stray{},
	}
	for _, as := range Accounts {
		a.Counts[as] = 0
	}
	return a
}

// AuditSum is what was found in all folders.
type AuditSum struct {
	Messages, Missing, Reappeared, Registered int
	Confirmed, Bounced                        int
	// Tasks whose messages are not on the server: ended; deleted by something other than postrider;
	// and of the deleted ones, those that a repair dropped.
	Gone, Lost, Forgotten int
	Unwatched             int  // ended tasks of folders that are no longer watched
	Proved                bool // everything could be compared
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
			sum.Confirmed += f.Confirmed
			sum.Bounced += f.Bounced
			if f.Unwatched {
				sum.Unwatched += f.Gone
			} else {
				sum.Gone += f.Gone
			}
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

// Unaccounted is how many messages and deleted tasks are not accounted for.
func (s AuditSum) Unaccounted() int { return s.Missing + s.Reappeared + s.Lost }

// Clean reports whether every message is accounted for.
func (s AuditSum) Clean() bool { return s.Proved && s.Unaccounted() == 0 }
