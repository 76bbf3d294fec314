package text

import (
	"os"
	"strings"
	"unicode"
)

// Arg is a word of a command that a person is to type: in quotes if a POSIX shell would not take it
// as it is.
func Arg(s string) string {
	if s != "" && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// special reports whether a character may have a meaning to a shell.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) &&
		r != os.PathSeparator && !strings.ContainsRune("@%+=:,./_-", r)
}
