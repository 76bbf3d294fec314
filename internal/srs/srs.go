// Package srs rewrites reverse-paths, so that forwarded mail passes SPF and its bounces find the
// way back: the Sender Rewriting Scheme, as in Mail::SRS, libsrs2 and postsrsd.
//
// The address of the first forwarder holds all that is needed to undo it. A second forwarder only
// wraps it with the way to the first, so an address does not grow at each step:
//
//	alice@author.example                                                     the author
//	SRS0=HHHH=TT=author.example=alice@first.example                          the first forwarder
//	SRS1=HHHH=first.example==HHHH=TT=author.example=alice@second.example     each later one
//
// HHHH is the beginning of an HMAC: only the owner of the secret can make such addresses. TT is the
// day: an address expires. Case does not matter anywhere, because servers on the way change it.
//
// What cannot be rewritten is an error, never an address that does not lead back. The package knows
// addresses only: no messages, no network.
package srs

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
)

// Config says whose addresses are made.
type Config struct {
	Domain  string           // of the addresses; ASCII
	Secrets []string         // the first one signs, all of them verify
	MaxAge  time.Duration    // how long an address is valid, in days
	Now     func() time.Time // for time stamps
}

// Rewriter makes and reads SRS addresses. It is safe for concurrent use.
type Rewriter struct{ cfg Config }

// New validates the configuration.
func New(cfg Config) (*Rewriter, error) {
	switch {
	case cfg.Domain == "":
		return nil, errors.New("there is no domain to rewrite senders to: set srs.domain")
	case len(cfg.Secrets) == 0:
		return nil, errors.New("there is no secret to sign rewritten senders with: set srs.secret")
	}
	return &Rewriter{cfg}, nil
}

const (
	separators = "=+-"
	maxLocal   = 64 // octets of a local part (RFC 5321 4.5.3.1.1)
)

// Forward is the reverse-path for a message that came from address, which is ASCII and without
// angle brackets. An address of the own domain passes SPF and is returned unchanged.
//
// It fails when servers might refuse the result: a local part above 64 octets, or one that needs
// SMTPUTF8.
func (r *Rewriter) Forward(address string) (string, error) {
	local, domain, ok := split(address)
	switch {
	case !ok:
		return "", fmt.Errorf("%q is not an address", address)
	case r.Owns(address):
		return address, nil
	case strings.ContainsFunc(local+domain, func(c rune) bool { return c >= 0x80 }):
		return "", fmt.Errorf("%s would need SMTPUTF8, which not every server takes", address)
	}
	made := join(r.rewrite(local, domain), r.cfg.Domain)
	if n := strings.LastIndexByte(made, '@'); n > maxLocal {
		return "", fmt.Errorf("%s becomes a local part of %d octets, and servers need not take more than %d",
			address, n, maxLocal)
	}
	return made, nil
}

// Owns reports whether an address is of the own domain.
func (r *Rewriter) Owns(address string) bool {
	return strings.EqualFold(address[strings.LastIndexByte(address, '@')+1:], r.cfg.Domain)
}

// rewrite is the new local part, not quoted.
func (r *Rewriter) rewrite(local, domain string) string {
	secret := r.cfg.Secrets[0]
	if _, host, rest, ok := cutSRS1(local); ok {
		return "SRS1=" + sign(secret, host, rest) + "=" + host + "=" + rest
	}
	if _, ok := cutSRS0(local); ok {
		rest := local[len("SRS0"):] // with the separator that the first forwarder chose
		return "SRS1=" + sign(secret, domain, rest) + "=" + domain + "=" + rest
	}
	stamp := stampOf(r.cfg.Now())
	return "SRS0=" + sign(secret, stamp, domain, local) + "=" + stamp + "=" + domain + "=" + local
}

