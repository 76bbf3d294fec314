package forward

import (
	"bytes"
	"fmt"
	"mime"
	"net/url"
	"regexp"
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
	case nonASCII([]byte(m.Header.Boundary())):
		return c.attach(m, o, "attached instead of rewritten: the boundary between its parts is not ASCII")
	case c.key != nil && form.empty > maxEmpty:
		return c.attach(m, o, "attached instead of rewritten: its empty lines would take much memory to sign")
	}
	out := &Content{
		Mode: Rewrite, Remark: unsigned(fields), eight: form.eight,
		parts: []piece{textPiece(c.rewritten(fields, m, o)), storedPiece(m.Body, body)},
	}
	if out.eight {
		out.instead = func() (*Content, error) {
			return c.attach(m, o, "attached instead of rewritten: "+
				"it has 8-bit content, and the relay does not offer 8BITMIME")
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
	case message.GoesOn(all):
		return nil, 0, "its header has too many fields"
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
		lines, octets := bytes.Count(f.Raw, crlf), len(f.Raw)
		if !fits(string(f.Raw)) { // then it is written again, and encoded words are up to four times as long
			lines, octets = octets/20, 4*octets
		}
		copied += lines * octets
	}
	return copied > enough
}

// unnameable reports whether the field has to be written again, and its name with the colon is
// longer than a line may be.
func unnameable(f message.Field) bool { return len(f.Name) >= maxLine && !fits(string(f.Raw)) }

var crlf = []byte("\r\n")

