package sevenbit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime/quotedprintable"

	"postrider/internal/message"
)

// A line of base64 has at most 76 characters (RFC 2045 6.8), which stand for so many octets.
const inLine = 57

// Base64 are the octets of a spool between two offsets in base64, with a line end after every line.
func Base64(b *message.Spool, from, to int64) Piece {
	n := to - from
	lines := (n + inLine - 1) / inLine
	return Piece{(n+2)/3*4 + 2*lines, func() io.Reader { return &base64Reader{src: Stored(b, from, to).Open()} }}
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

// quoted opens the octets between two offsets in quoted-printable. Line ends stay line ends.
func quoted(b *message.Spool, from, to int64) io.Reader {
	r := &quotedReader{src: Stored(b, from, to).Open()}
	r.w = quotedprintable.NewWriter(&r.out)
	return r
}

type quotedReader struct {
	src io.Reader
	in  [8 << 10]byte
	w   *quotedprintable.Writer
	out bytes.Buffer // not read yet
	err error
}

func (r *quotedReader) Read(p []byte) (int, error) {
	for r.out.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var n int
		n, r.err = r.src.Read(r.in[:])
		_, _ = r.w.Write(r.in[:n]) // into memory
		if errors.Is(r.err, io.EOF) {
			_ = r.w.Close()
		}
	}
	return r.out.Read(p)
}
