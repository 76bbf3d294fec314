package srs

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"strings"
	"time"
)

// hashLength is how much of a hash is used: enough against guessing while an address is valid.
// Local parts are short.
const hashLength = 4

// sign is HMAC-SHA1, as every SRS implementation has it. The weakness of SHA-1 does not affect an
// HMAC.
func sign(secret string, parts ...string) string { return hash(secret, parts)[:hashLength] }

// signed takes a longer hash, too: other servers with the same secret may make one.
func signed(secret, got string, parts ...string) bool {
	want := hash(secret, parts)
	return len(got) >= hashLength && len(got) <= len(want) && strings.EqualFold(got, want[:len(got)])
}

func hash(secret string, parts []string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	for _, p := range parts {
		mac.Write([]byte(strings.ToLower(p)))
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

const (
	day      = 24 * time.Hour
	base32   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	cycle    = len(base32) * len(base32) // days until a stamp repeats
	skewDays = 1                         // how far another host's clock may be ahead
)

func dayOf(t time.Time) int { return int(t.Unix() / int64(day/time.Second)) }

// stampOf is the day in two letters.
func stampOf(t time.Time) string {
	n := dayOf(t) % cycle
	return string([]byte{base32[n/len(base32)], base32[n%len(base32)]})
}

// ageOf is how many days ago a stamp was made, from -1 to 1022: stamps repeat, and the latest day
// that fits counts. ok is false when stamp is not one.
func ageOf(stamp string, now time.Time) (days int, ok bool) {
	if len(stamp) != 2 {
		return 0, false
	}
	stamp = strings.ToUpper(stamp)
	high, low := strings.IndexByte(base32, stamp[0]), strings.IndexByte(base32, stamp[1])
	if high < 0 || low < 0 {
		return 0, false
	}
	made := high*len(base32) + low
	ahead := dayOf(now) + skewDays
	return (ahead-made)%cycle - skewDays, true
}
