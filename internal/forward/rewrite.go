package forward

import (
	"bytes"
	"fmt"
	"mime"
	"slices"
	"strings"

	"postrider/internal/message"
)

// rewrite puts the header into the forwarder's name and keeps the body, octet for octet. Some
// messages it attaches instead: one whose header has lines that are no fields, or is very long; and
// one with 8-bit content, when the relay does not offer 8BITMIME.
func (c *Composer) rewrite(m *message.Message, o Origin) (*Content, error) {
	fields, err := m.Fields()
	if err != nil {
		return nil, err
	}
	fields, body, why := split(fields)
	if why != "" {
		return c.attach(m, o, "attached instead of rewritten: "+why)
	}
	form, err := shapeOf(m.Body.From(body)) // its header is ASCII now
	switch {
	case err != nil:
		return nil, err
	case c.key != nil && form.empty > maxEmpty:
		return c.attach(m, o, "attached instead of rewritten: its empty lines would take much memory to sign")
	}
	out := &Content{
		Mode: Rewrite, Remark: unsigned(fields), eight: form.eight,
		parts: []piece{textPiece(c.rewritten(fields, m, o)), storedPiece(m.Body, body)},
	}
	if out.eight {
		out.instead = func() (*Content, error) {
			return c.attach(m, o, "attached instead of rewritten: it has 8-bit content, and the relay does not offer 8BITMIME")
		}
	}
	return c.signed(out)
}

// maxRewritten is the longest header that is rewritten, in octets. To parse and sign a longer one
// would take too much time and memory.
const maxRewritten = 256 << 10

// split returns the fields, and the offset at which the body begins. The "From " line of an mbox on
// top is not part of the message.
func split(all []message.Field) (fields []message.Field, body int64, why string) {
	for i, f := range all {
		body += int64(len(f.Raw))
		switch {
		case f.Name != "":
			fields = append(fields, f)
		case i == len(all)-1 && (len(f.Raw) == 0 || bytes.Equal(f.Raw, crlf)):
		case i == 0 && bytes.HasPrefix(f.Raw, []byte("From ")):
		default:
			return nil, 0, "its header has a line that is not a field"
		}
	}
	switch {
	case body > maxRewritten:
		return nil, 0, "its header is longer than 256 KiB"
	case len(fields) == 0:
		return nil, 0, "it has no header"
	case unwieldy(fields):
		return nil, 0, "its header has a field of too many lines"
	case slices.ContainsFunc(fields, unnameable):
		return nil, 0, "its header has a field whose name is too long to encode its value"
	}
	return fields, body, ""
}

// unwieldy reports whether it takes too long to read the header for a signature: the library copies
// a field again for each of its lines.
func unwieldy(fields []message.Field) bool {
	const enough = 2 << 30 // octets
	copied := 0
	for _, f := range fields {
		copied += bytes.Count(f.Raw, crlf) * len(f.Raw)
	}
	return copied > enough
}

// unnameable reports whether the field has to be encoded, and its name with the colon is longer
// than a line may be.
func unnameable(f message.Field) bool { return len(f.Name) >= maxLine && nonASCII(f.Raw) }

var crlf = []byte("\r\n")

// signing are the fields of signatures over the header. All of them cover From (RFC 6376 5.4). An
// ARC set is such a signature (RFC 8617 4.1).
var signing = map[string]bool{
	"dkim-signature": true, "domainkey-signature": true, "x-google-dkim-signature": true,
	"arc-seal": true, "arc-message-signature": true, "arc-authentication-results": true,
}

// dropped reports whether a new author makes the field untrue. These are the author, every
// signature, and the reverse-path: the server that delivers the message writes it again (RFC 5321
// 4.4).
func dropped(name string) bool {
	return signing[name] || name == "from" || name == "sender" || name == "return-path"
}

// unsigned is the remark about signatures that are removed; empty without any.
func unsigned(fields []message.Field) string {
	n := 0
	for _, f := range fields {
		if signing[f.Name] {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("without its signature fields (%d), which another From breaks", n)
}

// rewritten is the new header, with the empty line. Fields that are not about the author stay:
// Message-ID, References and List- fields, so that threads and filters keep working, and
// Auto-Submitted (RFC 3834 5). A message without Date or Message-ID gets one.
func (c *Composer) rewritten(fields []message.Field, m *message.Message, o Origin) string {
	var b strings.Builder
	b.WriteString(o.field())
	b.WriteString(field("From", c.sender(m.Header)))
	has := map[string]bool{}
	for _, f := range fields {
		has[f.Name] = true
		if kept := map[string]string{"from": "X-Original-From", "sender": "X-Original-Sender"}[f.Name]; kept != "" {
			b.WriteString(renamed(kept, f, m.Header))
		}
	}
	answered := len(m.Header.Addresses("Reply-To")) > 0
	if !answered { // there is no Reply-To, or it has no address
		b.WriteString(replyTo(m.Header))
	}
	if !has["date"] {
		b.WriteString(field("Date", date(o.Registered)))
	}
	if !has["message-id"] {
		b.WriteString(field("Message-ID", c.messageID("rewrite", o.Inbox, m.Fingerprint)))
	}
	for _, f := range fields {
		if !dropped(f.Name) && (answered || f.Name != "reply-to") {
			b.WriteString(inASCII(f, m.Header))
		}
	}
	b.WriteString("\r\n")
	return b.String()
}

// renamed keeps the value of a field under another name.
func renamed(name string, f message.Field, h message.Header) string {
	if !nonASCII(f.Raw) {
		_, value, _ := bytes.Cut(f.Raw, []byte(":"))
		return name + ":" + ended(string(value))
	}
	return field(name, words(h.TextOf(f)))
}

// ended is s with a line end. The last field of a message without a body may lack it.
func ended(s string) string { return strings.TrimSuffix(s, "\r\n") + "\r\n" }

// addressFields hold addresses, which have their own encoding.
var addressFields = map[string]bool{"to": true, "cc": true, "bcc": true, "reply-to": true}

// inASCII is the field unchanged, or with everything but ASCII encoded, so that every relay takes
// it.
func inASCII(f message.Field, h message.Header) string {
	if !nonASCII(f.Raw) {
		return ended(string(f.Raw))
	}
	name, _, _ := strings.Cut(string(f.Raw), ":")
	name = strings.TrimSpace(name)
	switch {
	case addressFields[f.Name]:
		return field(name, mailboxes(h.AddressesOf(f)))
	case f.Name == "content-type" || f.Name == "content-disposition":
		value := h.TextOf(f)
		if v, params, err := mime.ParseMediaType(value); err == nil {
			return field(name, mime.FormatMediaType(v, params)) // RFC 2231
		}
		return field(name, strings.Map(masked, value)) // the rest is needed to read the body
	case structuredFields[f.Name]:
		return field(name, strings.Map(masked, h.TextOf(f)))
	}
	return field(name, words(h.TextOf(f)))
}

// structuredFields are read by programs, which do not decode encoded words.
var structuredFields = map[string]bool{
	"content-transfer-encoding": true, "content-id": true, "mime-version": true, "date": true, "received": true,
	"message-id": true, "in-reply-to": true, "references": true,
}

func masked(r rune) rune {
	if r >= 0x80 {
		return '_'
	}
	return r
}

func nonASCII(b []byte) bool { return bytes.ContainsFunc(b, func(r rune) bool { return r >= 0x80 }) }
