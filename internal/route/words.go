package route

import (
	"strings"
	"unicode"
)

// spaceless are scripts that are written without spaces between words.
var spaceless = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi, unicode.Thai,
	unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese,
	unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet,
}

// isSpaceless includes the sound mark of Katakana, which has no script in Unicode.
func isSpaceless(r rune) bool { return r >= 0x0e00 && (r == 'ー' || unicode.In(r, spaceless...)) }

// isWord reports whether r is part of a word: a letter, a number, or a mark on one. An underscore
// is not, so Miller_contract.pdf contains the word Miller.
func isWord(r rune) bool {
	if r < 0x80 {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// plain makes folded text and terms more alike. Hyphens and apostrophes are of one kind. Invisible
// characters are removed (soft hyphens, joiners, variation selectors). So is a space between two
// characters of scripts without spaces, where a line was broken or a family name ends.
func plain(folded string) string {
	var out strings.Builder
	out.Grow(len(folded))
	var last rune
	space := false // before r
	for _, r := range folded {
		switch {
		case r == ' ':
			space = true
			continue
		case r < 0x80:
		case r == '\u00ad', r >= '\u200b' && r <= '\u200f', r == '\u2060', r == '\ufeff',
			unicode.Is(unicode.Variation_Selector, r):
			continue
		case r == '\u2018', r == '\u2019', r == '\u02bc':
			r = '\''
		case r >= '\u2010' && r <= '\u2015', r == '\u2212':
			r = '-'
		}
		if space && last != 0 && (r < 0x80 || !isSpaceless(last) || !isSpaceless(r)) {
			out.WriteByte(' ')
		}
		out.WriteRune(r)
		last, space = r, false
	}
	return out.String()
}

// wholeAt reports whether s[start:end] is not part of a longer word. Scripts without spaces have no
// longer words, but a mark always belongs to the character before it.
func wholeAt(s string, start, end int) bool {
	before, after := lastRune(s[:start]), firstRune(s[end:])
	first, last := firstRune(s[start:end]), lastRune(s[start:end])
	if isWord(before) && isWord(first) && !isSpaceless(before) && !isSpaceless(first) {
		return false
	}
	switch {
	case unicode.IsMark(after):
		return false
	case unicode.Is(unicode.Hangul, last) && unicode.Is(unicode.Hangul, after):
		return true // particles are written onto the name: 김민수는
	}
	return !isWord(last) || !isWord(after) || isSpaceless(last) || isSpaceless(after)
}

// firstRune is 0 for an empty text.
func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

func lastRune(s string) rune {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < 0x80 || s[i] >= 0xc0 {
			return firstRune(s[i:])
		}
	}
	return 0
}
