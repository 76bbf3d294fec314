package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Occurrence is something that happened, to a task or to an inbox.
type Occurrence struct {
	ID      int64
	Kind    Kind
	TaskID  int64 // 0: to an inbox
	InboxID int64 // 0: to a task
	At      time.Time
}

const columnsOfOccurrences = "kind, task_id, inbox_id, at"

// Note notes occurrences in the transaction in which they happened, which is now. Their IDs and
// times are not looked at.
func Note(tx *gorm.DB, now time.Time, os []Occurrence) error {
	rows := make([][]any, len(os))
	for i, o := range os {
		rows[i] = []any{o.Kind, o.TaskID, o.InboxID, now.UnixMicro()}
	}
	return db.Insert(tx, tableOccurrences, columnsOfOccurrences, rows)
}

// Digest distinguishes the URLs of a destination. User, password and parameters are left out,
// because the digest of a password would help to guess it.
func Digest(url string) string {
	url, _, _ = strings.Cut(url, "?")
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	sum := sha256.Sum256([]byte(scheme + "://" + host + "/" + path))
	return hex.EncodeToString(sum[:16])
}

// EventID is the ID of the event of an occurrence at a destination: always the same one.
func EventID(o Occurrence, destination string) string {
	text := fmt.Appendf(nil, "%d\n%s\n%d\n%d\n%d\n%s",
		o.ID, o.Kind, o.TaskID, o.InboxID, o.At.UnixMicro(), destination)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
