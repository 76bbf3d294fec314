package smtpsink

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
)

// data answers DATA, reads the message, and answers its dot.
func (c *session) data() error {
	ready := false
	usual := reply{code: 354, text: "end with a dot", then: func() { ready = true }}
	switch {
	case c.msg == nil:
		usual = reply{code: 503, text: "5.5.1 MAIL first"}
	case len(c.msg.To) == 0:
		usual = reply{code: 554, text: "5.5.1 no valid recipients"}
	}
	if err := c.answer("data", "", usual); err != nil || !ready {
		return err
	}
	if err := c.readMessage(); err != nil {
		return err
	}
	msg := *c.msg
	usual = reply{code: 250, text: "2.0.0 accepted", then: func() { c.s.record(msg) }}
	if c.tooLarge(msg.Size) {
		usual = reply{code: 552, text: "5.3.4 message too large"}
	}
	err := c.answer("dot", "", usual)
	c.msg = nil
	return err
}

// readMessage reads up to <CRLF>.<CRLF> and undoes the dot-stuffing (RFC 5321 4.5.2). Nothing else
// ends a message, a bare LF least of all.
func (c *session) readMessage() error {
	msg, hash := c.msg, sha256.New()
	atLineStart, inHeader, afterCR := true, true, false
	for {
		chunk, err := c.r.ReadSlice('\n') // a line, or a piece of a long one
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if atLineStart && chunk[0] == '.' {
			if string(chunk) == ".\r\n" {
				break
			}
			chunk = chunk[1:]
		}
		if inHeader {
			msg.Header = append(msg.Header, chunk...)
			inHeader = !atLineStart || string(chunk) != "\r\n"
		}
		if c.s.opts.KeepData {
			msg.Data = append(msg.Data, chunk...)
		}
		hash.Write(chunk)
		msg.Size += int64(len(chunk))
		atLineStart = bytes.HasSuffix(chunk, []byte("\r\n")) || afterCR && string(chunk) == "\n"
		afterCR = bytes.HasSuffix(chunk, []byte("\r"))
	}
	msg.SHA256 = [sha256.Size]byte(hash.Sum(nil))
	return nil
}
