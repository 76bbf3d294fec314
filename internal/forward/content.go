package forward

import (
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"postrider/internal/message"
)

// Content is what will be sent. It is read piece by piece, and never held in memory: the message it was made of must
// stay open while it is in use.
type Content struct {
	Mode   Mode   // as it goes out
	Remark string // why it goes out as it does, where that was decided for this message, for a person; mostly empty

	parts   []part
	eight   bool                     // an octet above 127
	utf8    bool                     // in the header
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

// Needs8bit reports whether the relay must offer 8BITMIME (RFC 6152).
func (c *Content) Needs8bit() bool { return c.eight }

// WantsUTF8 reports whether the header has valid UTF-8 in it, which SMTPUTF8 is for (RFC 6531).
func (c *Content) WantsUTF8() bool { return c.utf8 }

// part is a piece of a content.
type part struct {
	size int64
	open func() io.Reader
}

func text(s string) part {
	return part{int64(len(s)), func() io.Reader { return strings.NewReader(s) }}
}

// stored are the octets of a spool from an offset on, as they are.
func stored(b *message.Spool, from int64) part {
	return part{b.Size() - from, func() io.Reader { return b.From(from) }}
}

// A line of base64 has at most 76 characters (RFC 2045 6.8), which stand for so many octets.
const inLine = 57

// encoded is a spool in base64, with a line end after every line.
func encoded(b *message.Spool) part {
	n := b.Size()
	lines := (n + inLine - 1) / inLine
	return part{(n+2)/3*4 + 2*lines, func() io.Reader { return &base64Reader{src: b.Reader()} }}
}

type base64Reader struct {
	src io.Reader
	in  [256 * inLine]byte
	buf []byte
	out []byte // of buf, not read yet
	err error
}

func (r *base64Reader) Read(p []byte) (int, error) {
	if len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func (r *base64Reader) fill() {
	n, err := io.ReadFull(r.src, r.in[:])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	r.err, r.buf = err, r.buf[:0]
	for in := r.in[:n]; len(in) > 0; {
		line := in[:min(inLine, len(in))]
		in = in[len(line):]
		r.buf = append(base64.StdEncoding.AppendEncode(r.buf, line), "\r\n"...)
	}
	r.out = r.buf
}

// shape is what a message is like on the wire.
type shape struct {
	longest int // line, in octets without its end
	empty   int // octets of the longest run of lines with nothing but white space
	nul     bool
	eight   bool
}

// maxLine is the longest line that mail may have, without its end (RFC 5322 2.1.1).
const maxLine = 998

// unfit says what keeps a message from arriving as it is wherever 8-bit content is taken (RFC 2045 2.8); empty when
// nothing does.
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
