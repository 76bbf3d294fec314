package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one error in the configuration.
type Error struct {
	Source       string // the file, or the environment variable
	Line, Column int    // from 1; 0 if unknown
	Key          string // the full name, such as smtp.port; may be empty
	Problem      string // what is wrong, and how to fix it
}

// Error is one line: postrider.yaml:12:3: smtp.port: has to be a whole number, not "x".
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Source)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Column > 0 {
		fmt.Fprintf(&b, ":%d", e.Column)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(shown(e.Key) + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// shown is a key without what follows a colon or an equals sign in it: without a space after the
// colon, YAML takes a value as a part of its key, and it may be a password. A label has an equals
// sign of its own.
func shown(key string) string {
	if strings.HasPrefix(key, "alerts.labels.") {
		return key
	}
	name, _, _ := strings.Cut(strings.ReplaceAll(key, "=", ":"), ":")
	return name
}

// Errors are all errors in the configuration. It means bad usage, and nothing was touched.
type Errors struct{ All []Error }

// Error is one line for each error.
func (e *Errors) Error() string {
	lines := make([]string, len(e.All))
	for i, one := range e.All {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

func newErrors(source, format string, args ...any) *Errors {
	return &Errors{[]Error{{Source: source, Problem: fmt.Sprintf(format, args...)}}}
}

// sorted puts errors in the order of the file; errors without a line are last.
func (e *Errors) sorted() *Errors {
	slices.SortStableFunc(e.All, func(a, b Error) int {
		return cmp.Or(cmp.Compare(uint(a.Line-1), uint(b.Line-1)), cmp.Compare(a.Column, b.Column))
	})
	return e
}
