package config

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// place is where a value was given.
type place struct {
	source       string
	line, column int
	value        *yaml.Node // nil for what comes from the environment
}

// at is the place of the n-th character of the value, from 1. A quoted or block value differs from
// its text in the file, so both are compared character by character. If that fails, it is the place
// where the value begins.
func (p place) at(src []byte, n int) place {
	if p.value == nil {
		return p
	}
	p.line, p.column = p.value.Line, p.value.Column
	file := newCursor(src, p.value)
	value := []rune(p.value.Value)
	for i := 0; i < len(value) && i < n-1; i++ {
		if unicode.IsSpace(value[i]) { // it may be a line end and an indentation in the file
			if i+1 == len(value) || !unicode.IsSpace(value[i+1]) {
				file.skip(unicode.IsSpace)
			}
			continue
		}
		if !file.find(value[i]) {
			return p
		}
		file.step()
	}
	if n <= len(value) && !unicode.IsSpace(value[n-1]) && !file.find(value[n-1]) {
		return p
	}
	p.line, p.column = file.line, file.column
	return p
}

// cursor walks through the file by character.
type cursor struct {
	rest         []rune
	line, column int
}

func newCursor(src []byte, n *yaml.Node) *cursor {
	c := &cursor{rest: []rune(string(src)), line: 1, column: 1}
	for len(c.rest) > 0 && (c.line < n.Line || c.line == n.Line && c.column < n.Column) {
		c.step()
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // | and > stand above the value
		c.skip(func(r rune) bool { return r != '\n' })
		c.skip(unicode.IsSpace)
	}
	return c
}

func (c *cursor) step() {
	if c.rest[0] == '\n' {
		c.line, c.column = c.line+1, 0
	}
	c.column++
	c.rest = c.rest[1:]
}

func (c *cursor) skip(what func(rune) bool) {
	for len(c.rest) > 0 && what(c.rest[0]) {
		c.step()
	}
}

// find goes to r, past quotes and backslashes that only the file has.
func (c *cursor) find(r rune) bool {
	c.skip(func(have rune) bool { return have != r && strings.ContainsRune("\"'\\", have) })
	return len(c.rest) > 0 && c.rest[0] == r
}
