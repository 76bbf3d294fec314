package forward

import (
	"errors"
	"io"
)

// Content is what will be sent. It is read piece by piece, and never held in memory: the message
// that it is made of must stay open while it is in use.
type Content struct {
	Mode Mode // as it goes out
	// Remark says why, where that was decided for this message; mostly empty.
	Remark string

	parts   []piece
	eight   bool                     // an octet above 127: the relay must offer 8BITMIME (RFC 6152)
	utf8    bool                     // in the header, which wants SMTPUTF8 (RFC 6531)
	instead func() (*Content, error) // for a relay that cannot take this one; nil when there is nothing else
}

// Size is the number of octets, as RFC 1870 counts them.
func (c *Content) Size() int64 {
	size := int64(0)
	for _, p := range c.parts {
		size += p.size
	}
	return size
}

// Reader reads from the start.
func (c *Content) Reader() io.Reader {
	readers := make([]io.Reader, len(c.parts))
	for i, p := range c.parts {
		readers[i] = p.open()
	}
	return io.MultiReader(readers...)
}

// shape is what a message looks like on the wire.
type shape struct {
	longest int // line, in octets without its end
	empty   int // octets of the longest run of lines with nothing but white space
	nul     bool
	eight   bool
}

// maxLine is the longest line that mail may have, without its end (RFC 5322 2.1.1).
const maxLine = 998

// unfit is why a message would not arrive unchanged even where 8-bit content is accepted (RFC 2045
// 2.8); empty when it would.
func (s shape) unfit() string {
	switch {
	case s.longest > maxLine:
		return "it has a line of more than 998 octets"
	case s.nul:
		return "it has a NUL"
	}
	return ""
}

func shapeOf(r io.Reader) (shape, error) {
	var s shape
	buf := make([]byte, 32<<10)
	line, run := 0, 0
	white := true
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			switch {
			case c == '\n':
				if run += line + len("\r\n"); !white {
					run = 0
				}
				s.empty = max(s.empty, run)
				line, white = 0, true
				continue
			case c == 0:
				s.nul = true
			case c >= 0x80:
				s.eight = true
			}
			white = white && (c == ' ' || c == '\t' || c == '\r')
			if c != '\r' { // canonical: always before a LF
				line++
				s.longest = max(s.longest, line)
			}
		}
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
	}
}
