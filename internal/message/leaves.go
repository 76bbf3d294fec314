package message

import (
	"context"
	"strings"
)

// Part is a part of a message that is a text, or a message itself, such as a report has it.
type Part struct {
	MediaType string            // lower case; text/plain when the part names none
	Params    map[string]string // of the media type; their names are lower case
	Text      string            // UTF-8, with LF between lines, without the markup of HTML; at most 1 MiB
}

// maxPart is how much of a part Parts reads, in octets before they are decoded.
const maxPart = 1 << 20

// Parts decodes the parts of a message of the types text and message, in order. Of a part it reads
// 1 MiB, and of all together 4 MiB; what exceeds that, and what cannot be decoded, is left out. The
// error is that of reading, or of ctx.
func (m *Message) Parts(ctx context.Context) ([]Part, error) {
	var parts []Part
	r := &contentReader{raw: maxRaw}
	r.leaf = func(h Header, p part) {
		if !strings.HasPrefix(p.mediaType, "text/") && !strings.HasPrefix(p.mediaType, "message/") {
			return
		}
		octets, _ := r.octets(maxPart)
		parts = append(parts, Part{MediaType: p.mediaType, Params: p.params, Text: r.decoded(h, p, octets)})
	}
	if r.read(ctx, m); r.lines == nil { // HeaderOnly
		return nil, ctx.Err()
	}
	return parts, r.lines.failed()
}
