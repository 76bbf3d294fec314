package text

import (
	"regexp"
	"strings"
)

// Glob returns what compares a text as a whole with a pattern, in which * is any text and ? one
// character.
func Glob(pattern string) (is func(text string) bool) {
	if !strings.ContainsAny(pattern, "*?") {
		return func(text string) bool { return text == pattern }
	}
	quoted := regexp.QuoteMeta(strings.ToValidUTF8(pattern, "\ufffd")) // so that it compiles
	return regexp.MustCompile(`(?s)^` + strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted) + `$`).MatchString
}
