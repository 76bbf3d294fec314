package imapsrc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The line of a LIST or STATUS response from the attributes or the name on, as the library reads
// it.
const (
	quoted    = `"(?:[^"\\]|\\.)*"`
	attribute = `\\?[^(){ %*"\\\]\x00-\x1f\x7f]+`
	listed    = `\( *(?:` + attribute + `(?: +` + attribute + `)*)? *\) *(?:"(?:[^"\\]|\\.)"|NIL) +`
	named     = `(` + quoted + `|[^(){ %*"\\\x00-\x1f\x7f]+)`
)

var (
	nameLine  = regexp.MustCompile(`^ *(?:` + listed + `)?` + named + `(?: *\(.*)? *\r?\n$`)
	announces = regexp.MustCompile(`\{[0-9]+\} ?\r?\n$`)
	escaped   = regexp.MustCompile(`\\(.)`)
	shifted   = regexp.MustCompile(`&[^-]*-?`)
	base64Of  = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,").
			WithPadding(base64.NoPadding)
)

// nameEnds passes on a LIST or STATUS response, or its beginning up to a literal. The library
// closes the connection at a name that it cannot parse (Yandex breaks modified UTF-7; others send
// arbitrary octets), so it does not get such a response.
func (g *guard) nameEnds(out []byte) ([]byte, error) {
	head, line := g.held, g.line
	g.held, g.line = g.held[:0], nil
	if !announces.Match(line) && !isReadable(line) {
		g.state, g.unread = atHead, string(bytes.TrimSpace(line))
		return out, nil
	}
	g.state, g.flat, g.last = inData, false, ' '
	_, out, err := g.admit(line, append(out, head...))
	return out, err
}

func isReadable(line []byte) bool {
	found := nameLine.FindSubmatch(line)
	if found == nil {
		return false
	}
	name := found[1]
	if name[0] == '"' {
		return isModifiedUTF7(string(escaped.ReplaceAll(name[1:len(name)-1], []byte("$1"))))
	}
	control := func(c byte) bool { return 0x80 <= c && c < 0xa0 } // the library reads octets there
	return !slices.ContainsFunc(name, control) && isModifiedUTF7(string(name))
}

// isModifiedUTF7 reports whether the library can read a name (RFC 3501 5.1.3). It takes UTF-8, too.
func isModifiedUTF7(name string) bool {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	last := -1 // where the last one ends
	for _, at := range shifted.FindAllStringIndex(name, -1) {
		code, whole := strings.CutSuffix(name[at[0]+1:at[1]], "-")
		switch {
		case !whole, code != "" && (at[0] == last || !isShifted(code)):
			return false
		case code != "": // else it is "&-", which stands for "&"
			last = at[1]
		}
	}
	return true
}

// isShifted reports whether code is UTF-16 in base64, of characters that need that.
func isShifted(code string) bool {
	octets, err := base64Of.DecodeString(code)
	if err != nil || len(octets)%2 != 0 {
		return false
	}
	units := make([]uint16, len(octets)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16(octets[2*i:])
	}
	return !slices.ContainsFunc(utf16.Decode(units), func(r rune) bool {
		return r == utf8.RuneError || ' ' <= r && r <= '~'
	})
}
