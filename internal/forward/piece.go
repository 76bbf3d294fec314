package forward

import (
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"postrider/internal/message"
)

// piece is a stretch of octets. What it is made of must stay open while it is in use.
type piece struct {
	size int64 // in octets
	open func() io.Reader
}

func textPiece(s string) piece {
	return piece{int64(len(s)), func() io.Reader { return strings.NewReader(s) }}
}

// storedPiece is the content of a spool from an offset on, octet for octet.
func storedPiece(b *message.Spool, from int64) piece {
	return piece{b.Size() - from, func() io.Reader { return b.From(from) }}
}

// inLine is the number of octets that a line of 76 characters holds in base64 (RFC 2045 6.8).
const inLine = 57

// base64Piece is the content of a spool in base64, with a line end after every line.
func base64Piece(b *message.Spool) piece {
	n := b.Size()
	lines := (n + inLine - 1) / inLine
	return piece{(n+2)/3*4 + 2*lines, func() io.Reader { return &base64Reader{src: b.Reader()} }}
}

type base64Reader struct {
	src io.Reader
	in  [256 * inLine]byte
	buf []byte
	out []byte // the part of buf that has not been read
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
