package forward

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// path is a forward-path or reverse-path.
type path struct {
	name string // as the caller wrote it
	wire string // as it goes into the command, without angle brackets
	utf8 bool   // it cannot be said without SMTPUTF8 (RFC 6531 3.3)
}

// maxPath is the longest path, its angle brackets included (RFC 5321 4.5.3.1.3). The limit of 64 octets for the local
// part is not enforced: longer ones are in use.
const maxPath = 256

// parsePath checks an address against RFC 5321 4.1.2, so that nothing in it can end the path or the command. A domain
// that is not ASCII is turned into its A-label form (RFC 5891), which every relay takes.
func parsePath(address string) (path, error) {
	bad := func(reason string) (path, error) {
		return path{}, fmt.Errorf("%q is not an address: %s", address, reason)
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return bad("it has no @")
	}
	local, domain := address[:at], address[at+1:]
	if !ascii(domain) {
		a, err := idna.Lookup.ToASCII(domain)
		if err != nil {
			return bad("its domain is no internationalized name")
		}
		domain = a
	}
	switch wire := local + "@" + domain; {
	case !validDotString(local) && !validQuotedString(local):
		return bad("its local part breaks the syntax of RFC 5321 4.1.2")
	case !validDomain(domain):
		return bad("its domain breaks the syntax of RFC 5321 4.1.2")
	case len(wire)+len("<>") > maxPath:
		return bad("it is longer than the 256 octets of RFC 5321 4.5.3.1.3")
	default:
		return path{name: address, wire: wire, utf8: !ascii(local)}, nil
	}
}

// parseReversePath takes the null reverse-path, too.
func parseReversePath(address string) (path, error) {
	if address == "" {
		return path{}, nil
	}
	return parsePath(address)
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// validDotString is RFC 5321's Dot-string, with the letters that RFC 6531 adds.
func validDotString(s string) bool {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" || strings.ContainsFunc(atom, notAtext) {
			return false
		}
	}
	return true
}

func notAtext(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	case r < 0x80:
		return !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
	default:
		return notLetter(r)
	}
}

// notLetter reports what beyond ASCII is no text: controls (C1), and octets that are not UTF-8.
func notLetter(r rune) bool { return r < 0xa0 || r == '\ufffd' }

// validQuotedString is RFC 5321's Quoted-string: qtextSMTP and quoted-pairSMTP.
func validQuotedString(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	escaped := false
	for _, r := range s[1 : len(s)-1] {
		switch {
		case r < ' ' || r >= 0x7f && notLetter(r):
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

// validDomain is RFC 5321's Domain or address-literal. Underscores are let through: there are hosts that have them.
func validDomain(s string) bool {
	if literal, ok := strings.CutPrefix(s, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		v6, isV6 := strings.CutPrefix(literal, "IPv6:")
		ip, err := netip.ParseAddr(v6)
		return ok && err == nil && ip.Is6() == isV6 && ip.Zone() == ""
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, notLabel) {
			return false
		}
	}
	return true
}

func notLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
