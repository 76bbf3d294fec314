package route

import (
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// turkish maps i, dotted İ and dotless ı to one letter, because the language of a text is not
// known.
var turkish = strings.NewReplacer("i\u0307", "i", "ı", "i")

// fold makes text comparable: compatible forms of a character (full and half width, ligatures) and
// upper and lower case become one. Octets that are not UTF-8 are replaced first, because NFKC would
// not normalise some of what follows them.
func fold(s string) string {
	return foldCompatible(norm.NFKC.String(strings.ToValidUTF8(s, "\ufffd")))
}

// foldCompatible is fold for text in NFKC.
func foldCompatible(s string) string {
	return turkish.Replace(norm.NFKC.String(cases.Fold().String(s)))
}

// squeeze makes one space of each run of white space, because a long field may be folded anywhere
// (RFC 5322 2.2.3).
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

// foldAddress is fold for an address or a glob. An xn-- label of the domain (RFC 5890) becomes
// Unicode.
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

// mailbox is the identity of an address: only the domain ignores case (RFC 5321 2.4).
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
