package message

import "bytes"

// Field is one header field as it stands in the message, with folding and line ends. Name is in
// lower case; it is empty for a line that is no field.
type Field struct {
	Name string
	Raw  []byte
}

// junk reports whether a line is neither a field nor the empty line.
func (f Field) junk() bool { return f.Name == "" && len(bytes.TrimSpace(f.Raw)) > 0 }

// GoesOn reports whether these are only the beginning of a header: it has more than is parsed.
func GoesOn(fields []Field) bool {
	last := fields[len(fields)-1]
	return last.Name != "" || last.junk()
}

// Fields reads the header again and returns everything before the body, in order. The last element
// is the empty line, without a name, unless the header is longer than 1 MiB or 10,000 fields. If
// the message ends before the empty line, the last element has no octets.
func (m *Message) Fields() ([]Field, error) { return readHeader(m.Body.buffered()) }

// TextOf is Text for one field of this header.
func (h Header) TextOf(f Field) string { return h.decode(unfolded(f.Raw)) }

// AddressesOf is Addresses for one field of this header. valid is false when the field breaks the
// grammar.
func (h Header) AddressesOf(f Field) (list []Address, valid bool) {
	return h.addresses(unfolded(f.Raw))
}
