package forward

import (
	"bufio"
	"bytes"
	"context"
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

// ownReport is the value of the trace field in postrider's own reports.
const ownReport = "report"

// token names an inbox without its address. It is the same for every message and every attempt.
func token(inbox string) string {
	sum := sha256.Sum256([]byte("postrider trace 1\n" + strings.ToLower(inbox)))
	return hex.EncodeToString(sum[:])[:20]
}

// traces are the trace fields of other inboxes, for a new message that is about or contains this
// one. Without them, two inboxes that forward to each other would never stop.
func traces(h message.Header) string {
	var b strings.Builder
	for _, v := range h.Values(traceField) {
		if v = spaced(v); traceValue.MatchString(v) { // a relay may have folded it
			b.WriteString(traceField + ": " + v + "\r\n")
		}
	}
	return b.String()
}

// traceValue is what postrider writes. Anybody else may write anything there.
var traceValue = regexp.MustCompile(`^[0-9a-f]{20}; task=\d{1,20}$`)

// Looped reports whether, and why, a message is in a loop: it was forwarded from this inbox before,
// is a Report, has made more than maxReceived hops (RFC 5321 6.3), or was forwarded by more inboxes
// than that. A Report of another installation is not forwarded either: two installations that watch
// each other would never stop.
func Looped(h message.Header, inbox string, maxReceived int) (reason string, looped bool) {
	own := token(inbox)
	for _, v := range h.Values(traceField) {
		switch t, _, _ := strings.Cut(v, ";"); strings.TrimSpace(t) {
		case own:
			return "loop: it was forwarded from this inbox before (" + traceField + ")", true
		case ownReport:
			return "loop: it is a failure notice of postrider, which is never forwarded (" + traceField + ")", true
		}
	}
	for _, name := range []string{"Received", traceField} {
		if n := len(h.Values(name)); n > maxReceived {
			return fmt.Sprintf("loop: it has %d %s fields, more than %d", n, name, maxReceived), true
		}
	}
	return "", false
}

// returned reports whether a message contains another message, or its header, that was forwarded
// from this inbox: it is a bounce of that.
func returned(m *message.Message, inbox string) bool {
	const enough = 1 << 20 // a report is about the header, which comes first
	b, _ := io.ReadAll(io.LimitReader(m.Body.Reader(), enough))
	return bytes.Contains(b, []byte(token(inbox)))
}

// redirect is the original below a trace field. If the field would do harm, the message is attached
// instead: it cannot go without the field, because inboxes that forward to each other would never
// stop, and a sender could provoke that. If there is no address to compose from, the field is added
// all the same.
func (c *Composer) redirect(ctx context.Context, m *message.Message, o Origin, resent bool) (*Content, error) {
	if why := untraceable(m); why != "" && c.from.Address != "" {
		return c.attach(m, o, "attached instead of redirected: "+why)
	}
	return c.sealed(ctx, c.traced(m, o, resent), m, o)
}

// untraceable is why a trace field on top would do harm; empty when it would not.
func untraceable(m *message.Message) string {
	switch {
	case !startsWithField(m.Body.Reader()): // a field would change how the rest is read
		return "it does not begin with a header field"
	case breaks(m.Header, traceField):
		return "a signature covers " + traceField
	}
	return ""
}

// traced puts a trace field on top of m, and a Resent- block when resent is set.
func (c *Composer) traced(m *message.Message, o Origin, resent bool) *Content {
	out := &Content{Mode: Redirect, eight: m.Body.Has8bit(), utf8: m.Header.Has8bit() && headerIsUTF8(m.Body.Reader())}
	head := o.field()
	if resent {
		var block string
		block, out.Remark = c.resent(m, o)
		head += block
	}
	out.parts = []piece{textPiece(head), storedPiece(m.Body, 0)}
	return out
}

// field is the trace field.
func (t Trace) field() string {
	return fmt.Sprintf("%s: %s; task=%d\r\n", traceField, token(t.Inbox), t.TaskID)
}

// breaks reports whether one more field of that name on top breaks a signature. It does when the h=
// tag names it more often than the message has it: the names stand for the fields from the bottom
// up, and those left over for no field (RFC 6376 3.5 and 5.4.2, RFC 8617 4.1.2).
func breaks(h message.Header, name string) bool {
	present := len(h.Values(name))
	for _, v := range slices.Concat(h.Values("DKIM-Signature"), h.Values("ARC-Message-Signature")) {
		for tag := range strings.SplitSeq(v, ";") {
			key, list, _ := strings.Cut(tag, "=")
			if strings.TrimSpace(key) != "h" {
				continue
			}
			named := 0
			for f := range strings.SplitSeq(list, ":") {
				if strings.EqualFold(strings.TrimSpace(f), name) {
					named++
				}
			}
			if named > present {
				return true
			}
		}
	}
	return false
}

// startsWithField reports whether the first line is a header field (RFC 5322 2.2), or the empty
// line that ends a header. A continuation line, an mbox "From " line and text without a header are
// neither.
func startsWithField(r io.Reader) bool {
	line, err := bufio.NewReaderSize(r, firstLine).ReadSlice('\n')
	if len(line) == 0 || bytes.Equal(line, []byte("\r\n")) {
		return err == nil
	}
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t") // obsolete, but a field (RFC 5322 4.5)
	return found && len(name) > 0 && !bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// firstLine is the longest line that can be a field, in octets, with its line end (RFC 5322 2.1.1).
const firstLine = 1000

// headerIsUTF8 reports whether a header with 8-bit octets is an internationalized one (RFC 6532).
func headerIsUTF8(r io.Reader) bool {
	const enough = 1 << 20
	header, err := io.ReadAll(io.LimitReader(r, enough))
	header, _, _ = bytes.Cut(header, []byte("\r\n\r\n"))
	return err == nil && utf8.Valid(header)
}
