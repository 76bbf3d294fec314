package route

import (
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// turkish makes one letter of i, dotted İ and dotless ı: without knowing the language nobody can tell which I is meant.
var turkish = strings.NewReplacer("i\u0307", "i", "ı", "i")

// fold makes text comparable: compatible forms of a character (full and half width, ligatures) are one, and so are
// upper and lower case, with the full mapping (ß is ss). What is not UTF-8 is replaced first: NFKC would
// leave some of what follows as it is.
func fold(s string) string {
	return foldCompatible(norm.NFKC.String(strings.ToValidUTF8(s, "\ufffd")))
}

// foldCompatible is fold for text whose compatible forms have been made one.
func foldCompatible(s string) string {
	return turkish.Replace(norm.NFKC.String(cases.Fold().String(s)))
}

// squeeze makes one space of each run of white space: where a long field was folded is no matter (RFC 5322 2.2.3).
func squeeze(s string) string {
	var out strings.Builder
	out.Grow(len(s))
	space := false
	for i := range len(s) {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
			if !space {
				out.WriteByte(' ')
			}
			space = true
		default:
			out.WriteByte(s[i])
			space = false
		}
	}
	return out.String()
}

// foldAddress is fold for an address or a glob over one: an xn-- label of the domain (RFC 5890) becomes what it stands for.
func foldAddress(s string) string {
	s = fold(strings.TrimSpace(s))
	at := strings.LastIndexByte(s, '@')
	return s[:at+1] + foldDomain(s[at+1:])
}

func foldDomain(domain string) string {
	domain = strings.TrimSuffix(strings.ReplaceAll(fold(domain), "。", "."), ".")
	if u, err := idna.Punycode.ToUnicode(domain); err == nil {
		return fold(u)
	}
	return domain
}

// mailbox is an address as an identity: only the domain is without case (RFC 5321 2.4).
func mailbox(addr string) string {
	at := strings.LastIndexByte(addr, '@')
	return addr[:at+1] + foldDomain(addr[at+1:])
}

// SameMailboxes reports whether two lists name the same mailboxes, in any order.
func SameMailboxes(a, b []string) bool {
	set := func(list []string) []string {
		var keys []string
		for _, s := range list {
			keys = append(keys, mailbox(s))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	return slices.Equal(set(a), set(b))
}
