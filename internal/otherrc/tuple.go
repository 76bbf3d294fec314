package otherrc

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	between    = regexp.MustCompile(`^(?:\s|#[^\n]*)*`) // blanks and comments
	pythonText = regexp.MustCompile(`^([uUbBrR]{0,2})(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)")`)
)

// tuple reads ("one", 'two') as Python does; a text without parentheses and quotes is one element.
func tuple(s string) (list []string, ok bool) {
	if word, _, _ := strings.Cut(s, "#"); word != "" && !strings.ContainsAny(word, "()'\",") {
		return []string{strings.TrimSpace(word)}, true
	}
	s, inside := strings.CutPrefix(s, "(")
	for more := true; more; s, more = strings.CutPrefix(s, ",") {
		s = skip(s)
		m := pythonText.FindStringSubmatch(s)
		if m == nil {
			break
		}
		element := m[2] + m[3] // one of them is empty
		if !strings.ContainsAny(m[1], "rR") {
			element = unescapePython(element)
		}
		list, s = append(list, element), skip(s[len(m[0]):])
	}
	if inside {
		if s, ok = strings.CutPrefix(s, ")"); !ok {
			return nil, false
		}
	}
	return list, skip(s) == ""
}

func skip(s string) string { return s[len(between.FindString(s)):] }

// unescapePython replaces the escapes of Python. A backslash before any other character stays.
func unescapePython(s string) string {
	var b strings.Builder
	for s != "" {
		c, _, rest, err := strconv.UnquoteChar(s, 0) // the escapes are those of Go
		switch {
		case err == nil:
			b.WriteRune(c)
		case s[1] == '\'' || s[1] == '"':
			b.WriteByte(s[1])
			rest = s[2:]
		default:
			b.WriteByte(s[0])
			rest = s[1:]
		}
		s = rest
	}
	return b.String()
}
