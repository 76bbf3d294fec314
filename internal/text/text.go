// Package text is what all parts do with words: it makes one printable line of what others wrote,
// and finds the name that somebody meant.
//
// It is a package of its own because its callers may not know each other: the configuration, the
// inboxes, IMAP and the command line. It imports nothing of postrider.
package text

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Line makes one printable line of what a stranger wrote.
func Line(s string) string {
	if s := strings.TrimSpace(s); isLine(s) {
		return s
	}
	return strings.Join(strings.Fields(strings.Map(printable, strings.ToValidUTF8(s, "\uFFFD"))), " ")
}

// isLine reports that s is one, as almost every line is: ASCII with single spaces.
func isLine(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ' ' && (i == 0 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// Error makes one printable line of an error, which may be several: "; " joins them.
func Error(err error) string {
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = Line(line)
		switch so := b.String(); {
		case line == "" || so == "":
		case strings.HasSuffix(so, ":") || strings.HasSuffix(so, ";"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// At puts where, such as a file and a line, before each line of an error. It may be empty.
func At(where string, err error) error {
	if where == "" {
		return err
	}
	return errors.New(where + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+where+": "))
}

// Printable copies what a stranger wrote to a terminal: with its line ends and tabs, and a space
// for everything else that could play with the terminal.
func Printable(dst io.Writer, src io.Reader) error {
	in, out := bufio.NewReader(src), bufio.NewWriter(dst)
	for {
		r, _, err := in.ReadRune()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if r == '\r' {
			if next, _ := in.Peek(1); len(next) == 1 && next[0] == '\n' {
				continue
			}
		}
		if r != '\n' && r != '\t' {
			r = printable(r)
		}
		_, _ = out.WriteRune(r) // Flush keeps the error
	}
}

// Brief is an error in the short form that an error in it has (a method Brief), and so each of
// several, joined by "; ".
func Brief(err error) string {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, e := range several.Unwrap() {
			out = append(out, Brief(e))
		}
		return strings.Join(out, "; ")
	}
	if e, ok := err.(interface{ Brief() string }); ok {
		return Line(e.Brief())
	}
	if inner := errors.Unwrap(err); inner != nil {
		if before, ok := strings.CutSuffix(err.Error(), inner.Error()); ok {
			return before + Brief(inner)
		}
	}
	return Error(err)
}

// printable turns what could play with a terminal into a space.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// Cut shortens s to at most n characters.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Some is a list of at most n texts; the last element says how many more there are.
func Some(texts []string, n int) []string {
	if more := len(texts) - n; more > 0 {
		return append(slices.Clone(texts[:n]), fmt.Sprintf("and %d more", more))
	}
	return texts
}

// Strings are values of a string type as texts.
func Strings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// Count is a number with its noun: "1 task", "2 tasks".
func Count(n int, noun string) string { return Number(n, noun, noun+"s") }

// Number is a number with what follows it: "1 inbox", "2 inboxes".
func Number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
