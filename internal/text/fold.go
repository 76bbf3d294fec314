package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// turkish maps i, dotted İ and dotless ı to one letter, because the language of a text is not
// known.
var turkish = strings.NewReplacer("i\u0307", "i", "ı", "i")

// Fold makes text comparable: compatible forms of a character (full and half width, ligatures) and
// upper and lower case become one. Octets that are not UTF-8 are replaced first, because NFKC would
// not normalise some of what follows them.
func Fold(s string) string {
	return FoldCompatible(norm.NFKC.String(strings.ToValidUTF8(s, "\ufffd")))
}

// FoldCompatible is Fold for text in NFKC.
func FoldCompatible(s string) string {
	return turkish.Replace(norm.NFKC.String(cases.Fold().String(s)))
}

// Contains reports whether part is in s. It compares both folded, as Line shows them, or without
// the invisible characters that Line shows as spaces, such as soft hyphens.
func Contains(s, part string) bool {
	if part == "" {
		return true
	}
	part = Sought(part)
	if line := strings.TrimSpace(s); isLine(line) {
		return strings.Contains(strings.ToLower(line), part)
	}
	return strings.Contains(Fold(Line(s)), part) ||
		strings.ContainsFunc(s, invisible) && strings.Contains(Fold(Line(visible(s))), part)
}

// Sought is a part as Contains looks for it: in the lower case of a text that is ASCII.
func Sought(part string) string {
	if line := strings.TrimSpace(part); isLine(line) {
		return strings.ToLower(line)
	}
	return Fold(Line(visible(part)))
}

func invisible(r rune) bool { return unicode.Is(unicode.Cf, r) }

func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, s)
}
