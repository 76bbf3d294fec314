// Package address says what a mail address is: for routes, contacts, the configuration and the wire alike, so that what
// one of them takes no other refuses later.
//
// An address is local@domain, without a name and without angle brackets: a Mailbox of RFC 5321 4.1.2 with the letters
// that RFC 6531 3.3 adds. The local part is a Dot-string or a Quoted-string; the domain is a name, an internationalized
// one (RFC 5890), or an address literal. Nothing in an address can end the path or the command that it is put into, and
// nothing in it is invisible: white space, controls and format characters of all scripts are refused.
//
// Parse takes what others wrote: local parts beyond 64 octets are in use, and servers are to take what they can (RFC
// 5321 4.5.3.1). Check, for what is written here, refuses those, too; whatever it takes, Parse takes.
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

// Limits in octets, of the form on the wire.
const (
	maxLocal = 64              // RFC 5321 4.5.3.1.1
	maxWhole = 256 - len("<>") // 4.5.3.1.3, which counts the angle brackets
	maxText  = 4 * maxWhole    // as written: longer ones need not be looked at
)

// Address is one that can be written to.
type Address struct {
	Text string // as it was written
	Wire string // as it goes into a command: its domain is ASCII (A-labels, RFC 5891)
	UTF8 bool   // it cannot be said without SMTPUTF8
}

// Key is the same for all spellings of an address: in any case, with its domain in Unicode or ASCII, and with quotes and
// backslashes that say nothing (RFC 5321 4.1.2). RFC 5321 2.4 lets a server tell local parts in different case apart;
// nobody gives two persons addresses that differ in case alone.
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

// unquoted is what a Quoted-string says.
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

// Parse reads an address. The error says, on one line, what is wrong with it and how it is written.
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

// Check is Parse for an address that somebody here has written.
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

// ParseNamed reads an address that may have a name beside it: "Name <address>" (RFC 5322 3.4).
func ParseNamed(s string) (name string, a Address, err error) {
	if a, err = Parse(s); err == nil {
		return "", a, nil
	}
	m, err := mail.ParseAddress(s)
	if err != nil {
		return "", Address{}, fmt.Errorf("%q is no address; write it like \"Forwarder <forwarder@example.com>\"", s)
	}
	a, err = Parse(Quoted(m.Address))
	return m.Name, a, err
}

// Quoted puts the quotes back that a parser of header fields takes away: "a b"@x is a b@x there. What needs none, and
// what is no address, stays as it is.
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
	const enough = 300
	if len(s) > enough {
		s = strings.ToValidUTF8(s[:enough], "") + "…"
	}
	if errors.Is(why, errNoAt) {
		return fmt.Errorf("%q is %w", s, why)
	}
	return fmt.Errorf("%q is no address: %w", s, why)
}

// explain adds what was probably meant: an address with a name beside it, or several in one.
func explain(s string, why error) error {
	if len(s) > maxText {
		return bad(s, why)
	}
	if list, err := mail.ParseAddressList(s); err == nil && len(list) > 1 {
		return bad(s, errors.New("it is several; write each by itself"))
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

// unseen are characters that nobody sees, or that change how others are seen. RFC 6531 would allow them; they come from
// copying, or to deceive.
func unseen(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Z) || r == utf8.RuneError
}

var (
	errNoAt   = errors.New("no address; write it like name@domain.example")
	errLong   = errors.New("it is longer than mail allows (64 octets before the @, 254 in all)")
	errLocal  = errors.New("what stands before the @ is none (RFC 5321 4.1.2); write it like name@domain.example")
	errUnseen = errors.New("it has an invisible character or a space in it; write it anew")
)

// checkLocal is RFC 5321's Local-part.
func checkLocal(s string) error {
	switch {
	case isQuoted(s):
		return nil
	case strings.HasPrefix(s, `"`):
		return errLocal
	case strings.ContainsFunc(s, unseen):
		return errUnseen
	}
	return checkAtoms(s)
}

// checkAtoms is RFC 5321's Dot-string.
func checkAtoms(s string) error {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" || strings.ContainsFunc(atom, notAtext) {
			return errLocal
		}
	}
	return nil
}

// notAtext: RFC 5322 3.2.3, with what RFC 6531 adds.
func notAtext(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r >= utf8.RuneSelf:
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
}

// isQuoted is RFC 5321's Quoted-string: qtextSMTP and quoted-pairSMTP. It may have spaces, and nothing else that is unseen.
func isQuoted(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	escaped := false
	for _, r := range s[1 : len(s)-1] {
		switch {
		case r != ' ' && unseen(r):
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
