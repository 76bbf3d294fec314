// Package address parses mail addresses. Routes, contacts, the configuration and SMTP all use it,
// so an address that one of them accepts is accepted by the others.
//
// An address is local@domain, without a name and without angle brackets: a Mailbox of RFC 5321
// 4.1.2 with the characters that RFC 6531 3.3 adds. The local part is a Dot-string or a
// Quoted-string. The domain is a name, an internationalized name (RFC 5890) or an address literal.
// An address cannot end the path or command that holds it. Invisible characters are refused: white
// space, control and format characters of all scripts.
//
// Parse is for addresses that others wrote: it accepts local parts of more than 64 octets, because
// they are in use and RFC 5321 4.5.3.1 asks servers to accept what they can. Check is for addresses
// that our users write, and refuses those.
package address

import (
	"cmp"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits in octets. maxLocal and maxWhole apply to Address.Wire.
const (
	maxLocal = 64              // RFC 5321 4.5.3.1.1
	maxWhole = 256 - len("<>") // RFC 5321 4.5.3.1.3 counts the angle brackets
	maxText  = 4 * maxWhole    // of the text to parse: a longer one cannot be valid
)

// Address is a valid mail address.
type Address struct {
	Text string // as it was written
	Wire string // as SMTP commands hold it: its domain is ASCII (A-labels, RFC 5891)
	UTF8 bool   // the relay must support SMTPUTF8, because the local part is not ASCII
}

// Key is equal for all spellings of an address: upper or lower case, the domain in Unicode or
// ASCII, and redundant quotes and backslashes (RFC 5321 4.1.2). RFC 5321 2.4 allows local parts
// that differ in case only, but in practice such addresses belong to the same person. Who gets a
// message is compared with Mailbox, which keeps them apart.
func (a Address) Key() string {
	at := strings.LastIndexByte(a.Wire, '@')
	local, domain := a.Wire[:at], a.Wire[at:]
	if isQuoted(local) {
		if local = unquoted(local); checkAtoms(local) != nil {
			local = `"` + local + `"`
		}
	}
	return strings.ToLower(local + domain)
}

// Domain is the domain, as it is written in the DNS.
func (a Address) Domain() string { return a.Wire[strings.LastIndexByte(a.Wire, '@')+1:] }

// Same reports whether two texts are the same address, in any spelling.
func Same(x, y string) bool {
	a, errA := Parse(x)
	b, errB := Parse(y)
	return errA == nil && errB == nil && a.Key() == b.Key()
}

// unquoted returns the content of a Quoted-string.
func unquoted(s string) string {
	var b strings.Builder
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '\\' {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Parse reads an address. The error says on one line what is wrong and how to write it.
func Parse(s string) (Address, error) {
	a, why := parse(s)
	switch {
	case s == "":
		return Address{}, errors.New("an address is missing")
	case why != nil:
		return Address{}, explain(s, why)
	}
	return a, nil
}

func parse(s string) (Address, error) {
	at := strings.LastIndexByte(s, '@')
	switch {
	case len(s) > maxText:
		return Address{}, errLong
	case !utf8.ValidString(s):
		return Address{}, errors.New("it is not UTF-8")
	case strings.TrimSpace(s) != s:
		return Address{}, errors.New("there is white space around it; write it without")
	case at < 0:
		return Address{}, errNoAt
	}
	wire, err := checkDomain(s[at+1:])
	if err = cmp.Or(err, checkLocal(s[:at])); err != nil {
		return Address{}, err
	}
	a := Address{Text: s, Wire: s[:at+1] + wire, UTF8: !ascii(s[:at])}
	if len(a.Wire) > maxWhole {
		return Address{}, errLong
	}
	return a, nil
}

// Check reports what is wrong with an address that a user of postrider wrote.
func Check(s string) error {
	a, err := Parse(s)
	if err != nil {
		return err
	}
	if strings.LastIndexByte(a.Wire, '@') > maxLocal {
		return bad(s, errLong)
	}
	return nil
}

// ParseNamed reads an address with an optional name: "Name <address>" (RFC 5322 3.4).
func ParseNamed(s string) (name string, a Address, err error) {
	if a, err = Parse(s); err == nil {
		return "", a, nil
	}
	m, err := mail.ParseAddress(s)
	if err != nil {
		return "", Address{}, fmt.Errorf("%q is not an address; write it like \"Forwarder <forwarder@example.com>\"", s)
	}
	a, err = Parse(Quoted(m.Address))
	return m.Name, a, err
}

// Quoted adds the quotes that package net/mail removes: for a b@x it returns "a b"@x. An address
// that needs no quotes, and a text that is not an address, is returned unchanged.
func Quoted(s string) string {
	if _, err := parse(s); err == nil || !strings.Contains(s, "@") {
		return s
	}
	q := strings.TrimSuffix(strings.TrimPrefix((&mail.Address{Address: s}).String(), "<"), ">")
	if _, err := parse(q); err != nil {
		return s
	}
	return q
}

func bad(s string, why error) error {
	const maxShown = 300
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	if errors.Is(why, errNoAt) {
		return fmt.Errorf("%q is not an address; %w", s, why)
	}
	return fmt.Errorf("%q is not an address: %w", s, why)
}

// explain recognises two mistakes: an address with a name, and several addresses.
func explain(s string, why error) error {
	if len(s) > maxText {
		return bad(s, why)
	}
	if list, err := mail.ParseAddressList(s); err == nil && len(list) > 1 {
		return bad(s, errors.New("it holds several addresses; write each on its own"))
	}
	if m, err := mail.ParseAddress(s); err == nil && m.Address != s {
		if a, err := parse(Quoted(m.Address)); err == nil {
			return fmt.Errorf("%q is more than an address; write only %s", s, a.Text)
		}
	}
	return bad(s, why)
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// invisible reports characters that are not displayed, or that change how others are displayed. RFC
// 6531 allows them, but they come from careless copying or from a fraud.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Z) || r == utf8.RuneError
}

var (
	errNoAt      = errors.New("write it like name@domain.example")
	errLong      = errors.New("it is longer than mail allows (64 octets before the @, 254 in all)")
	errLocal     = errors.New("the part before the @ is invalid (RFC 5321 4.1.2); write it like name@domain.example")
	errInvisible = errors.New("it has an invisible character or a space in it; type it again")
)

// checkLocal checks a Local-part (RFC 5321 4.1.2).
func checkLocal(s string) error {
	switch {
	case isQuoted(s):
		return nil
	case strings.HasPrefix(s, `"`):
		return errLocal
	case strings.ContainsFunc(s, invisible):
		return errInvisible
	}
	return checkAtoms(s)
}

// checkAtoms checks a Dot-string (RFC 5321 4.1.2).
func checkAtoms(s string) error {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" || strings.ContainsFunc(atom, notAtext) {
			return errLocal
		}
	}
	return nil
}

// notAtext reports characters that are no atext (RFC 5322 3.2.3, extended by RFC 6531 3.3).
func notAtext(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r >= utf8.RuneSelf:
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
}

// isQuoted reports whether s is a Quoted-string (RFC 5321 4.1.2). The only invisible character
// allowed is the space.
func isQuoted(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	escaped := false
	for _, r := range s[1 : len(s)-1] {
		switch {
		case r != ' ' && invisible(r):
			return false
		case escaped && r >= utf8.RuneSelf:
			return false
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			return false
		}
	}
	return !escaped
}
