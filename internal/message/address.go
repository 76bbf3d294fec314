package message

import (
	"io"
	"mime"
	"net/mail"
	"regexp"
	"strings"
)

// Address is one mailbox of an address field: the display name decoded, the address as written (local@domain), both
// without control characters.
type Address struct{ Name, Addr string }

// What a person would take for an address in a field that no parser can read, what stands there for people alone (RFC 5322
// 3.2.2, 3.2.4), and where an address begins that has a name beside it.
var (
	looksLikeAddress = regexp.MustCompile(`[^\s<>(),;:"\[\]]+@[^\s<>(),;:"\[\]]+`)
	forPeople        = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\([^()]*\)`)
	inAngles         = regexp.MustCompile(`<\s*` + looksLikeAddress.String())
)

// Addresses are the mailboxes of all fields of that name, groups flattened. A field that breaks the grammar (RFC 5322
// 3.4) yields whatever in it looks like an address, but none from the name beside one: by that nobody is to be taken for somebody
// else.
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
		return guessed(raw)
	}
	for _, a := range list {
		out = append(out, Address{Name: oneLine(a.Name), Addr: oneLine(a.Address)})
	}
	return out
}

func guessed(raw string) (out []Address) {
	for one := range strings.FieldsFuncSeq(forPeople.ReplaceAllString(raw, " "), func(r rune) bool { return r == ',' || r == ';' }) {
		found := inAngles.FindAllString(one, -1)
		if len(found) == 0 {
			found = looksLikeAddress.FindAllString(one, -1)
		}
		for _, a := range found {
			out = append(out, Address{Addr: strings.Trim(oneLine(strings.TrimLeft(a, "< \t")), ".'")})
		}
	}
	return out
}

// anyCharset never fails: an unknown charset in a display name must not cost the address behind it.
func anyCharset(label string, r io.Reader) (io.Reader, error) {
	b, err := io.ReadAll(r)
	return strings.NewReader(toUTF8(b, label)), err
}
