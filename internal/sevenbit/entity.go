package sevenbit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"postrider/internal/message"
)

// sealed are the types whose content is signed, or cannot be looked into (RFC 1847, RFC 8551 3.2).
var sealed = map[string]string{
	"multipart/signed": "signed", "multipart/encrypted": "encrypted",
	"application/pkcs7-mime": "signed or encrypted", "application/x-pkcs7-mime": "signed or encrypted",
}

// entity reads a part with its header, which is of that kind if it does not say, up to a delimiter of what is around it.
func (w *walker) entity(kind string, depth int) head {
	if w.parts++; w.parts > message.MaxParts {
		w.opaque("it has more than 1,000 parts")
		return head{}
	}
	h := w.header(kind)
	w.body(h, depth)
	return h
}

func (w *walker) body(h head, depth int) {
	how := sealed[h.kind]
	composite := strings.HasPrefix(h.kind, "multipart/") || h.kind == "message/rfc822"
	switch {
	case h.fault != "":
		w.opaque(h.fault)
		return
	case h.kind == "":
		w.opaque("it has a digest with parts that do not say that they are messages")
		return
	case composite && !identity[h.encoding]:
		w.opaque("it has a part of type " + h.kind + " in an encoding, which that type may not have")
		return
	case composite && depth >= message.MaxDepth:
		w.opaque("its parts are nested more than 30 deep")
		return
	}
	edits, encoded := len(w.edits), w.encoded
	switch {
	case how != "":
		w.opaque("it is " + how + " (" + h.kind + "), which encoding would break")
	case h.kind == "message/rfc822":
		w.message(depth + 1)
	case composite:
		w.multipart(h, depth+1)
	default:
		w.leaf(h)
	}
	if composite && w.encoded > encoded && (h.encoding == "8bit" || h.encoding == "binary") {
		w.label(h, "7bit", edits)
	}
}

// identity are the encodings that are none (RFC 2045 6.2). 7bit is often untrue.
var identity = map[string]bool{"": true, "7bit": true, "8bit": true, "binary": true}

// label puts an encoding into a header. Its edit comes before those of what is below, which begin at an index.
func (w *walker) label(h head, encoding string, below int) {
	if h.top {
		w.own = encoding
		return
	}
	w.edits = slices.Insert(w.edits, below, edit{h.at, h.to, Text(string(encodingField(encoding)))})
}

// message reads a message in a message. It may not be encoded itself, only what is in it (RFC 2046 5.2.1).
func (w *walker) message(depth int) {
	top, edits, encoded := w.at, len(w.edits), w.encoded
	switch h := w.entity("text/plain", depth); {
	case w.encoded == encoded:
	case h.signed:
		w.refuse("it has a message in it whose DKIM signature encoding would break")
	case !h.mime:
		w.edits = slices.Insert(w.edits, edits, edit{top, top, Text(mimeField)})
	}
}

// multipart reads a preamble, parts and an epilogue (RFC 2046 5.1.1).
func (w *walker) multipart(h head, depth int) {
	boundary := []byte("--" + h.boundary)
	switch {
	case !usable(boundary):
		w.opaque("it has parts whose boundary is missing, or no good")
		return
	case !w.distinct(boundary):
		w.refuse("it has parts in parts with the same boundary")
		return
	}
	encoded, level := w.encoded, len(w.open)
	w.open = append(w.open, boundary)
	w.opaque("it has 8-bit octets outside of its parts")
	found, last := w.delimiter()
	for !w.done && found == level && !last {
		w.next()
		w.entity(kindIn(h.kind), depth)
		found, last = w.delimiter()
	}
	w.open = w.open[:level]
	if w.done || found != level {
		if w.encoded > encoded {
			w.refuse("it has parts that do not end with their boundary")
		}
		return
	}
	w.next()
	w.opaque("it has 8-bit octets outside of its parts")
}

// usable tells a boundary that all readers find. Some take angle brackets for quotes.
func usable(boundary []byte) bool {
	odd := func(r rune) bool { return r < ' ' || r >= 0x7f || r == '<' || r == '>' }
	return len(boundary) > len("--") && !bytes.HasSuffix(boundary, []byte(" ")) && !bytes.ContainsFunc(boundary, odd)
}

// distinct reports whether no delimiter of a boundary is one of those around it.
func (w *walker) distinct(boundary []byte) bool {
	const end = "--"
	for _, other := range w.open {
		if a, b := string(boundary), string(other); a == b || a == b+end || a+end == b {
			return false
		}
	}
	return true
}

// kindIn is the type of parts that do not say theirs. In a digest they are messages (RFC 2046 5.1.5), which not all readers know.
func kindIn(multipart string) string {
	if multipart == "multipart/digest" {
		return ""
	}
	return "text/plain"
}

// leaf reads the content of a part. The line end before a delimiter is not of it, but of that (RFC 2046 5.1.1).
func (w *walker) leaf(h head) {
	from, eight, long := w.at, false, false
	for w.inside() {
		eight, long = eight || w.eight, long || w.long
		w.next()
	}
	to := w.at
	if !w.done {
		to = max(from, to-int64(len("\r\n")))
	}
	switch {
	case w.err != nil:
	case !eight && long:
		w.refuse("it has a line of more than 998 octets in a part that needs no encoding")
	case !eight:
	case !identity[h.encoding]:
		w.refuse("it has a part with 8-bit octets in the encoding " + h.encoding)
	case strings.HasPrefix(h.kind, "message/"):
		w.refuse("it has a part of type " + h.kind + ", which may not be encoded")
	default:
		w.encode(h, from, to)
	}
}

// encode notes that what is between two offsets goes in the shorter encoding that suits it.
func (w *walker) encode(h head, from, to int64) {
	encoding, by := "base64", Base64(w.src, from, to)
	if strings.HasPrefix(h.kind, "text/") {
		switch size, fits, err := w.measure(quoted(w.src, from, to)); {
		case err != nil:
			w.fail(fmt.Errorf("read a spooled message: %w", err))
			return
		case fits && size <= by.Size:
			encoding, by = "quoted-printable", Piece{size, func() io.Reader { return quoted(w.src, from, to) }}
		}
	}
	w.encoded++
	w.label(h, encoding, len(w.edits))
	w.edits = append(w.edits, edit{from, to, by})
}

// measure counts the octets of a text in quoted-printable, and tells whether it fits between the boundaries: a line may be
// broken where one of them stands in the text.
func (w *walker) measure(r io.Reader) (size int64, fits bool, err error) {
	lines := bufio.NewReader(r)
	for fits = true; ; {
		line, err := lines.ReadSlice('\n')
		size += int64(len(line))
		for _, boundary := range w.open {
			fits = fits && !bytes.HasPrefix(line, boundary)
		}
		if errors.Is(err, io.EOF) {
			return size, fits, nil
		}
		if err != nil {
			return 0, false, err
		}
	}
}
