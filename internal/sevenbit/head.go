package sevenbit

import (
	"bytes"
	"mime"
	"regexp"
	"strings"

	"postrider/internal/message"
)

// head is what the header of a part says of its content.
type head struct {
	kind     string // the media type; lower case; empty when readers disagree on what it is if it does not say
	boundary string
	encoding string // lower case; empty when it does not say
	signed   bool   // by DKIM or ARC, over what is below
	mime     bool   // it says that this means something (RFC 2045 4)
	fault    string // what keeps readers from agreeing on it

	top    bool  // of all: not in the walker's octets
	at, to int64 // where the field of the encoding stands, or could be added
}

// maxValue is the longest field, in octets, that anything is read from.
const maxValue = 16 << 10

// headOf is the head that fields make.
func headOf(fields []message.Field) head {
	h := head{top: true, kind: "text/plain"}
	seen := map[string]bool{}
	for _, f := range fields {
		if h.add(f.Name, f.Raw, seen); fieldName(f.Raw) == "" { // a space before the colon
			h.fault = noField
		}
	}
	return h
}

const noField = "it has a part whose header has a line that is no field"

// add reads a field, as it stands.
func (h *head) add(name string, raw []byte, seen map[string]bool) {
	_, value, _ := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", ""), ":")
	value = strings.TrimSpace(value)
	switch name {
	case "content-type":
		h.setKind(value)
	case encodingName:
		h.encoding = strings.ToLower(value)
	case "dkim-signature", "arc-message-signature":
		h.signed = true
		return
	case mimeName:
		h.mime = true
		return
	default:
		return
	}
	switch {
	case seen[name]:
		h.fault = "it has a part with two fields " + name
	case len(raw) > maxValue:
		h.fault = "it has a part whose field " + name + " is very long"
	}
	seen[name] = true
}

// mediaType is a type that all readers see as such (RFC 2045 5.1).
var mediaType = regexp.MustCompile("^[a-z0-9!#$%&'*+.^_`{|}~-]+/[a-z0-9!#$%&'*+.^_`{|}~-]+$")

// setKind reads the type also where its parameters break the grammar: only those of multiparts matter.
func (h *head) setKind(value string) {
	kind, params, err := mime.ParseMediaType(value)
	if err != nil {
		kind, _, _ = strings.Cut(value, ";")
		kind, params = strings.ToLower(strings.TrimSpace(kind)), nil
	}
	if h.kind, h.boundary = kind, params["boundary"]; !mediaType.MatchString(kind) {
		h.fault = "it has a part whose Content-Type cannot be read"
	}
	if manyForms.MatchString(value) {
		h.boundary = ""
	}
}

// manyForms finds a boundary that may be in pieces, or have a charset (RFC 2231 3 and 4), or a quoted character: not all readers
// make the same of it.
var manyForms = regexp.MustCompile(`(?i)boundary\*|\\`)

// header reads the header of a part, up to and with the empty line, or up to a delimiter. The part is of that kind if it does
// not say.
func (w *walker) header(kind string) head {
	h := head{kind: kind}
	seen := map[string]bool{}
	var name string
	var raw []byte
	from := w.at
	flush := func() {
		if h.add(name, raw, seen); name == encodingName {
			h.at, h.to = from, w.at
		}
	}
	for w.inside() && !bytes.Equal(w.line, crlf) {
		if w.line[0] != ' ' && w.line[0] != '\t' {
			flush()
			name, raw, from = fieldName(w.line), nil, w.at
		}
		if name == "" {
			h.fault = noField
		}
		if len(raw) <= maxValue {
			raw = append(raw, w.line...)
		}
		w.keep("the header of a part has 8-bit octets")
	}
	flush()
	if h.at == h.to {
		h.at, h.to = w.at, w.at
	}
	if w.inside() {
		w.next()
	}
	return h
}

var crlf = []byte("\r\n")

// fieldName is the name of the field that a line begins, in lower case; empty when it begins none (RFC 5322 2.2).
func fieldName(line []byte) string {
	name, _, found := bytes.Cut(line, []byte(":"))
	if !found || bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return ""
	}
	return strings.ToLower(string(name))
}
