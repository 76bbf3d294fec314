package bounce

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"postrider/internal/address"
)

// Placeholder is where the token is in Config.Address.
const Placeholder = "{token}"

// Config says how reverse-paths look, and who may make them.
type Config struct {
	Address string           // bounces+{token}@firm.example; the local part is ASCII
	Secrets []string         // the first one signs, all of them verify
	MaxAge  time.Duration    // how long a token is valid, in days
	Now     func() time.Time // for the day in a token
}

// What is wrong with an address that Read refuses.
var (
	ErrNotOurs = errors.New("it is not one of our reverse-paths")
	ErrForged  = errors.New("its token is not signed with our secret")
	ErrExpired = errors.New("its token has expired")
)

// Signer makes and reads reverse-paths. It is safe for concurrent use.
type Signer struct {
	before, after string // what is around the token, in lower case
	keys          []*key
	maxAge        time.Duration
	now           func() time.Time
}

// A token is, in base32, task (1 to 9 octets) | low octet of the time when it was queued (1) |
// day (2) | recipient (5) | signature (10). Its letters are lower case. Upper case means the same,
// because servers on the way may change the case. It does not name the attempt, because a server
// with greylisting accepts a retry only from the same reverse-path.
const (
	queuedOctets    = 1
	dayOctets       = 2
	recipientOctets = 5
	signatureOctets = 10
	maxOctets       = 9 + queuedOctets + dayOctets + recipientOctets + signatureOctets

	maxLocal = 64 // octets of a local part (RFC 5321 4.5.3.1.1)
	day      = 24 * time.Hour
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewSigner validates the configuration. Every token fits into the local part of its address.
func NewSigner(cfg Config) (*Signer, error) {
	before, after, ok := strings.Cut(cfg.Address, Placeholder)
	longest := "{" + strings.Repeat("x", encoding.EncodedLen(maxOctets)-2) + "}"
	a, err := address.Parse(before + longest + after)
	switch {
	case !ok || !strings.Contains(after, "@"):
		return nil, fmt.Errorf("%q has no %s before its @: set bounces.address, such as bounces+%[2]s@firm.example",
			cfg.Address, Placeholder)
	case err != nil || strings.Contains(after, Placeholder):
		return nil, fmt.Errorf("bounces.address %q is not an address with one token in it: "+
			"write it like bounces+%s@firm.example", cfg.Address, Placeholder)
	case a.UTF8:
		return nil, fmt.Errorf("bounces.address %q would need SMTPUTF8, which not every server takes: "+
			"its part before the @ has to be ASCII", cfg.Address)
	case strings.LastIndexByte(a.Wire, '@') > maxLocal:
		return nil, fmt.Errorf("bounces.address %q is too long: "+
			"beside the token, the part before the @ may have %d octets", cfg.Address, maxLocal-len(longest))
	case len(cfg.Secrets) == 0:
		return nil, errors.New("there is no secret to sign reverse-paths with: set bounces.secret")
	}
	s := &Signer{maxAge: cfg.MaxAge, now: cfg.Now}
	s.before, s.after, _ = strings.Cut(a.Key(), longest)
	for _, secret := range cfg.Secrets {
		s.keys = append(s.keys, &key{[]byte(secret)})
	}
	return s, nil
}

// ReversePath is the address that bounces of a delivery come to. task is above 0; queued is when it
// was last queued.
func (s *Signer) ReversePath(task int64, queued time.Time, recipient string) string {
	return s.before + s.Token(task, queued, recipient) + s.after
}

// Token is what replaces {token}: letters and digits, which can also be an ENVID (RFC 3461 4.4).
func (s *Signer) Token(task int64, queued time.Time, recipient string) string {
	k := s.keys[0]
	b := append(binary.AppendUvarint(nil, uint64(task)), lowOctet(queued))
	b = binary.BigEndian.AppendUint16(b, uint16(s.now().Unix()/int64(day/time.Second)))
	b = append(b, k.recipient(recipient)...)
	return encoding.EncodeToString(append(b, k.sign(b)...))
}

// Ref is the delivery that a token names.
type Ref struct {
	Task int64
	Made time.Time // the day, in UTC

	queued    byte
	recipient []byte
	by        *key
}

// QueuedAt reports whether the token was made for a task queued at that time. It is also true for
// about one in 256 other times.
func (r Ref) QueuedAt(t time.Time) bool { return r.queued == lowOctet(t) }

func lowOctet(t time.Time) byte { return byte(t.Unix()) }

// Is reports whether the token was made for that recipient, in any spelling of the address.
func (r Ref) Is(recipient string) bool {
	return r.by != nil && hmac.Equal(r.recipient, r.by.recipient(recipient))
}

// Read reads an address that a report came to. The error is ErrNotOurs, ErrForged or ErrExpired;
// with ErrExpired, the Ref says what expired.
func (s *Signer) Read(addr string) (Ref, error) {
	a, err := address.Parse(addr)
	if err != nil {
		return Ref{}, ErrNotOurs
	}
	token, ok := strings.CutPrefix(a.Key(), s.before)
	token, fits := strings.CutSuffix(token, s.after)
	if !ok || !fits || token == "" {
		return Ref{}, ErrNotOurs
	}
	return s.ReadToken(token)
}

// ReadToken reads a token, such as that of an ENVID. The error is ErrForged or ErrExpired, as with
// Read.
func (s *Signer) ReadToken(token string) (Ref, error) {
	token = strings.ToLower(token)
	b, err := encoding.DecodeString(token)
	if err != nil || encoding.EncodeToString(b) != token { // the unused bits of the last letter have to be 0
		return Ref{}, ErrForged
	}
	task, n := binary.Uvarint(b)
	if n <= 0 || int64(task) <= 0 || len(b) != n+queuedOctets+dayOctets+recipientOctets+signatureOctets {
		return Ref{}, ErrForged
	}
	signed, signature := b[:len(b)-signatureOctets], b[len(b)-signatureOctets:]
	days := signed[n+queuedOctets:]
	made := time.Unix(0, 0).UTC().Add(time.Duration(binary.BigEndian.Uint16(days)) * day)
	for _, k := range s.keys {
		if !hmac.Equal(signature, k.sign(signed)) {
			continue
		}
		ref := Ref{
			Task: int64(task), Made: made, queued: signed[n], recipient: bytes.Clone(days[dayOctets:]), by: k,
		}
		if s.now().Sub(made).Truncate(day) > s.maxAge {
			return ref, ErrExpired
		}
		return ref, nil
	}
	return Ref{}, ErrForged
}

// key makes the hashes of a token from one secret. The purpose is part of what is hashed, because
// SRS addresses may be signed with the same secret.
type key struct{ secret []byte }

func (k *key) sign(b []byte) []byte { return k.hash("bounce token", b)[:signatureOctets] }

// recipient is a hash, so that the address is not in a message that is passed on.
func (k *key) recipient(recipient string) []byte {
	return k.hash("bounce recipient", []byte(spelled(recipient)))[:recipientOctets]
}

func (k *key) hash(purpose string, b []byte) []byte {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte(purpose))
	mac.Write([]byte{0})
	mac.Write(b)
	return mac.Sum(nil)
}
