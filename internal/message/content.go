package message

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime/quotedprintable"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// Content is the text that a person reads in a message, and the names of its attachments.
type Content struct {
	Text          string   // UTF-8, with LF between lines: all text that is shown in the message, without markup
	Attachments   []string // the decoded file names: of an attachment none, one, or the two that differ
	HasAttachment bool
	Incomplete    string // why there may be more parts; empty when all were found
	Unread        string // why there may be other text in the parts that were found; empty when all was read
	Err           error  // the spool could not be read, such as for an error of the disk; nil otherwise
}

// Limits of memory and work per message. Content is incomplete when a message exceeds one.
const (
	maxText  = 512 << 10 // octets of Content.Text
	maxRaw   = 4 << 20   // octets of text parts before they are decoded
	MaxDepth = 30        // of parts in parts
	MaxParts = 1000

	maxBoundary = 998 // octets: the longest line (RFC 5322 2.1.1)
)

// Content decodes the whole message at every call. An attached message is an attachment, and is not
// decoded. When ctx ends, what was decoded until then is the content, and it is incomplete.
func (m *Message) Content(ctx context.Context) (c Content) {
	r := &contentReader{raw: maxRaw}
	r.leaf = r.readLeaf
	r.read(ctx, m)
	c = r.Content
	c.Text = r.text.String()
	return c
}

// contentReader collects the content, part by part.
type contentReader struct {
	Content
	leaf  func(h Header, p part) // reads a part that has no parts in it
	lines *lineReader
	text  strings.Builder
	raw   int // octets of text that may still be read
	parts int
}

func (c *contentReader) read(ctx context.Context, m *Message) {
	// The decoders read hostile octets before the message is registered. A panic in one of them
	// must not end the pass.
	defer func() {
		if recover() != nil {
			c.incomplete("its parts cannot be decoded")
		}
	}()
	if m.HeaderOnly {
		c.incomplete("its body was not downloaded")
		return
	}
	c.lines = newLineReader(Reader(ctx, m.Body.Reader()))
	if fields, err := readHeader(c.lines); err == nil {
		c.whole(fields)
		c.part(m.Header, textPlain, 0)
	}
	switch err := c.lines.failed(); {
	case ctx.Err() != nil:
		c.Incomplete = "there was no time to read all of it"
	case err != nil:
		c.incomplete("it cannot be read: " + withoutControls(err.Error()))
		c.Err = err
	}
}

func (c *contentReader) incomplete(why string) {
	if c.Incomplete == "" {
		c.Incomplete = why
	}
}

func (c *contentReader) unread(why string) {
	if c.Unread == "" {
		c.Unread = why
	}
}

// whole checks that these are all fields of a header. Otherwise its rest is read as text.
func (c *contentReader) whole(fields []Field) {
	if GoesOn(fields) {
		c.incomplete("a header is longer than 1 MiB or 10,000 fields")
	}
}

// part reads a part. implied is its type if it names none.
func (c *contentReader) part(h Header, implied string, depth int) {
	if c.parts++; c.parts > MaxParts {
		c.incomplete("it has more than 1,000 parts")
		return
	}
	p := describe(h, implied)
	if p.unclear {
		c.incomplete("a part has a field that is too long or has too many parameters")
	}
	if p.packed() {
		c.incomplete("a part is encrypted or packed: " + p.mediaType)
	}
	if p.attached {
		c.HasAttachment = true
		c.Attachments = append(c.Attachments, p.names...)
	}
	if !strings.HasPrefix(p.mediaType, "multipart/") {
		c.leaf(h, p)
		return
	}
	implied = textPlain
	if p.mediaType == "multipart/digest" {
		implied = "message/rfc822" // RFC 2046 5.1.5
	}
	// A boundary does not end with white space (RFC 2046 5.1.1).
	c.multipart(strings.TrimRight(p.params["boundary"], " \t"), implied, depth+1)
}

func (c *contentReader) readLeaf(h Header, p part) {
	if p.shown || !p.attached && strings.HasPrefix(p.mediaType, "text/") {
		octets, whole := c.octets(c.raw)
		if !whole {
			c.unread("its text is larger than 4 MiB")
		}
		c.add(c.decoded(h, p, octets))
	}
}

func (c *contentReader) multipart(boundary, implied string, depth int) {
	switch {
	case boundary == "" || len(boundary) > maxBoundary:
		c.incomplete("it has parts, but no valid boundary between them")
		return
	case depth > MaxDepth:
		c.incomplete("its parts are nested more than 30 deep")
		return
	}
	c.lines.enter(boundary)
	defer c.lines.leave()
	c.lines.skipped = false
	parts := 0
	for ; c.parts <= MaxParts && c.lines.next(); parts++ {
		fields, err := readHeader(c.lines)
		if err != nil || slices.ContainsFunc(fields, Field.junk) {
			c.incomplete("its parts cannot be separated")
			return
		}
		c.whole(fields)
		c.part(newHeader(fields), implied, depth)
	}
	if parts == 0 && c.lines.skipped && !c.lines.closed() {
		c.incomplete("it has parts, but not the boundary that is announced between them")
	}
}

// octets reads the rest of a part, at most that much. whole is false when there is more.
func (c *contentReader) octets(most int) (octets []byte, whole bool) {
	most = min(most, c.raw)
	defer func() { c.raw -= len(octets) }()
	for {
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			return octets, true
		}
		if room := most - len(octets); len(line) > room {
			return append(octets, line[:room]...), false
		}
		octets = append(octets, line...)
	}
}

