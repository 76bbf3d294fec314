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

// looksLikeAddress finds what a person would take for an address in a field that no parser can read.
var looksLikeAddress = regexp.MustCompile(`[^\s<>(),;:"\[\]]+@[^\s<>(),;:"\[\]]+`)

// Addresses are the mailboxes of all fields of that name, groups flattened. A field that breaks the grammar (RFC 5322
// 3.4) yields whatever in it looks like an address.
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
		for _, a := range looksLikeAddress.FindAllString(raw, -1) {
			out = append(out, Address{Addr: strings.Trim(oneLine(a), ".'")})
		}
	}
	for _, a := range list {
		out = append(out, Address{Name: oneLine(a.Name), Addr: oneLine(a.Address)})
	}
	return out
}

// anyCharset never fails: an unknown charset in a display name must not cost the address behind it.
func anyCharset(label string, r io.Reader) (io.Reader, error) {
	b, err := io.ReadAll(r)
	return strings.NewReader(toUTF8(b, label)), err
}
