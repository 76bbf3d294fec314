// Package sevenbit encodes what has 8 bits in a message, for relays without 8BITMIME (RFC 6152 3).
//
// Each leaf part with octets above 127 goes in quoted-printable (text, where that is no longer) or in base64, and its
// Content-Transfer-Encoding says so. That of the multiparts and messages around it becomes 7bit where it was 8bit or binary
// (RFC 2045 6.4). Nothing else is touched: boundaries, preambles, epilogues, other fields and parts of 7 bits stay octet
// for octet. Decoded, every part is what it was.
//
// What comes out has no octet above 127, no NUL and no line of more than 998 octets in its body. Where that cannot be had
// so that whoever reads the message finds the same parts with the same content, there is a *Refusal: for what is signed or
// encrypted, 8 bits outside of the parts' content, a structure that readers may take apart differently, an encoding that is
// unknown or must not be, and long lines in parts that stay as they are. Parts of 7 bits may be as odd as they like.
//
// A message is read line by line and never held: memory is bounded by the number of parts, which has a limit. The package
// changes no signature and signs nothing.
package sevenbit

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"postrider/internal/message"
)

// Refusal is why a message cannot be encoded, for a person.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return "encode in 7 bits: " + r.Why }

// Piece is a stretch of octets. What it is made of must stay open while it is in use.
type Piece struct {
	Size int64 // in octets
	Open func() io.Reader
}

// Encoded is a message of 7 bits.
type Encoded struct {
	Fields []message.Field // the header
	Body   []Piece
}

// Encode encodes the body that begins at an offset of b, below a header of these fields, which are ASCII. Its error is a
// *Refusal, or that b cannot be read. What has no 8 bits stays as it is.
func Encode(fields []message.Field, b *message.Spool, body int64) (Encoded, error) {
	w := &walker{src: b, r: bufio.NewReaderSize(b.From(body), 32<<10), after: body}
	w.next()
	w.body(headOf(fields), 0)
	if missing := b.Size() - w.after; w.err == nil && missing != 0 {
		w.err = fmt.Errorf("read a spooled message: %d octets are missing", missing)
	}
	switch {
	case w.err != nil:
		return Encoded{}, w.err
	case w.encoded == 0:
		return Encoded{fields, []Piece{Stored(b, body, b.Size())}}, nil
	}
	return Encoded{relabelled(fields, w.own), w.pieces(body)}, nil
}

// relabelled has an encoding in the header, and says that this means something (RFC 2045 4).
func relabelled(fields []message.Field, encoding string) []message.Field {
	if encoding != "" {
		fields = slices.DeleteFunc(slices.Clone(fields), func(f message.Field) bool { return f.Name == encodingName })
		fields = append(fields, message.Field{Name: encodingName, Raw: encodingField(encoding)})
	}
	if !slices.ContainsFunc(fields, func(f message.Field) bool { return f.Name == mimeName }) {
		fields = append(slices.Clip(fields), message.Field{Name: mimeName, Raw: []byte(mimeField)})
	}
	return fields
}

const (
	encodingName = "content-transfer-encoding"
	mimeName     = "mime-version"
	mimeField    = "MIME-Version: 1.0\r\n"
)

func encodingField(encoding string) []byte {
	return []byte("Content-Transfer-Encoding: " + encoding + "\r\n")
}

// Text is a piece that says s.
func Text(s string) Piece {
	return Piece{int64(len(s)), func() io.Reader { return strings.NewReader(s) }}
}

// Stored are the octets of a spool between two offsets, as they are.
func Stored(b *message.Spool, from, to int64) Piece {
	return Piece{to - from, func() io.Reader { return io.LimitReader(b.From(from), to-from) }}
}
