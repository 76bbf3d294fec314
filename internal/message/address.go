package message

import (
	"io"
	"mime"
	"net/mail"
	"regexp"
	"strings"
)

// Address is one mailbox of an address field: the decoded display name and the address
// (local@domain), both without control characters.
type Address struct{ Name, Addr string }

// For fields that the parser rejects: what looks like an address, quoted strings and comments (RFC
// 5322 3.2.2, 3.2.4), and an address in angle brackets.
var (
	looksLikeAddress = regexp.MustCompile(`[^\s<>(),;:"\[\]]+@[^\s<>(),;:"\[\]]+`)
	quotedOrComment  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\([^()]*\)`)
	inAngles         = regexp.MustCompile(`<\s*` + looksLikeAddress.String())
)

// Addresses returns the mailboxes of all fields of that name, with groups flattened. For a field
// that breaks the grammar (RFC 5322 3.4) it returns whatever looks like an address. It never takes
// an address from a display name, because a sender could use that to pose as somebody else.
func (h Header) Addresses(name string) []Address {
	var out []Address
	for _, raw := range h.Values(name) {
		out = append(out, h.addresses(raw)...)
	}
	return out
}

func (h Header) addresses(raw string) (out []Address) {
	raw = h.plain(raw)
	parser := mail.AddressParser{WordDecoder: &mime.WordDecoder{CharsetReader: anyCharset}}
	list, err := parser.ParseList(raw)
	if err != nil {
		return guessAddresses(raw)
	}
	for _, a := range list {
		out = append(out, Address{Name: withoutControls(a.Name), Addr: withoutControls(a.Address)})
	}
	return out
}

func guessAddresses(raw string) (out []Address) {
	separator := func(r rune) bool { return r == ',' || r == ';' }
	for one := range strings.FieldsFuncSeq(quotedOrComment.ReplaceAllString(raw, " "), separator) {
		found := inAngles.FindAllString(one, -1)
		if len(found) == 0 {
			found = looksLikeAddress.FindAllString(one, -1)
		}
		for _, a := range found {
			out = append(out, Address{Addr: strings.Trim(withoutControls(strings.TrimLeft(a, "< \t")), ".'")})
		}
	}
	return out
}

// anyCharset never fails on an unknown charset: the address matters even when its display name
// cannot be decoded.
func anyCharset(label string, r io.Reader) (io.Reader, error) {
	b, err := io.ReadAll(r)
	return strings.NewReader(toUTF8(b, label)), err
}
