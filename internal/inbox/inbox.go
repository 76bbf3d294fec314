// Package inbox keeps the monitored inboxes: their settings, folders and passwords, the lease that lets one pass at a
// time scan an inbox, those of the hosts that help with it, and each folder's cursor.
//
// Passwords are stored sealed with the key of a Sealer, or as env:NAME or file:PATH; they leave this package through
// Store.Password alone, and Inbox prints and logs them as [redacted].
//
// Every change is one transaction that may be repeated, so an answer that was lost on its way does no harm. A change
// that finds another state than its caller saw changes nothing and says so: *InvalidError, *NotFoundError,
// *ExistsError, ErrScanLost, ErrHelpLost, ErrCursorMoved. The cursor moves forward in the queue, with the registration of a page;
// here it begins, and goes back. So it is the queue that takes an inbox out of use, with its tasks.
package inbox

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// Inbox is one monitored IMAP account.
type Inbox struct {
	ID             int64
	Address        string `gorm:"column:email_address"` // lower case: the inbox's name
	Description    string
	Host           string
	Port           int
	Security       Security
	AllowPlaintext bool   // security none is allowed for a host other than loopback
	Username       string // for the login
	Auth           string // auto, plain, login
	Start          Start
	Active         bool          `gorm:"column:is_active"`
	Password       secret.String `gorm:"column:email_password"` // as stored: sealed, env:NAME or file:PATH
	LastError      string        // why the last scan did not complete; empty when it did
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastScannedAt  *time.Time // the last scan that completed
	Folders        []Folder   `gorm:"-"` // by name
}

// Begun reports whether one of the inbox's folders has a cursor.
func (in Inbox) Begun() bool {
	return slices.ContainsFunc(in.Folders, func(f Folder) bool { return f.Active && f.InitializedAt != nil })
}

// Folder is one IMAP mailbox of an inbox, with its cursor.
type Folder struct {
	ID            int64
	InboxID       int64
	Name          string
	Active        bool   `gorm:"column:is_active"`     // false: no longer watched, its registry stays
	UIDValidity   int64  `gorm:"column:uid_validity"`  // the epoch: low 32 bits the server's, above them how often the folder has begun anew
	LastSeenUID   uint32 `gorm:"column:last_seen_uid"` // everything at or below it is registered
	StartUID      uint32 `gorm:"column:start_uid"`     // messages at or below it were there before and are not forwarded
	BaselineUID   uint32 `gorm:"column:baseline_uid"`  // how far the messages up to StartUID are noted in the ledger
	InitializedAt *time.Time
	LastScannedAt *time.Time
}

// Security is how the connection to the IMAP server is protected.
type Security string

// The securities.
const (
	TLS      Security = "tls"
	STARTTLS Security = "starttls"
	None     Security = "none"
)

// Start is where the cursor of a folder begins: StartLatest, StartNow, StartAll, or since:YYYY-MM-DD.
type Start string

// The starts that name no date.
const (
	StartLatest Start = "latest" // the newest message, and all after it
	StartNow    Start = "now"    // what comes from now on
	StartAll    Start = "all"    // everything there is
)

// InvalidError is everything that is wrong with what a person said of an inbox.
type InvalidError struct{ Err error }

// Error is one line.
func (e *InvalidError) Error() string { return text.Error(e.Err) }

func (e *InvalidError) Unwrap() error { return e.Err }

// NotFoundError is an address that is not monitored.
type NotFoundError struct {
	Address string
	Nearest string // the monitored address that looks most like it, or empty
}

// Error names the nearest known address.
func (e *NotFoundError) Error() string {
	if e.Nearest != "" {
		return fmt.Sprintf("there is no inbox %s; did you mean %s?", e.Address, e.Nearest)
	}
	return fmt.Sprintf("there is no inbox %s; `postrider inbox list` shows those there are", e.Address)
}

// ExistsError is an address that is monitored already.
type ExistsError struct{ Address string }

// Error says how to change the inbox instead.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("inbox %s exists already; change it with `postrider inbox set %s`", e.Address, e.Address)
}

var (
	// ErrScanLost is a scan lease that ran out and was taken over, or was released.
	ErrScanLost = errors.New("the scan lease of this inbox was lost to another process")
	// ErrHelpLost is the lease of a helper that ran out, and was taken over by a run of its own host or cleared away a day later.
	ErrHelpLost = errors.New("the lease of this helper ran out, and other runs go on without it")
	// ErrCursorMoved is a folder that is not, or no longer, in the state its caller saw.
	ErrCursorMoved = errors.New("the folder's cursor was changed by another process")
)
