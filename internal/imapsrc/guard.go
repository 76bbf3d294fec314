package imapsrc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// violation is an answer that breaks the protocol, or a limit of ours.
type violation string

func (v violation) Error() string { return string(v) }

const (
	errTooMuch = violation("the server sends without end")
	errSyntax  = violation("the server's answer is not IMAP")
	errLiteral = violation("the server sends a literal where none was asked for")
	errLength  = violation("the server announced a wrong length for a message")
)

// The limits of one response.
const (
	maxNesting  = 100      // parentheses within parentheses
	maxResponse = 1 << 20  // octets without bodies and without the UIDs of a SEARCH
	maxHead     = 64       // octets before the data: "* 4294967295 FETCH"
	maxBuffered = 64 << 10 // octets of a literal that the library holds in memory
	maxLength   = 19       // digits of the length of a literal
)

// guard follows the server's responses (RFC 3501 7), so that each is within the limits before the
// library reads it: the library has none, and calls itself for each parenthesis.
//
// It reads octet by octet what the library reads, or refuses it. What the library would read in
// another way is refused: a line end in a quoted string or in a list. A response code without "]"
// ends with its line. So the library can never read as a response what the guard takes for a
// literal.
type guard struct {
	state   phase
	held    []byte // the head of a response, while its type is not known
	known   bool   // its type was found
	size    int64  // octets of the current response, without literals
	nesting int
	flat    bool   // no lists: the library never ends when one stands among the capabilities
	code    []byte // the response code so far, in upper case
	length  []byte // the digits of the length of a literal
	literal int64  // octets of the current literal that are still to come
	hits    hits   // of SEARCH
	fetches int    // FETCH responses that have begun
	fetch   bool   // the current response is one
	dates   dates  // of it
	id      bool   // the current response is ID
	caps    bool   // the current response is CAPABILITY
	rev1    bool   // the list of capabilities has IMAP4rev1 so far
	rev2    bool   // and IMAP4rev2
	word    []byte // the current word of ID, of PERMANENTFLAGS or of the capabilities
	space   bool   // a space came that the library may still get
	last    byte   // what came before it
	line    []byte // of a LIST or STATUS response, after the type
	unread  string // the last one that the library did not get, because of the name in it
}

type phase uint8

const (
	atHead    phase = iota // tag and type
	afterType              // of a status response
	afterSpace
	inCode   // [CODE ...]
	inText   // up to the end of the line
	inData   // lists, atoms and strings
	inQuoted // "..."
	inEscape // after a backslash in it
	inLength // {123}
	afterLength
	afterLengthSpace
	afterLengthCR
	inSearch // UIDs that the library does not get
	inName   // a LIST or STATUS response, up to the end of the line
	inFlags  // a FLAGS response, which the library does not get
)

// boundary reports whether a response has ended and no other has begun.
func (g *guard) boundary() bool { return g.state == atHead && len(g.held) == 0 && g.literal == 0 }

