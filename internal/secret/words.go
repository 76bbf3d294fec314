package secret

import (
	"errors"
	"path/filepath"
	"strings"
)

var errQuote = errors.New("a quote or a backslash at its end is not closed")

// words splits a command as a POSIX shell does (IEEE 1003.1, 2.2): blanks separate words, quotes
// and backslashes keep them together. Nothing else has a meaning: no variables, no pipes.
func words(s string) ([]string, error) {
	var all []string
	var word strings.Builder
	var quote rune // ' or ", in which we are
	begun, escaped := false, false
	for _, c := range s {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("$`\"\\\n", c) {
				word.WriteByte('\\') // in double quotes it escapes only these
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", c):
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errQuote
	}
	if begun {
		all = append(all, word.String())
	}
	return all, nil
}

// commandWords are the program and its arguments. The program has to be found in the same place
// wherever postrider is started: cron starts it in another directory than a person does.
func commandWords(ref string) ([]string, error) {
	text := strings.TrimPrefix(ref, commandPrefix)
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("command: has a NUL in it, which no argument of a program can have")
	}
	all, err := words(text)
	if err != nil {
		return nil, errors.New("command: is not split into words: " + err.Error())
	}
	if len(all) == 0 || all[0] == "" {
		return nil, errors.New("command: names no program; write it like command:pass show mail/office")
	}
	if name := all[0]; strings.ContainsAny(name, "/"+string(filepath.Separator)) && !filepath.IsAbs(name) {
		return nil, errors.New("command: the program " + name + " is a relative path; " +
			"write the whole path, or only the name of a program in PATH")
	}
	return all, nil
}
