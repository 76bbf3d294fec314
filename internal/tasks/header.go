package tasks

import (
	"encoding/json"

	"postrider/internal/message"
)

// Header has the fields of a message's header, for events that include them. Its JSON is stored,
// and is what the events contain.
type Header struct {
	Fields []HeaderField `json:"header"`     // in their order
	Cut    bool          `json:"header_cut"` // fields are missing at the end: they would be too many
}

// HeaderField is one field.
type HeaderField struct {
	Name  string `json:"name"`  // in lower case
	Value string `json:"value"` // on one line, not decoded
}

// maxHeader bounds the fields of a Header, in octets of JSON.
const maxHeader = 64 << 10

// HeaderOf is the header of a message. It ends before the first field that does not fit.
func HeaderOf(h message.Header) *Header {
	out, size := &Header{Fields: []HeaderField{}}, 0
	for name, value := range h.All() {
		f := HeaderField{name, value}
		text, err := json.Marshal(f)
		if size += len(text) + 1; err != nil || size > maxHeader {
			out.Cut = true
			break
		}
		out.Fields = append(out.Fields, f)
	}
	return out
}
