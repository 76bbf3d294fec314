package message

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"strings"
	"time"
)

// How much of a header is parsed. The rest is still forwarded. Short fields take many times
// their size in memory, and many messages are in memory at once.
const (
	maxHeader = 1 << 20 // octets
	maxFields = 10_000
)

// readHeader reads up to and including the empty line. It keeps a line that is no field (an mbox
// "From " line, a missing colon) as junk, and still finds the fields after it.
func readHeader(r interface {
	ReadSlice(delim byte) (line []byte, err error)
},
) ([]Field, error) {
	var fields []Field
	for size := 0; size < maxHeader && len(fields) < maxFields; {
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		size += len(line)
		last := len(fields) - 1
		switch {
		case len(line) > 0 && last >= 0 && (line[0] == ' ' || line[0] == '\t' || !endsLine(fields[last].Raw)):
			fields[last].Raw = append(fields[last].Raw, line...)
		case len(line) == 0 || bytes.Equal(line, crlf):
			return append(fields, Field{Raw: bytes.Clone(line)}), nil
		default:
			fields = append(fields, Field{Name: fieldName(line), Raw: bytes.Clone(line)})
		}
	}
	return fields, nil
}

func endsLine(raw []byte) bool { return bytes.HasSuffix(raw, crlf) }

// fieldName returns the lower-case name of the field that starts with line; empty when line is no
// field (RFC 5322 2.2). White space before the colon is obsolete syntax, but allowed (RFC 5322
// 4.5).
func fieldName(line []byte) string {
	name, _, ok := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t")
	if !ok || len(name) == 0 {
		return ""
	}
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return ""
		}
	}
	return strings.ToLower(string(name))
}

// Header is the parsed header: every field in order, values unfolded.
type Header struct {
	fields  []headerField
	charset string // of the body; parsed once, because a hostile header could need it very often
}

type headerField struct{ name, value string }

func newHeader(fields []Field) Header {
	var h Header
	for _, f := range fields {
		if f.Name != "" {
			h.fields = append(h.fields, headerField{f.Name, unfolded(f.Raw)})
		}
	}
	_, params := h.contentType()
	h.charset = params["charset"]
	return h
}

// unfolded returns the value of a raw field, on one line.
func unfolded(raw []byte) string {
	_, v, _ := bytes.Cut(raw, []byte(":"))
	return strings.TrimSpace(string(bytes.ReplaceAll(v, crlf, nil)))
}

// All are the names of all fields, in lower case, and their raw values, unfolded, in order.
func (h Header) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, f := range h.fields {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
}

// Values returns the raw values of all fields of that name, unfolded, in order. Names are
// case-insensitive.
func (h Header) Values(name string) []string {
	var out []string
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			out = append(out, f.value)
		}
	}
	return out
}

// Get returns the raw value of the first field of that name; empty when there is none.
func (h Header) Get(name string) string {
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

// Text returns the first field of that name as UTF-8, with encoded words decoded (RFC 2047).
func (h Header) Text(name string) string { return h.decode(h.Get(name)) }

// Texts returns all fields of that name, decoded as by Text, for comparing: without the invisible
// characters that Content leaves out, too.
func (h Header) Texts(name string) []string {
	out := h.Values(name)
	for i, v := range out {
		out[i] = strings.TrimSpace(Visible(h.decode(v)))
	}
	return out
}

// Date returns the Date field in UTC; zero as for ParseDate.
func (h Header) Date() time.Time { return ParseDate(h.Get("Date")) }

// Received returns when the last server received the message: the date of the topmost Received
// field with a valid date (RFC 5321 4.4), in UTC; zero when there is none.
func (h Header) Received() time.Time {
	for _, v := range h.Values("Received") {
		if t := ParseDate(strings.TrimSpace(v[strings.LastIndexByte(v, ';')+1:])); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// Has8bit reports whether any field has an octet above 127. Such a field is UTF-8 (RFC 6532) or
// invalid.
func (h Header) Has8bit() bool {
	for _, f := range h.fields {
		if has8bit([]byte(f.value)) {
			return true
		}
	}
	return false
}
