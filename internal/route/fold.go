package route

import (
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"postrider/internal/address"
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

// foldAddress is fold for an address or a glob. What fold does to its domain would make one domain of
// two: ß and ss are different there, and so are ı and i.
func foldAddress(s string) string {
	s = norm.NFKC.String(strings.ToValidUTF8(strings.TrimSpace(s), "\ufffd"))
	at := strings.LastIndexByte(s, '@')
	return foldCompatible(s[:at+1]) + address.UnicodeDomain(s[at+1:])
}

// SameMailboxes reports whether two lists name the same mailboxes, in any order.
func SameMailboxes(a, b []string) bool {
	set := func(list []string) []string {
		var keys []string
		for _, s := range list {
			keys = append(keys, address.Mailbox(s))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	return slices.Equal(set(a), set(b))
}
