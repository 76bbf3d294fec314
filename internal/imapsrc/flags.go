package imapsrc

import (
	"bytes"
	"slices"
)

// inFetchedFlags reports whether the next octet is in the flags of a message, or ends them. The
// library does not get them, because it cannot read all: those of Gmail may have a "]"
// (OIB-Seen-[Gmail]/All Mail).
func (g *guard) inFetchedFlags() bool { return g.fetch && g.dates.flags && g.nesting > 1 }

// flag passes on an octet of the list in PERMANENTFLAGS, without the words that the library cannot
// read.
func (g *guard) flag(c byte, out []byte) []byte {
	if c != ' ' && c != ')' {
		g.word = append(g.word, c)
		return out
	}
	name := bytes.TrimPrefix(g.word, []byte(`\`))
	unreadable := slices.ContainsFunc(name, func(c byte) bool { return !isAtom(c) })
	if len(name) > 0 && !unreadable || string(g.word) == `\*` {
		out = append(append(out, ' '), g.word...) // it accepts a space after the parenthesis
	}
	g.word = g.word[:0]
	if c == ')' {
		out = append(out, c)
	}
	return out
}