// signing are the fields of signatures over the header. All of them cover From (RFC 6376 5.4). An
// ARC set is such a signature (RFC 8617 4.1).
var signing = map[string]bool{
	"dkim-signature": true, "domainkey-signature": true, "x-google-dkim-signature": true,
	"arc-seal": true, "arc-message-signature": true, "arc-authentication-results": true,
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

// rewritten is the new header, with the empty line. What a new author makes untrue is left out:
// every signature, and the reverse-path, which the server that delivers the message writes again
// (RFC 5321 4.4). Fields that are not about the author stay: Message-ID, References and List-
// fields, so that threads and filters keep working, and Auto-Submitted (RFC 3834 5). A message
// without Date or Message-ID gets one. Of fields that a message may have once, the topmost stays.
func (c *Composer) rewritten(fields []message.Field, m *message.Message, o Origin) string {
	var b, rest strings.Builder
	b.WriteString(o.field())
	b.WriteString(field("From", c.sender(m.Header)))
	has := map[string]bool{}
	for _, f := range fields {
		original := originalName(f.Name)
		switch {
		case f.Name == "from" || f.Name == "sender":
			b.WriteString(inASCII(original, f, m.Header))
		case signing[f.Name] || f.Name == "return-path" || saysNothing(f, m.Header):
		case has[f.Name] && original != "":
			rest.WriteString(inASCII(original, f, m.Header))
		default:
			has[f.Name] = true
			name, _, _ := strings.Cut(string(f.Raw), ":")
			rest.WriteString(inASCII(name, f, m.Header))
		}
	}
	if !has["reply-to"] {
		b.WriteString(replyTo(m.Header))
	}
	if !has["date"] {
		b.WriteString(field("Date", date(o.Registered)))
	}
	if !has["message-id"] {
		b.WriteString(field("Message-ID", c.messageID("rewrite", o.Inbox, m.Fingerprint)))
	}
	return b.String() + rest.String() + "\r\n"
}

// onceRewritten are unique, and those about the body that a message may have once (RFC 2045 3).
var onceRewritten = append(slices.Clone(unique), "MIME-Version", "Content-Type", "Content-Transfer-Encoding")

// originalName is where the value of a field is kept that a message may have once; empty for
// others.
func originalName(name string) string {
	for _, once := range onceRewritten {
		if strings.EqualFold(once, name) {
			return "X-Original-" + once
		}
	}
	return ""
}

// saysNothing reports whether a field is treated as missing, because it has no value that counts.
func saysNothing(f message.Field, h message.Header) bool {
	switch f.Name {
	case "date", "message-id":
		return strings.Trim(h.TextOf(f), "<> ") == ""
	case "mime-version", "content-type", "content-transfer-encoding":
		return h.TextOf(f) == ""
	case "reply-to":
		list, _ := h.AddressesOf(f)
		return len(list) == 0
	}
	return false
}

// fits reports whether a field is ASCII and its lines are short enough (RFC 5322 2.1.1).
func fits(raw string) bool {
	for line := range strings.SplitSeq(raw, "\r\n") {
		if len(line) > maxLine {
			return false
		}
	}
	return !nonASCII([]byte(raw))
}

// ended is s with a line end. The last field of a message without a body may lack it.
func ended(s string) string { return strings.TrimSuffix(s, "\r\n") + "\r\n" }

// addressFields hold addresses, which have their own encoding.
var addressFields = map[string]bool{
	"to": true, "cc": true, "bcc": true, "reply-to": true, "mail-followup-to": true, "errors-to": true,
	"resent-from": true, "resent-sender": true, "resent-to": true, "resent-cc": true, "resent-bcc": true,
	"disposition-notification-to": true, "return-receipt-to": true,
}

// inASCII is the field under that name, with its value unchanged, or with everything but ASCII
// encoded and its lines folded, so that every relay takes it.
func inASCII(name string, f message.Field, h message.Header) string {
	_, value, _ := strings.Cut(string(f.Raw), ":")
	name = strings.TrimSpace(name) // some verifiers cannot read a header with a space before a colon
	if raw := name + ":" + ended(value); fits(raw) {
		return raw
	}
	switch {
	case addressFields[f.Name]:
		return field(name, addressList(f, h))
	case f.Name == "content-type" || f.Name == "content-disposition":
		text := h.TextOf(f)
		v, params, err := mime.ParseMediaType(text)
		if err == nil && !strings.Contains(text, "*=") { // it drops a parameter in a charset that it does not know
			return field(name, mime.FormatMediaType(v, params)) // RFC 2231
		}
		return field(name, strings.Map(masked, text)) // the rest is needed to read the body
	case !nonASCII(f.Raw):
		return field(name, spaced(strings.ReplaceAll(value, "><", "> <"))) // as in References
	case strings.HasPrefix(f.Name, "list-"):
		return field(name, listValue(h.TextOf(f)))
	case structuredFields[f.Name]:
		return field(name, strings.Map(masked, h.TextOf(f)))
	}
	return field(name, words(h.TextOf(f)))
}

// addressList is the value of an address field. What cannot be read as addresses stays as the name
// of a group without members, in front of the addresses in it.
func addressList(f message.Field, h message.Header) string {
	list, valid := h.AddressesOf(f)
	text := h.TextOf(f)
	if valid && len(list) > 0 || text == "" {
		return mailboxes(list)
	}
	return strings.TrimSuffix(phrase(text)+" :;, "+mailboxes(list), ", ")
}

var (
	inAngles = regexp.MustCompile(`<[^<>]*>`)
	eightBit = regexp.MustCompile(`[^\x00-\x7f]+`)
)

// listValue is the value of a List- field. Programs read what is in angle brackets: a URL (RFC
// 2369), or the identifier of the list (RFC 2919).
func listValue(s string) string {
	var out []string
	last := 0
	for _, m := range append(inAngles.FindAllStringIndex(s, -1), []int{len(s), len(s)}) {
		if text := strings.TrimSpace(s[last:m[0]]); text != "" {
			out = append(out, words(text))
		}
		out = append(out, eightBit.ReplaceAllStringFunc(s[m[0]:m[1]], url.QueryEscape))
		last = m[1]
	}
	return strings.TrimSpace(strings.Join(out, " "))
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