// admit reads octets up to the end of p, or to the first one after a response or in a literal. It
// returns how many it read, and out with those that the library gets appended.
func (g *guard) admit(p, out []byte) (n int, into []byte, err error) {
	for n < len(p) && g.literal == 0 {
		c := p[n]
		n++
		if g.size++; g.size > maxResponse && g.state != inSearch {
			return n, out, errTooMuch
		}
		before, nested, items, flags := g.state, g.nesting > 0, g.fetch && g.nesting == 1, g.inFetchedFlags()
		if err := g.step(c); err != nil {
			return n, out, err
		}
		pass := func(c byte) {
			switch {
			case items:
				out = g.dates.step(c, before == inData, out)
			case g.id && before == inData:
				out = g.nstring(c, nested, out)
			case g.caps && before == inData, before == inCode && bytes.HasPrefix(g.code, []byte("CAPABILITY ")):
				out = g.capability(c, out)
			case before == inCode && nested:
				out = g.flag(c, out)
			case before == inCode && !bytes.ContainsRune(g.code, ' '): // the library reads only upper case
				out = append(out, upper(c))
			case before == inText && g.last == ']' && c != ' ' && c != '\r' && c != '\n':
				out = append(out, ' ', c) // the library requires a space after a code
			case before != atHead && before != inSearch && before != inFlags:
				out = append(out, c)
			}
		}
		switch {
		case before == inName && c == '\n':
			if out, err = g.nameEnds(out); err != nil {
				return n, out, err
			}
		case flags && g.inFetchedFlags(), before == inName: // nobody needs them, or not yet
		case g.known:
			out = append(out, g.held...)
			g.held, g.known, g.last = g.held[:0], false, c
		case c == ' ' && (before == inData || before == inCode): // one too many ends the connection
			g.space = g.last != ' ' && g.last != '('
		default:
			if g.space && c != ')' && c != ']' && c != '\r' {
				pass(' ')
			}
			if c == '\r' && before == inCode && !nested { // the library would look for it in the next lines
				pass(']')
			}
			pass(c)
			g.space, g.last = false, c
		}
		if g.boundary() {
			g.size = 0
			break
		}
	}
	return n, out, nil
}

func (g *guard) step(c byte) error {
	switch g.state {
	case atHead:
		return g.head(c)
	case afterType, afterSpace, inCode, inText:
		return g.status(c)
	case inData:
		return g.data(c)
	case inQuoted:
		return g.quoted(c)
	case inEscape:
		g.state = inQuoted
		return lineEnd(c)
	case inSearch:
		if c == '\n' {
			g.state = atHead
		}
		return g.hits.step(c)
	case inName:
		g.line = append(g.line, c)
		return nil
	case inFlags:
		if c == '{' {
			return errSyntax
		}
		if c == '\n' {
			g.state = atHead
		}
		return nil
	}
	return g.announced(c)
}

// lineEnd refuses the end of a line where none may be.
func lineEnd(c byte) error {
	if c == '\r' || c == '\n' {
		return errSyntax
	}
	return nil
}

// head reads up to the type of a response, and the octet after it.
func (g *guard) head(c byte) error {
	if c == ' ' && bytes.HasSuffix(g.held, []byte(" ")) {
		return nil // DavMail sends "*  522 EXISTS"
	}
	g.held = append(g.held, c)
	if len(g.held) > maxHead {
		return errSyntax
	}
	first := len(g.held) == 1
	switch {
	case first && c == '+':
		g.state, g.known = inText, true
		return nil
	case first && c == '*', isAtom(c):
		return nil
	}
	if c != ' ' && c != '(' && c != '\r' && c != '\n' {
		return errSyntax
	}
	words := strings.Split(string(g.held[:len(g.held)-1]), " ")
	numbered := words[0] == "*" && len(words) > 1 && words[1] != "" && words[1][0] >= '0' && words[1][0] <= '9'
	at := 1 // the index of the type
	if numbered {
		at = 2
	}
	switch last := words[len(words)-1]; {
	case last == "" || len(words) > at+1:
		return errSyntax
	case len(words) == at+1:
		return g.typed(strings.ToUpper(last), words[0] != "*", c)
	case c != ' ':
		return errSyntax
	}
	return nil
}

// typed begins what follows the type: c and the rest of the response.
func (g *guard) typed(name string, tagged bool, c byte) error {
	g.known, g.fetch, g.id, g.caps = true, false, name == "ID", name == "CAPABILITY"
	if tagged {
		g.state = afterType
		return g.status(c)
	}
	switch name {
	case "OK", "NO", "BAD", "BYE", "PREAUTH":
		g.state = afterType
		return g.status(c)
	case "SEARCH", "ESEARCH":
		g.held = g.held[:0]
		g.hits.begin(name == "ESEARCH")
		g.state = inSearch
		return g.step(c)
	case "FETCH":
		g.fetches++
		g.fetch = true
	case "FLAGS":
		g.held = g.held[:0]
		g.state = inFlags
		return g.step(c)
	case "LIST", "STATUS":
		if c == ' ' {
			g.state, g.known = inName, false
			return nil
		}
	}
	g.state, g.flat = inData, name == "CAPABILITY" || name == "ENABLED"
	return g.data(c)
}

