package forward

import (
	"bytes"
	"mime"
	"net/mail"
	"regexp"
	"strings"

	"github.com/emersion/go-message/textproto"

	"postrider/internal/address"
	"postrider/internal/message"
)

// field is a header field with its line end, folded. The value is ASCII on one line. Below a long
// name it begins on a line of its own: the library panics when a name leaves no room beside it.
func field(name, value string) string {
	const long = 60
	if len(name) > long && value != "" {
		return name + ":\r\n" + strings.TrimPrefix(field("X", value), "X:")
	}
	var h textproto.Header
	var b bytes.Buffer
	h.Add(name, value)
	// Into memory, which never fails.
	_ = textproto.WriteHeader(&b, h)
	// The library writes the name in its own case. If the first word is too long for its line, it
	// fills the line up to 998 octets, but encoded words belong on short lines (RFC 2047 2).
	return name + strings.ReplaceAll(strings.TrimSuffix(b.String()[len(name):], "\r\n"), "?= =?", "?=\r\n =?")
}

// maxWords is how many characters of a stranger's text a composed field takes.
const maxWords = 500

// words is unstructured text, in encoded words where that is needed (RFC 2047).
func words(s string) string { return mime.QEncoding.Encode("utf-8", literal(s)) }

// literal keeps decoded text that looks like an encoded word from being read as one.
func literal(s string) string { return strings.ReplaceAll(spaced(s), "=?", "= ?") }

// spaced is s on one line with single spaces. Folded, a run of spaces would become a line of its
// own, which a field may not have (RFC 5322 3.2.2).
func spaced(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }), " ")
}

// cutTo is s with at most that many characters, and a mark that it was cut. ASCII stays ASCII, for
// which no encoded words are needed.
func cutTo(s string, limit int) string {
	n := 0
	for i := range s {
		if n++; n <= limit {
			continue
		}
		if nonASCII([]byte(s[:i])) {
			return s[:i] + "…"
		}
		return s[:i] + "..."
	}
	return s
}

// mailbox is an address of a header (RFC 5322 3.4). An invalid address, or one that needs SMTPUTF8,
// becomes a group without members that shows it (RFC 6857 3.1.7).
func mailbox(a message.Address) string {
	p, err := address.Parse(address.Quoted(a.Addr))
	switch {
	case err != nil || p.UTF8:
		return phrase(strings.TrimSpace(a.Name+" "+a.Addr)) + " :;" // a space ends an encoded word (RFC 2047 5)
	case a.Name == "":
		return p.Wire
	}
	return phrase(a.Name) + " <" + p.Wire + ">"
}

// phrase is a display name: an atom, a quoted string or encoded words.
func phrase(name string) string {
	const at = " <a@a>"
	a := mail.Address{Name: literal(cutTo(name, maxWords)), Address: "a@a"}
	return strings.TrimSuffix(a.String(), at)
}

func mailboxes(list []message.Address) string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = mailbox(a)
	}
	return strings.Join(out, ", ")
}

var msgID = regexp.MustCompile(`<[!-;=?-~]{1,250}>`)

// thread are the identifiers of a message and of those that it refers to, the latest last (RFC 5322
// 3.6.4). Of a long thread it keeps the first and the last ones.
func thread(h message.Header) []string {
	const first, last = 1, 20
	ids := msgID.FindAllString(h.Get("References"), -1)
	if len(ids) == 0 {
		ids = msgID.FindAllString(h.Get("In-Reply-To"), 1)
	}
	if len(ids) > first+last {
		ids = append(ids[:first:first], ids[len(ids)-last:]...)
	}
	return append(ids, msgID.FindAllString(h.Get("Message-ID"), 1)...)
}
