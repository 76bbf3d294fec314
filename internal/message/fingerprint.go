package message

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// Fingerprint identifies a message by its content: SHA-256 over its canonical octets without the fields that mail stores
// write into it themselves. The same message in another folder, moved out and back, or seen after a change of
// UIDVALIDITY has the same one; two messages that differ in any other octet do not.
type Fingerprint [sha256.Size]byte

// String is the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// storeFields are written or changed by mail stores (mbox drivers, IMAP servers, mail clients), not by the sender.
var storeFields = map[string]bool{
	"status": true, "x-status": true, "x-keywords": true, "x-uid": true, "x-uidl": true,
	"x-imap": true, "x-imapbase": true, "content-length": true, "lines": true,
	"x-mozilla-status": true, "x-mozilla-status2": true, "x-mozilla-keys": true,
	"x-gmail-labels": true,
}

func fingerprint(fields []field, body io.Reader) (Fingerprint, error) {
	h := sha256.New()
	h.Write([]byte("postrider message 1\n"))
	for _, f := range fields {
		if !storeFields[f.name] {
			h.Write(f.raw)
		}
	}
	if _, err := io.Copy(h, body); err != nil {
		return Fingerprint{}, fmt.Errorf("read a spooled message: %w", err)
	}
	return Fingerprint(h.Sum(nil)), nil
}

// Outline identifies a message that is not downloaded, by what the server says of it: the time it was received (RFC 3501
// 2.3.3) and its size in octets. It is weaker than a fingerprint of the content and never equals one.
func Outline(received time.Time, size int64) Fingerprint {
	return sha256.Sum256(fmt.Appendf(nil, "postrider outline 1\n%d %d\n", received.Unix(), size))
}