// nstring passes on an octet of an ID response that is outside of a quoted string. A value may be
// NIL (RFC 2971 4), and the library ends the connection at one. It gets an empty string in its
// place.
func (g *guard) nstring(c byte, nested bool, out []byte) []byte {
	if isAtom(c) && len(g.word) < maxHead {
		g.word = append(g.word, c)
		return out
	}
	switch null := strings.EqualFold(string(g.word), "NIL"); {
	case null && nested:
		out = append(out, `""`...)
	case null:
		out = append(out, "NIL"...)
	default:
		out = append(out, g.word...)
	}
	g.word = g.word[:0]
	return append(out, c)
}

// isAtom reports whether c may be in a tag, a type or a flag. (RFC 3501 9 allows more in a tag; we
// do not use it.)
func isAtom(c byte) bool {
	return c > ' ' && c < 0x7f && !bytes.ContainsRune([]byte(`(){%*"\]`), rune(c))
}

func (g *guard) status(c byte) error {
	switch {
	case c == '\n' && g.state == inCode, c == '(' && g.state == inCode && bytes.HasPrefix(g.code, []byte("CAPABILITY")):
		return errSyntax
	case c == '\n':
		g.state = atHead
	case g.state == afterType && c == ' ':
		g.state = afterSpace
	case g.state == afterSpace && c == '[':
		g.state, g.code = inCode, g.code[:0]
	case g.state == inCode && (c != ']' && c != '\r' || g.nesting > 0):
		switch {
		case c == '(' && bytes.HasPrefix(g.code, []byte("PERMANENTFLAGS")):
			g.nesting = 1
		case c == ')':
			g.nesting = 0
		}
		if len(g.code) < maxHead {
			g.code = append(g.code, upper(c))
		}
	default:
		g.state = inText
	}
	return nil
}

// upper is a letter in upper case: names are case-insensitive (RFC 3501 9).
func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

func (g *guard) data(c byte) error {
	switch c {
	case '(':
		if g.flat {
			return errSyntax
		}
		if g.nesting++; g.nesting > maxNesting {
			return violation(fmt.Sprintf("the server nests lists more than %d deep", maxNesting))
		}
	case ')':
		if g.nesting--; g.nesting < 0 {
			return errSyntax
		}
	case '"':
		g.state = inQuoted
	case '{':
		if g.inFetchedFlags() {
			return errSyntax
		}
		g.state, g.length = inLength, g.length[:0]
	case '\n':
		if g.nesting > 0 {
			return errSyntax
		}
		g.state = atHead
	}
	return nil
}

func (g *guard) quoted(c byte) error {
	switch c {
	case '"':
		g.state = inData
	case '\\':
		g.state = inEscape
	}
	return lineEnd(c)
}

// announced reads the rest of {123} and the end of the line. The library takes a space before it.
func (g *guard) announced(c byte) error {
	digit := c >= '0' && c <= '9'
	switch {
	case g.state == inLength && digit && len(g.length) < maxLength:
		g.length = append(g.length, c)
	case g.state == inLength && c == '}' && len(g.length) > 0:
		g.state = afterLength
	case g.state == afterLength && c == ' ':
		g.state = afterLengthSpace
	case (g.state == afterLength || g.state == afterLengthSpace) && c == '\r':
		g.state = afterLengthCR
	case g.state != inLength && c == '\n':
		n, err := strconv.ParseInt(string(g.length), 10, 64)
		if err != nil {
			return errSyntax
		}
		g.state, g.literal = inData, n
	default:
		return errSyntax
	}
	return nil
}
