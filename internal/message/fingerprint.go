package message

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// Fingerprint identifies a message by its content. It is the SHA-256 of the octets in the spool,
// without the fields that mail stores add. A message keeps its fingerprint when it moves to another
// folder or when UIDVALIDITY changes. Two messages that differ in any other octet have different
// fingerprints.
type Fingerprint [sha256.Size]byte

// String returns the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Scan implements sql.Scanner: databases have the octets.
func (f *Fingerprint) Scan(v any) error {
	octets, _ := v.([]byte)
	if len(octets) != len(f) {
		return fmt.Errorf("%d octets are not a fingerprint", len(octets))
	}
	copy(f[:], octets)
	return nil
}

// Value implements driver.Valuer.
func (f Fingerprint) Value() (driver.Value, error) { return f[:], nil }

// storeFields are fields that mail stores (mbox drivers, IMAP servers, mail clients) add or change.
var storeFields = map[string]bool{
	"status": true, "x-status": true, "x-keywords": true, "x-uid": true, "x-uidl": true,
	"x-imap": true, "x-imapbase": true, "content-length": true, "lines": true,
	"x-mozilla-status": true, "x-mozilla-status2": true, "x-mozilla-keys": true,
	"x-gmail-labels": true,
}

func fingerprint(fields []Field, body io.Reader) (Fingerprint, error) {
	h := sha256.New()
	h.Write([]byte("postrider message 1\n"))
	for _, f := range fields {
		if !storeFields[f.Name] {
			h.Write(f.Raw)
		}
	}
	if _, err := io.Copy(h, body); err != nil {
		return Fingerprint{}, fmt.Errorf("read a spooled message: %w", err)
	}
	return Fingerprint(h.Sum(nil)), nil
}

// Outline identifies a message that was not downloaded, by its INTERNALDATE (RFC 3501 2.3.3) and
// its size in octets. It is weaker than a fingerprint of the content, and never equal to one.
func Outline(received time.Time, size int64) Fingerprint {
	return sha256.Sum256(fmt.Appendf(nil, "postrider outline 1\n%d %d\n", received.Unix(), size))
}