// Decoded is what an SRS address says.
type Decoded struct {
	Address  string    // next for a bounce: the original sender, or for SRS1 the first forwarder
	Original string    // the original sender; for SRS1 only the first forwarder can verify it
	Made     time.Time // the day, in UTC; zero for SRS1, whose age only the first forwarder checks
	Until    time.Time // the last day on which it is valid; zero for SRS1
	Expired  bool
	Secret   int // the number of the secret that signed it, from 1; 0 when none of ours did
}

// Decode reads an SRS address. The result says whether it can be trusted. The error says that it is
// not an SRS address.
func (r *Rewriter) Decode(address string) (Decoded, error) {
	local, domain, ok := split(address)
	if !ok {
		return Decoded{}, fmt.Errorf("%q is not an address", address)
	}
	if hash, host, rest, ok := cutSRS1(local); ok {
		d := Decoded{Address: join("SRS0"+rest, host), Secret: r.signer(hash, host, rest)}
		if p, ok := cutSRS0("SRS0" + rest); ok {
			d.Original = join(p.local, p.domain)
		}
		return d, nil
	}
	p, ok := cutSRS0(local)
	age, stamped := ageOf(p.stamp, r.cfg.Now())
	if !ok || !stamped {
		return Decoded{}, fmt.Errorf("%s is not an SRS address, "+
			"which begins with SRS0=HHHH=TT=domain=name@ or SRS1=HHHH=domain==HHHH=", join(local, domain))
	}
	original := join(p.local, p.domain)
	made := r.cfg.Now().UTC().Truncate(day).Add(-time.Duration(age) * day)
	return Decoded{
		Address: original, Original: original,
		Made: made, Until: made.Add(r.cfg.MaxAge.Truncate(day)), Expired: time.Duration(age)*day > r.cfg.MaxAge,
		Secret: r.signer(p.hash, p.stamp, p.domain, p.local),
	}, nil
}

// signer is the number of the secret that made the signature; 0 for none.
func (r *Rewriter) signer(hash string, parts ...string) int {
	for i, secret := range r.cfg.Secrets {
		if signed(secret, hash, parts...) {
			return i + 1
		}
	}
	return 0
}

// parts are the parts of an SRS0 address.
type parts struct{ hash, stamp, domain, local string }

func cutSRS0(local string) (parts, bool) {
	rest, ok := cutTag(local, "SRS0")
	p := strings.SplitN(rest, "=", 4)
	if !ok || len(p) < 4 || p[0] == "" || p[1] == "" || p[2] == "" || p[3] == "" {
		return parts{}, false
	}
	return parts{p[0], p[1], p[2], p[3]}, true
}

// cutSRS1 is the first forwarder's host, and what follows SRS0 in its address, the separator
// included.
func cutSRS1(local string) (hash, host, rest string, ok bool) {
	s, ok := cutTag(local, "SRS1")
	p := strings.SplitN(s, "=", 3)
	if !ok || len(p) < 3 || p[0] == "" || p[1] == "" || len(p[2]) < 2 ||
		!strings.ContainsRune(separators, rune(p[2][0])) {
		return "", "", "", false
	}
	return p[0], p[1], p[2], true
}

// cutTag removes SRS0 or SRS1, and the separator after it, any of =+-.
func cutTag(local, tag string) (string, bool) {
	n := len(tag)
	if len(local) <= n || !strings.EqualFold(local[:n], tag) || !strings.ContainsRune(separators, rune(local[n])) {
		return "", false
	}
	return local[n+1:], true
}

// split cuts an address in two. The local part is without quotes: they are not part of the name
// (RFC 5321 4.1.2).
func split(address string) (local, domain string, ok bool) {
	at := strings.LastIndexByte(address, '@')
	if at < 1 || at == len(address)-1 {
		return "", "", false
	}
	local, domain = address[:at], address[at+1:]
	inner, opened := strings.CutPrefix(local, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !opened || !closed {
		return local, domain, true
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String(), domain, b.Len() > 0
}

// join puts an address together, quoted where needed.
func join(local, domain string) string {
	s := (&mail.Address{Address: local + "@" + domain}).String()
	return strings.TrimSuffix(strings.TrimPrefix(s, "<"), ">")
}
