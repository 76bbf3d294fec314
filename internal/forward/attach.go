package forward

import (
	"bytes"
	"mime"
	"mime/quotedprintable"
	"strings"
	"unicode"

	"postrider/internal/message"
)

// attach makes a new message with a note, and the original in it.
//
// The original is message/rfc822 if that type can carry it: it allows only the encodings 7bit, 8bit
// and binary (RFC 2046 5.2.1). Otherwise it is application/octet-stream in base64, named .eml:
// nothing on the way changes that, and mail programs open it. That is the case if the original
// would not arrive unchanged in 7bit or 8bit (long lines, NUL), if the relay lacks 8BITMIME, if
// signing would take much memory, or if servers on the way would repair it (an 8-bit header, no
// header, header lines that are not fields).
func (c *Composer) attach(m *message.Message, o Origin, remark string) (*Content, error) {
	form, err := shapeOf(m.Body.Reader())
	if err != nil {
		return nil, err
	}
	tidy, err := tidyHeader(m)
	if err != nil {
		return nil, err
	}
	if form.unfit() != "" || c.key != nil && form.empty > maxEmpty || m.Header.Has8bit() || !tidy {
		return c.attached(m, o, remark, true, false)
	}
	out, err := c.attached(m, o, remark, false, form.eight)
	if err == nil && form.eight {
		out.instead = func() (*Content, error) { return c.attached(m, o, remark, true, false) }
	}
	return out, err
}

// tidyHeader reports whether the header has nothing but fields as in RFC 5322 2.2. Relays look into
// message/rfc822: Postfix removes the space before a colon (obsolete, 4.5), and puts an empty line
// before a line that is not a field.
func tidyHeader(m *message.Message) (bool, error) {
	fields, err := m.Fields()
	if err != nil {
		return false, err
	}
	for i, f := range fields {
		name, _, _ := bytes.Cut(f.Raw, []byte(":"))
		ends := i == len(fields)-1 && (bytes.Equal(f.Raw, crlf) || i > 0 && len(f.Raw) == 0)
		if !ends && (f.Name == "" || len(name) != len(f.Name)) {
			return false, nil
		}
	}
	return !message.GoesOn(fields), nil
}

func (c *Composer) attached(m *message.Message, o Origin, remark string, encode, eight bool) (*Content, error) {
	note, why, err := c.configuredNote(m.Header, o)
	if err != nil {
		return nil, err
	}
	remark = strings.Trim(remark+"; "+why, "; ")
	boundary := "postrider-" + digest("boundary", o.Inbox, o.TaskID, m.Fingerprint)
	encoding := ""
	if eight { // a multipart says what its parts hold (RFC 2045 6.4)
		encoding = field("Content-Transfer-Encoding", "8bit")
	}
	mixed := mime.FormatMediaType("multipart/mixed", map[string]string{"boundary": boundary})
	head := c.composed(m, o, "attach", "Fwd: ") + encoding + field("Content-Type", mixed) + "\r\n" +
		"--" + boundary + "\r\n" + note + "\r\n--" + boundary + "\r\n" + partHeader(fileName(m), encode, eight) + "\r\n"
	original := storedPiece(m.Body, 0)
	if encode {
		original = base64Piece(m.Body)
	}
	return c.signed(&Content{
		Mode: Attach, Remark: remark, eight: eight,
		parts: []piece{textPiece(head), original, textPiece("\r\n--" + boundary + "--\r\n")},
	})
}

// composed is the header of a new message, up to its Content-Type. The message is in the author's
// thread, an answer goes to the author, and no automatic answer is wanted (RFC 3834 5). It has no
// List- fields: the list did not send it (RFC 2369 2).
func (c *Composer) composed(m *message.Message, o Origin, kind, prefix string) string {
	h := m.Header
	var b strings.Builder
	b.WriteString(o.field() + traces(h))
	b.WriteString(field("From", c.sender(h)))
	b.WriteString(replyTo(h))
	b.WriteString(field("To", mailbox(message.Address{Addr: o.Inbox})))
	b.WriteString(field("Subject", words(cutTo(strings.TrimSpace(prefix+m.Subject()), maxWords))))
	b.WriteString(field("Date", date(o.Registered)))
	b.WriteString(field("Message-ID", c.messageID(kind, o.identity(m)...)))
	if ids := thread(h); len(ids) > 0 {
		b.WriteString(field("In-Reply-To", ids[len(ids)-1]))
		b.WriteString(field("References", strings.Join(ids, " ")))
	}
	b.WriteString(field("Auto-Submitted", "auto-generated"))
	b.WriteString(field("MIME-Version", "1.0"))
	return b.String()
}

// identity distinguishes messages: by their content, or by the task when the content is not known.
func (o Origin) identity(m *message.Message) []any {
	if m.HeaderOnly {
		return []any{o.Inbox, o.TaskID, m.Fingerprint}
	}
	return []any{o.Inbox, m.Fingerprint}
}

func partHeader(name string, encode, eight bool) string {
	kind, encoding := "message/rfc822", "7bit"
	switch {
	case encode:
		kind, encoding = "application/octet-stream", "base64"
	case eight:
		encoding = "8bit"
	}
	params := map[string]string{}
	if encode {
		params["name"] = name
	}
	return field("Content-Type", mime.FormatMediaType(kind, params)) +
		field("Content-Transfer-Encoding", encoding) +
		field("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
}

// fileName is made from the subject, for readers who save the attachment.
func fileName(m *message.Message) string {
	const longest = 40
	name := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_", r) {
			return r
		}
		return ' '
	}, m.Subject())
	runes := []rune(strings.Join(strings.Fields(name), " "))
	name = strings.TrimSpace(string(runes[:min(len(runes), longest)]))
	if name == "" {
		name = "message"
	}
	return name + ".eml"
}

// notePart is a text as a part of a message, with the header of that part.
func notePart(s string) string {
	var b bytes.Buffer
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(s)) // into memory
	_ = w.Close()
	return "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" + b.String()
}
