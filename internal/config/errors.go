package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of the configuration.
type Error struct {
	Source       string // the file, or the environment variable
	Line, Column int    // from 1; 0 when the fault is in no particular line
	Key          string // the full name, such as smtp.port; empty when it concerns no key
	Problem      string // what is wrong, and the mend
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
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Errors are all faults of the configuration: bad usage, and nothing has been touched.
type Errors struct{ All []Error }

// Error is one line for each fault.
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

// sorted puts faults in the order of the file; those without a line come last.
func (e *Errors) sorted() *Errors {
	slices.SortStableFunc(e.All, func(a, b Error) int {
		return cmp.Or(cmp.Compare(uint(a.Line-1), uint(b.Line-1)), cmp.Compare(a.Column, b.Column))
	})
	return e
}
