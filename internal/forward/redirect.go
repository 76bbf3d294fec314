package forward

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"postrider/internal/message"
)

const traceField = "X-Postrider-Trace"

// ownReport stands in the trace field of what postrider writes to the person who runs it.
const ownReport = "report"

// token is the same for every message and every retry of an inbox, and does not reveal its address.
func token(inbox string) string {
	sum := sha256.Sum256([]byte("postrider trace 1\n" + strings.ToLower(inbox)))
	return hex.EncodeToString(sum[:])[:20]
}

// traces are the fields that other inboxes put on a message which is not sent on itself, but in or about which another one
// is: without them two inboxes that forward to each other would never end.
func traces(h message.Header) string {
	var b strings.Builder
	for _, v := range h.Values(traceField) {
		if traceValue.MatchString(v) {
			b.WriteString(traceField + ": " + v + "\r\n")
		}
	}
	return b.String()
}

var traceValue = regexp.MustCompile(`^[0-9a-f]{20}; task=\d{1,20}$`) // a stranger may write what he likes

// Looped reports whether a message has been forwarded from this inbox before, is a Report, or has made more than
// maxReceived hops (RFC 5321 6.3), and says which. A Report is not forwarded by other installations either: two that watch
// each other's would go on for ever.
func Looped(h message.Header, inbox string, maxReceived int) (reason string, looped bool) {
	own := token(inbox)
	for _, v := range h.Values(traceField) {
		switch t, _, _ := strings.Cut(v, ";"); strings.TrimSpace(t) {
		case own:
			return "loop: it was forwarded from this inbox before (" + traceField + ")", true
		case ownReport:
			return "loop: it is a failure notice of postrider, which no postrider forwards (" + traceField + ")", true
		}
	}
	if n := len(h.Values("Received")); n > maxReceived {
		return fmt.Sprintf("loop: it has %d Received fields, more than %d", n, maxReceived), true
	}
	return "", false
}

// returned reports whether a message has another one in it, or its header, that was forwarded from this inbox: it is a
// bounce of that.
func returned(m *message.Message, inbox string) bool {
	const enough = 1 << 20 // a report is about the header, which comes first
	b, _ := io.ReadAll(io.LimitReader(m.Body.Reader(), enough))
	return bytes.Contains(b, []byte(token(inbox)))
}

// redirect puts a trace field on top of m, and a Resent- block if that is asked for. They are left off where they would
// do harm: a signature covers the name, so that adding it would break the signature, or the message does not start with
// a header field, so that putting one on top would change how what follows is understood. Received fields still end a
// loop.
func (c *Composer) redirect(m *message.Message, o Origin, resent bool) *Content {
	out := &Content{Mode: Redirect, eight: m.Body.Has8bit(), utf8: m.Header.Has8bit() && headerIsUTF8(m.Body.Reader())}
	if startsWithField(m.Body.Reader()) {
		head := ""
		if !signed(m.Header, traceField) {
			head = o.field()
		}
		if resent {
			var block string
			block, out.Remark = c.resent(m, o)
			head += block
		}
		out.parts = append(out.parts, textPiece(head))
	} else if resent {
		out.Remark = "no Resent- fields: the message does not begin with a header field"
	}
	out.parts = append(out.parts, storedPiece(m.Body, 0))
	return out
}

// field is the trace field.
func (t Trace) field() string {
	return fmt.Sprintf("%s: %s; task=%d\r\n", traceField, token(t.Inbox), t.TaskID)
}

// signed reports whether a signature lists the field in its h= tag (RFC 6376 3.5, RFC 8617 4.1.2).
func signed(h message.Header, name string) bool {
	for _, v := range slices.Concat(h.Values("DKIM-Signature"), h.Values("ARC-Message-Signature")) {
		for tag := range strings.SplitSeq(v, ";") {
			key, list, _ := strings.Cut(tag, "=")
			if strings.TrimSpace(key) != "h" {
				continue
			}
			for f := range strings.SplitSeq(list, ":") {
				if strings.EqualFold(strings.TrimSpace(f), name) {
					return true
				}
			}
		}
	}
	return false
}

// startsWithField reports whether the first line is a header field (RFC 5322 2.2), or the empty line that ends a
// header. It is neither when it is a continuation line, a mbox "From " line or text without any header.
func startsWithField(r io.Reader) bool {
	line, err := bufio.NewReader(r).ReadSlice('\n')
	if len(line) == 0 || bytes.Equal(line, []byte("\r\n")) {
		return err == nil
	}
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t") // obsolete, but a field (RFC 5322 4.5)
	return found && len(name) > 0 && !bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// headerIsUTF8 reports whether the header is an internationalized one (RFC 6532). Only a header with 8-bit octets is
// worth asking.
func headerIsUTF8(r io.Reader) bool {
	const enough = 1 << 20
	header, err := io.ReadAll(io.LimitReader(r, enough))
	header, _, _ = bytes.Cut(header, []byte("\r\n\r\n"))
	return err == nil && utf8.Valid(header)
}
