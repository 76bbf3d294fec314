package route

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"postrider/internal/address"
	words "postrider/internal/text"
)

func fold(s string) string { return words.Fold(s) }

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

// foldAddress is fold for an address or a glob. What fold does to its domain would make one domain
// of two: ß and ss are different there, and so are ı and i.
func foldAddress(s string) string {
	s = norm.NFKC.String(strings.ToValidUTF8(strings.TrimSpace(s), "\ufffd"))
	at := strings.LastIndexByte(s, '@')
	return words.FoldCompatible(s[:at+1]) + address.UnicodeDomain(s[at+1:])
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
