package message

import (
	"fmt"
	"strings"
)

// ReturnPath is the path in the topmost Return-Path field, which the server that delivered the message put there (RFC
// 5321 4.4): empty for the null reverse-path. It is as it stands, and need not be an address. given is false when there
// is no such field, or nothing in it.
func (h Header) ReturnPath() (path string, given bool) {
	v, opened := strings.CutPrefix(withoutComments(h.Get("Return-Path")), "<")
	v, closed := strings.CutSuffix(strings.TrimSpace(v), ">")
	return v, v != "" || opened && closed
}

// Automated says why a message counts as sent by a program; it is empty when nothing says so. What says so is the null
// reverse-path (RFC 5321 4.5.5), a report (RFC 6522) and the field Auto-Submitted (RFC 3834 5).
//
// Precedence does not: RFC 3834 2 lets it stop an answer, not a message, and what people write to a mailing list has it,
// too. Nor does X-Auto-Response-Suppress, which asks for no answer to what a person may have written.
func (h Header) Automated() string {
	kind, params := h.contentType()
	keyword := h.autoSubmitted()
	switch path, given := h.ReturnPath(); {
	case given && path == "":
		return "its reverse-path is null, as that of a bounce"
	case kind == "multipart/report" && params["report-type"] != "":
		return fmt.Sprintf("it is a report (%s)", oneLine(params["report-type"]))
	case kind == "multipart/report":
		return "it is a report"
	case keyword != "" && keyword != "no":
		return fmt.Sprintf("it says Auto-Submitted: %s", oneLine(keyword))
	}
	return ""
}

// Answers reports whether a message is a program's answer to another message: a bounce, a receipt, an absence note. It
// should have a null reverse-path (RFC 3464 2, RFC 8098 3, RFC 3834 3.3), so that nothing answers it in turn.
func (h Header) Answers() bool {
	if path, given := h.ReturnPath(); given && path == "" {
		return true
	}
	kind, params := h.contentType()
	about := strings.ToLower(params["report-type"])
	return kind == "multipart/report" && (about == "delivery-status" || about == "disposition-notification") ||
		h.autoSubmitted() == "auto-replied"
}

// autoSubmitted is the keyword in lower case; what may follow it are parameters.
func (h Header) autoSubmitted() string {
	v := strings.ToLower(withoutComments(h.Get("Auto-Submitted")))
	if end := strings.IndexAny(v, "; \t"); end >= 0 {
		v = v[:end]
	}
	return v
}

func (h Header) contentType() (kind string, params map[string]string) {
	return mediaType(h.Get("Content-Type"))
}

// withoutComments takes the comments out of an unfolded value (RFC 5322 3.2.2), which structured fields may have between any two
// words, and the white space around it. One that does not end goes to the end.
func withoutComments(v string) string {
	var out strings.Builder
	depth, quoted := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\' && i+1 < len(v) && (quoted || depth > 0): // a quoted pair
			if i++; quoted {
				out.WriteString(v[i-1 : i+1])
			}
		case c == '"' && depth == 0:
			quoted = !quoted
			out.WriteByte(c)
		case c == '(' && !quoted:
			depth++
		case c == ')' && depth > 0:
			if depth--; depth == 0 {
				out.WriteByte(' ')
			}
		case depth == 0:
			out.WriteByte(c)
		}
	}
	return strings.TrimSpace(out.String())
}
