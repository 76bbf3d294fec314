// Package inbox stores the monitored inboxes in the database: their settings, folders and
// passwords, the scan lease, which lets only one pass at a time scan an inbox, and the cursor of
// each folder.
//
// Passwords are stored encrypted with the key of a Sealer, and so are env:NAME, file:PATH and
// command:... in their place. They are encrypted for the server that the password is sent to, its
// certificate and the username: whoever can write the database cannot have it sent elsewhere
// (except to an earlier server of the same inbox, by putting its old row back). Only Store.Password
// returns passwords; a printed or logged Inbox shows [redacted].
//
// Every change is one transaction that can be repeated, so a lost answer of the database does no
// harm. A change that finds another state than its caller saw changes nothing and returns
// ErrScanLost, ErrCursorMoved, *NotFoundError or *ExistsError. Wrong settings are an *InvalidError.
//
// This package initializes a cursor and moves it back. Package tasks moves it forward, in the
// transaction that registers a page. Package tasks also disables and removes an inbox, because its
// tasks are concerned.
package inbox

import (
	"errors"
	"fmt"
	"time"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// Inbox is one monitored IMAP account.
type Inbox struct {
	ID             int64
	Address        string `gorm:"column:email_address"` // in lower case; it names the inbox
	Description    string
	Host           string
	Port           int
	Security       Security
	AllowPlaintext bool   // security none is allowed for a host other than loopback
	AllowDelete    bool   // messages may be deleted on the server
	Username       string // for the login
	Auth           string // auto, plain, login
	CAFile         string // with certificates to trust besides those of the system and of imap.ca_file
	TLSFingerprint string // of the only certificate that is accepted; empty: by issuer and name
	ClientCert     string // a file with the certificate to show to the server, and its key
	Start          Start
	Active         bool          `gorm:"column:is_active"`
	Password       secret.String `gorm:"column:email_password"` // encrypted: itself, or where it is
	LastError      string        // why the last scan failed; empty when it succeeded
	FailingSince   *time.Time    // when the first of the failed scans in a row ended; nil after a success
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastScannedAt  *time.Time // when a scan last succeeded
	Folders        []Folder   `gorm:"-"` // sorted by name
	Labels         Labels     `gorm:"-"` // nil in a Lease
}

// IDs are those of the inboxes.
func IDs(boxes []Inbox) []int64 {
	ids := make([]int64, len(boxes))
	for i, in := range boxes {
		ids[i] = in.ID
	}
	return ids
}

// Folder is one IMAP mailbox of an inbox, with its cursor.
type Folder struct {
	ID      int64
	InboxID int64
	Name    string
	Active  bool `gorm:"column:is_active"` // false: no longer monitored; its tasks stay
	// UIDValidity is the epoch: the server's UIDVALIDITY in the low 32 bits, and above them how
	// often the folder started over.
	UIDValidity int64  `gorm:"column:uid_validity"`
	LastSeenUID uint32 `gorm:"column:last_seen_uid"` // every UID up to it is registered
	StartUID    uint32 `gorm:"column:start_uid"`     // UIDs up to it are not forwarded
	BaselineUID uint32 `gorm:"column:baseline_uid"`  // UIDs up to it are in the ledger
	// Reconciled is the last epoch in which every message on the server was compared with the
	// registry; below 0 when UIDs cannot be trusted, see Store.Distrust.
	Reconciled    int64
	InitializedAt *time.Time
	LastScannedAt *time.Time
}

// Distrusted reports whether the folder's UIDs cannot be trusted, see Store.Distrust.
func (f Folder) Distrusted() bool { return f.Reconciled < 0 }

// Doubt is why the UIDs of a distrusted folder cannot be trusted.
func (f Folder) Doubt() string {
	if f.Reconciled == -2 {
		return "the folder was watched again before it was compared"
	}
	return "the server gave the UID of a message to another one"
}

// Security says how the connection to the IMAP server is encrypted.
type Security string

// The values of Security: TLS from the first octet, after STARTTLS, or no encryption.
const (
	TLS      Security = "tls"
	STARTTLS Security = "starttls"
	None     Security = "none"
)

// Start is where the cursor of a folder begins: StartLatest, StartNow, StartAll, or
// since:YYYY-MM-DD.
type Start string

// The starts without a date.
const (
	StartLatest Start = "latest" // the newest message, and all that arrive later
	StartNow    Start = "now"    // only messages that arrive later
	StartAll    Start = "all"    // all messages in the folder
)

// InvalidError holds everything that is wrong with the settings of an inbox.
type InvalidError struct{ Err error }

// Error is one line.
func (e *InvalidError) Error() string { return text.Error(e.Err) }

func (e *InvalidError) Unwrap() error { return e.Err }

// NotFoundError says that there is no inbox with this address.
type NotFoundError struct {
	Address string
	Nearest string // the most similar address of an inbox; empty when none is similar
}

// Error names the most similar address.
func (e *NotFoundError) Error() string {
	if e.Nearest != "" {
		return fmt.Sprintf("there is no inbox %s; did you mean %s?", e.Address, e.Nearest)
	}
	return fmt.Sprintf("there is no inbox %s; `postrider inbox list` shows all inboxes", e.Address)
}

// ExistsError says that there is already an inbox with this address.
type ExistsError struct{ Address string }

// Error says how to change the inbox instead.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("inbox %s exists already; change it with `postrider inbox set %s`",
		e.Address, text.Arg(e.Address))
}

var (
	// ErrScanLost says that the scan lease expired and another run took it over, or that it was
	// released.
	ErrScanLost = errors.New("the scan lease of this inbox was lost to another process")
	// ErrCursorMoved says that the folder is not in the state that the caller saw.
	ErrCursorMoved = errors.New("another process changed the folder's cursor")
)
