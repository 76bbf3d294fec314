package route

import (
	"regexp/syntax"
	"strings"
	"unicode"
)

// needles are pieces of text of which a folded text has at least one when the expression matches it, whatever its case;
// nil when there are none to tell. Looking for them first makes regular expressions over long texts affordable.
func needles(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return piece(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return needles(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needles(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if n := needles(sub); shortest(n) > shortest(best) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var sum []string
		for _, sub := range re.Sub {
			n := needles(sub)
			if n == nil {
				return nil
			}
			sum = append(sum, n...)
		}
		return sum
	}
	return nil
}

// piece is the longest run of a literal that folding leaves alone: ASCII letters and digits, and Han. A letter's accent may
// follow as a character of its own and become one with it, so a letter at the end does not count.
func piece(literal []rune) []string {
	best := ""
	for _, run := range strings.FieldsFunc(string(literal), func(r rune) bool { return !stable(r) }) {
		run = strings.ToLower(run)
		if last := run[len(run)-1]; last >= 'a' && last <= 'z' {
			run = run[:len(run)-1]
		}
		if len(run) > len(best) {
			best = run
		}
	}
	if len(best) < 2 {
		return nil
	}
	return []string{best}
}

func stable(r rune) bool {
	if r >= 0x80 {
		return unicode.Is(unicode.Unified_Ideograph, r) && fold(string(r)) == string(r)
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func shortest(list []string) int {
	if len(list) == 0 {
		return 0
	}
	n := len(list[0])
	for _, s := range list {
		n = min(n, len(s))
	}
	return n
}
