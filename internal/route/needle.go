package route

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// needles are substrings that a folded text has if a regular expression matches it: at least one of
// each list. Looking for them first makes regular expressions over long texts cheap.
type needles [][]string

func needlesOf(re *syntax.Regexp) needles {
	switch re.Op {
	case syntax.OpLiteral:
		return pieces(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return needlesOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needlesOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var sum needles
		for _, sub := range re.Sub {
			sum = append(sum, needlesOf(sub)...)
		}
		return sum
	case syntax.OpAlternate:
		var either []string
		for _, sub := range re.Sub {
			n := needlesOf(sub)
			if len(n) == 0 {
				return nil
			}
			longest := slices.MaxFunc(n, func(a, b []string) int { return shortest(a) - shortest(b) })
			either = append(either, longest...)
		}
		return needles{either}
	}
	return nil
}

func (n needles) in(t text) bool {
	return !slices.ContainsFunc(n, func(either []string) bool {
		return !slices.ContainsFunc(either, t.has)
	})
}

// pieces are the runs of a literal that folding does not change: ASCII letters and digits, and Han.
// A combining accent may follow a letter and become one with it, so a letter at the end does not
// count.
func pieces(literal []rune) needles {
	var list needles
	for _, run := range strings.FieldsFunc(string(literal), func(r rune) bool { return !stable(r) }) {
		run = strings.ToLower(run)
		if last := run[len(run)-1]; last >= 'a' && last <= 'z' {
			run = run[:len(run)-1]
		}
		if run != "" {
			list = append(list, []string{run})
		}
	}
	return list
}

func stable(r rune) bool {
	if r < 0x80 {
		return unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return unicode.Is(unicode.Unified_Ideograph, r) && fold(string(r)) == string(r)
}

func shortest(list []string) int {
	return len(slices.MinFunc(list, func(a, b string) int { return len(a) - len(b) }))
}
