package testserver

import (
	"errors"
	"fmt"
	"io"
	"strings"

	gomessage "github.com/emersion/go-message"
)

// Leaves are what go-message finds in a message: for each part that has none in it, its place, the
// fields of its header other than what tells its encoding, and its content, decoded. A message in a
// message is taken apart, too. For a part that cannot be read there is
// the reason in its place.
func Leaves(raw string) []string {
	var out []string
	leaves(strings.NewReader(raw), "", func(s string) { out = append(out, s) })
	return out
}

func leaves(r io.Reader, place string, add func(string)) {
	e, err := gomessage.Read(r)
	if err != nil && !gomessage.IsUnknownCharset(err) {
		add(fmt.Sprintf("%s: %v", place, err))
		return
	}
	entity(e, place, add)
}

func entity(e *gomessage.Entity, place string, add func(string)) {
	kind, _, _ := e.Header.ContentType()
	switch parts := e.MultipartReader(); {
	case parts != nil:
		for n := 1; ; n++ {
			part, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !gomessage.IsUnknownCharset(err) {
				add(fmt.Sprintf("%s/%d: %v", place, n, err))
				return
			}
			entity(part, fmt.Sprintf("%s/%d", place, n), add)
		}
	case kind == "message/rfc822":
		leaves(e.Body, place+"/message", add)
	default:
		b, err := io.ReadAll(e.Body)
		add(fmt.Sprintf("%s: %s\n\n%s %v", place, fields(e.Header), b, err))
	}
}

func fields(h gomessage.Header) string {
	var b strings.Builder
	for f := h.Fields(); f.Next(); {
		if name := strings.ToLower(f.Key()); name != "content-transfer-encoding" && name != "mime-version" {
			_, _ = fmt.Fprintf(&b, "%s: %s\n", name, f.Value())
		}
	}
	return b.String()
}
