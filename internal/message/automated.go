package message

import (
	"fmt"
	"strings"
)

// ReturnPath returns the path of the topmost Return-Path field, which the delivering server added
// (RFC 5321 4.4). It is empty for the null reverse-path, and need not be a valid address. given is
// false when the field is missing or empty.
func (h Header) ReturnPath() (path string, given bool) {
	v, opened := strings.CutPrefix(withoutComments(h.Get("Return-Path")), "<")
	v, closed := strings.CutSuffix(strings.TrimSpace(v), ">")
	return v, v != "" || opened && closed
}

// Automated says why a message counts as sent by a program. It is empty when the message does not.
// The signs are a null reverse-path (RFC 5321 4.5.5), a report (RFC 6522) and the field
// Auto-Submitted (RFC 3834 5).
//
// The field Precedence is no sign: mail that people write to a mailing list has it too, and RFC
// 3834 2 uses it only to suppress replies. X-Auto-Response-Suppress is none either: it suppresses
// replies to mail that a person may have written.
func (h Header) Automated() string {
	kind, params := h.contentType()
	keyword := h.autoSubmitted()
	switch path, given := h.ReturnPath(); {
	case given && path == "":
		return "its reverse-path is null, as that of a bounce"
	case kind == "multipart/report" && params["report-type"] != "":
		return fmt.Sprintf("it is a report (%s)", withoutControls(params["report-type"]))
	case kind == "multipart/report":
		return "it is a report"
	case keyword != "" && keyword != "no":
		return fmt.Sprintf("it says Auto-Submitted: %s", withoutControls(keyword))
	}
	return ""
}

// Answers reports whether a program sent the message in reply to another one: a bounce, a receipt,
// an absence note. Such a message should have a null reverse-path (RFC 3464 2, RFC 8098 3, RFC 3834
// 3.3), so that no program replies to it.
func (h Header) Answers() bool {
	if path, given := h.ReturnPath(); given && path == "" {
		return true
	}
	kind, params := h.contentType()
	about := strings.ToLower(params["report-type"])
	return kind == "multipart/report" && (about == "delivery-status" || about == "disposition-notification") ||
		h.autoSubmitted() == "auto-replied"
}

// autoSubmitted returns the keyword in lower case, without parameters.
func (h Header) autoSubmitted() string {
	v := strings.ToLower(withoutComments(h.Get("Auto-Submitted")))
	if end := strings.IndexAny(v, "; \t"); end >= 0 {
		v = v[:end]
	}
	return v
}

// Boundary separates the parts of the message (RFC 2046 5.1.1). It is empty when there is none.
func (h Header) Boundary() string {
	_, params := h.contentType()
	return params["boundary"]
}

func (h Header) contentType() (kind string, params map[string]string) {
	return mediaType(h.Get("Content-Type"))
}

// withoutComments removes comments (RFC 5322 3.2.2) and surrounding white space from an unfolded
// value. Structured fields may have a comment between any two words. A comment without an end
// reaches to the end of the value.
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
