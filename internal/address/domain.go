package address

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// checkDomain returns the domain as SMTP commands hold it.
func checkDomain(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("nothing stands after the @; write it like name@domain.example")
	case strings.HasSuffix(s, "."):
		return "", errors.New("its domain ends with a dot; remove the dot")
	case strings.ContainsFunc(s, invisible):
		return "", errInvisible
	}
	wire, err := ToASCII(s)
	if err != nil {
		return "", errors.New("its domain is no valid internationalized name (RFC 5890)")
	}
	notAllowed := func(r rune) bool { return r != '.' && notLabel(r) }
	if !strings.HasPrefix(wire, "[") && strings.ContainsFunc(wire, notAllowed) {
		return "", errors.New("its domain has a character that no domain has")
	}
	if !IsDomain(wire) {
		return "", errors.New("its domain is invalid; write a name, " +
			"or an address like [192.0.2.1] or [IPv6:2001:db8::1] (RFC 5321 4.1.2)")
	}
	return wire, nil
}

// ToASCII returns a domain with its U-labels as A-labels (RFC 5891).
func ToASCII(domain string) (string, error) {
	if ascii(domain) {
		return domain, nil
	}
	return idna.Lookup.ToASCII(domain)
}

// Mailbox is equal for all spellings of a recipient: only its domain ignores case (RFC 5321 2.4),
// and may be in Unicode or ASCII. It also accepts text that is not an address.
func Mailbox(s string) string {
	at := strings.LastIndexByte(s, '@')
	domain, err := ToASCII(s[at+1:])
	if err != nil {
		domain = s[at+1:]
	}
	return s[:at+1] + strings.ToLower(domain)
}

// shown maps domains as idna.Lookup does, and leaves alone what only globs and some hosts have: * ?
// _ and dashes in odd places.
var shown = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.CheckHyphens(false))

// UnicodeDomain is equal for all spellings of a domain, or of a glob for domains: in Unicode, in
// lower case, and without a dot at its end. An A-label that is not valid stays as it is.
func UnicodeDomain(s string) string {
	lower := strings.TrimSuffix(strings.ToLower(s), ".")
	if ascii(s) && !strings.Contains(lower, "xn--") {
		return lower
	}
	if u, err := shown.ToUnicode(s); err == nil {
		return strings.TrimSuffix(u, ".")
	}
	return lower
}

// IsDomain reports whether s is a Domain or an address-literal of RFC 5321 4.1.2, in ASCII.
// Underscores are allowed, because some hosts have them.
func IsDomain(s string) bool {
	if literal, ok := strings.CutPrefix(s, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		v6, isV6 := literal, false
		if tag := "IPv6:"; len(v6) > len(tag) && strings.EqualFold(v6[:len(tag)], tag) {
			v6, isV6 = v6[len(tag):], true
		}
		ip, err := netip.ParseAddr(v6)
		return ok && err == nil && ip.Is6() == isV6 && ip.Zone() == ""
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, notLabel) {
			return false
		}
	}
	return true
}

func notLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// IsLoopback reports whether a host name or IP address is this host's loopback interface, on which
// a password may go unencrypted.
func IsLoopback(host string) bool {
	ip, _ := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || ip.Unmap().IsLoopback()
}
