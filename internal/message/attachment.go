package message

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"strings"

	gomessage "github.com/emersion/go-message"
)

// HasAttachment reports whether any part is an attachment: its disposition says so (RFC 2183), or it has a file name
// and is not inline text. A message that cannot be parsed, or whose parts are nested deeper than any person nests
// them, has none. It reads the whole message.
func (m *Message) HasAttachment() (has bool) {
	// The library meets octets from strangers here, before the message is registered. A message that it cannot bear
	// must not end the pass.
	defer func() {
		if recover() != nil {
			has = false
		}
	}()
	e, err := gomessage.Read(bufio.NewReader(m.Body.Reader()))
	if e == nil || (err != nil && !gomessage.IsUnknownCharset(err) && !gomessage.IsUnknownEncoding(err)) {
		return false
	}
	found := errors.New("found")
	err = e.Walk(func(path []int, part *gomessage.Entity, err error) error {
		if len(path) > maxDepth {
			return io.EOF
		}
		if part != nil && isAttachment(part.Header) {
			return found
		}
		if err != nil && !gomessage.IsUnknownCharset(err) && !gomessage.IsUnknownEncoding(err) {
			return io.EOF
		}
		return nil
	})
	return errors.Is(err, found)
}

const maxDepth = 30

func isAttachment(h gomessage.Header) bool {
	disposition, dparams, _ := mime.ParseMediaType(h.Get("Content-Disposition"))
	mediaType, tparams, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if disposition == "attachment" {
		return true
	}
	named := dparams["filename"] != "" || tparams["name"] != ""
	inlineText := disposition == "inline" && strings.HasPrefix(mediaType, "text/")
	return named && !inlineText
}