// decoded is the text of a part as UTF-8.
func (c *contentReader) decoded(h Header, p part, octets []byte) string {
	octets, err := transferDecode(octets, h.Get("Content-Transfer-Encoding"))
	if err != nil {
		c.unread("its text cannot be decoded: " + withoutControls(err.Error()))
	}
	text, unknown := p.decode(octets)
	if unknown != "" {
		c.unread(fmt.Sprintf("its charset %q is not known", unknown[:min(len(unknown), maxLabel)]))
	}
	return text
}

const maxLabel = 40 // octets of the name of a charset or a transfer encoding

// transferDecode decodes the Content-Transfer-Encoding (RFC 2045 6). Together with an error it
// returns what it could decode, as mail programs show it; all as it is if the encoding is not
// known.
func transferDecode(octets []byte, encoding string) ([]byte, error) {
	encoding, _, _ = strings.Cut(withoutComments(encoding), ";") // it has no parameters, but some mailers end it so
	encoding = strings.ToLower(strings.TrimSpace(encoding))
	switch encoding {
	case "", "7bit", "7-bit", "8bit", "8-bit", "binary":
		return octets, nil
	case "base64":
		return base64Decode(octets)
	case "quoted-printable":
		// The decoder would stop at a control character.
		octets = slices.DeleteFunc(octets, func(c byte) bool { return c < ' ' && bytes.IndexByte(space, c) < 0 })
		// Its buffer has to hold the longest line.
		return io.ReadAll(quotedprintable.NewReader(bufio.NewReaderSize(bytes.NewReader(octets), len(octets)+1)))
	}
	return octets, fmt.Errorf("the transfer encoding %q is not known", encoding[:min(len(encoding), maxLabel)])
}

var space = []byte(" \t\r\n")

// base64Decode ignores octets outside of the alphabet (RFC 2045 6.8), and reports them with an
// error. Text may continue after padding, because some programs join several encoded texts.
func base64Decode(octets []byte) (out []byte, err error) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var invalid []byte
	for text := range bytes.SplitSeq(octets, []byte("=")) {
		text = slices.DeleteFunc(text, func(c byte) bool {
			foreign := strings.IndexByte(alphabet, c) < 0
			if foreign && bytes.IndexByte(space, c) < 0 {
				invalid = []byte{c}
			}
			return foreign
		})
		if len(text)%4 == 1 { // six bits left over, less than an octet
			text = text[:len(text)-1]
		}
		if out, err = base64.RawStdEncoding.AppendDecode(out, text); err != nil {
			return out, err
		}
	}
	if invalid != nil {
		return out, fmt.Errorf("%q is not allowed in base64", invalid)
	}
	return out, nil
}

// add appends the text of one part.
func (c *contentReader) add(s string) {
	if room := maxText - c.text.Len() - 1; len(s) > room {
		c.unread("its text is longer than 512 KiB")
		for room = max(room, 0); room > 0 && !utf8.RuneStart(s[room]); room-- {
			continue
		}
		s = s[:room]
	}
	switch {
	case s == "":
		return
	case c.text.Len() > 0:
		c.text.WriteByte('\n')
	}
	c.text.WriteString(s)
}

// decode converts a part's octets to text. HTML without a charset parameter may name its charset in
// the markup. unknown is the charset if it is not known and the text may be another one.
func (p part) decode(octets []byte) (text, unknown string) {
	label, isHTML := charsetOf(p.params["charset"]), p.mediaType == "text/html"
	if label == "" && isHTML && !utf8.Valid(octets) {
		if _, label, _ = charset.DetermineEncoding(octets, ""); label == "windows-1252" {
			label = "" // also what it says if it finds nothing
		}
	}
	s, known := fromCharset(octets, label)
	switch {
	case label == "" || label == "us-ascii": // the text is often in another charset
		s = Header{}.plain(string(octets))
	case !known:
		if s = toUTF8(octets, label); !looksRight(octets, label) {
			unknown = label
		}
	}
	if isHTML {
		s = htmlText(s)
	}
	s = invisible.Replace(s)
	if p.mediaType == textPlain &&
		strings.EqualFold(p.params["format"], "flowed") && strings.EqualFold(p.params["delsp"], "yes") {
		s = flowed.Replace(s)
	}
	return strings.TrimSpace(s), unknown
}

// looksRight reports whether text in a charset that is not known can be read as UTF-8, which most
// charsets have in common as far as it is ASCII. UTF-7 and ISO 2022 write other characters in
// ASCII.
func looksRight(octets []byte, label string) bool {
	if label == "utf-8" || label == "utf8" {
		return true
	}
	shifts := "\x1b\x0e"
	if strings.Contains(strings.ReplaceAll(label, "-", ""), "utf7") { // also csUnicode11UTF7
		shifts += "+"
	}
	return utf8.Valid(octets) && !bytes.ContainsAny(octets, shifts)
}

// invisible removes characters that senders put between letters to hyphenate, or to hide words from
// filters, and the CR of line ends.
var invisible = strings.NewReplacer("\r\n", "\n", "\u00ad", "", "\u200b", "", "\u2060", "", "\ufeff", "", "\x00", "")

// Visible returns a text without the invisible characters that Content and Header.Texts leave out.
func Visible(s string) string { return invisible.Replace(s) }

// flowed joins the lines of a text that are one (RFC 3676 4.2). The line "-- " above a signature is
// not joined to the lines around it (RFC 3676 4.3).
var flowed = strings.NewReplacer(" \n-- \n", "\n-- \n", "\n-- \n", "\n-- \n", " \n", "")
