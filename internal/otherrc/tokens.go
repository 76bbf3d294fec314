package otherrc

import (
	"fmt"
	"strconv"
	"strings"
)

// token is a word of a fetchmailrc.
type token struct {
	text   string
	quoted bool // it is no keyword
	line   int
}

// tokens splits a fetchmailrc into words. Separators and comments are left out; = is a word.
func tokens(src string, notes *Notes) (list []token, err error) {
	line := 1
	for src != "" {
		switch c := src[0]; {
		case c == '\n':
			line++
			src = src[1:]
		case strings.IndexByte(" \t\r,;:", c) >= 0, strings.HasPrefix(src, "\\\n"), strings.HasPrefix(src, "\\\r\n"):
			src = src[1:]
		case c == '#':
			_, rest, _ := strings.Cut(src, "\n")
			src = src[min(len(src), len(src)-len(rest)):]
			line++
		case c == '=':
			list = append(list, token{"=", false, line})
			src = src[1:]
		case c == '"' || c == '\'':
			s, rest, ok := quoted(src)
			if !ok {
				return nil, fmt.Errorf("%s: the text that begins with %c has no end; close the quotes",
					notes.at(line), c)
			}
			list = append(list, token{s, true, line})
			line += strings.Count(src[:len(src)-len(rest)], "\n")
			src = rest
		default:
			n := strings.IndexAny(src, "=;:, \t\r\n")
			if n < 0 {
				n = len(src)
			}
			list = append(list, token{unescape(src[:n]), false, line})
			src = src[n:]
		}
	}
	return list, nil
}

// quoted reads a text in quotes from the beginning of s. A backslash before a quote makes it part
// of the text.
func quoted(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return unescape(s[1:i]), s[i+1:], true
		}
	}
	return "", s, false
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'b': "\b", 'r': "\r", '\n': ""}

// unescape replaces the escapes of C: \n, \t, \b, \r, \x41, \065 (octal) and \65 (decimal). Any
// other character stands for itself.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if n, length := number(s[i:]); length > 0 {
			b.WriteByte(n)
			i += length - 1
		} else if e, ok := escapes[s[i]]; ok {
			b.WriteString(e)
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// number reads an escape with digits; length is 0 when there is none.
func number(s string) (n byte, length int) {
	digits, base, most, skip := "0123456789", 10, 3, 0
	switch s[0] {
	case 'x', 'X':
		digits, base, most, skip = "0123456789abcdefABCDEF", 16, 2, 1
	case '0':
		digits, base = "01234567", 8
	}
	end := skip
	for end < len(s) && end-skip < most && strings.IndexByte(digits, s[end]) >= 0 {
		end++
	}
	value, err := strconv.ParseUint(s[skip:end], base, 16)
	if err != nil {
		return 0, 0
	}
	return byte(value), end
}
