package imapsrc

import (
	"strings"

	"github.com/emersion/go-imap/v2"
)

// parseStatus reads an untagged status response, "* BYE [CODE] text" (RFC 3501 7.1). It returns nil
// for any other line.
func parseStatus(line string) *imap.Error {
	rest, ok := strings.CutPrefix(line, "* ")
	if !ok {
		return nil
	}
	return parseAnswer(rest)
}

// parseAnswer reads a status response without its tag.
func parseAnswer(line string) *imap.Error {
	word, text, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	status := &imap.Error{Type: imap.StatusResponseType(strings.ToUpper(word)), Text: text}
	switch status.Type {
	case imap.StatusResponseTypeOK, imap.StatusResponseTypeNo, imap.StatusResponseTypeBad, imap.StatusResponseTypeBye,
		imap.StatusResponseTypePreAuth:
	default:
		return nil
	}
	if code, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok && strings.HasPrefix(text, "[") {
		code, _, _ = strings.Cut(code, " ")
		status.Code, status.Text = imap.ResponseCode(strings.ToUpper(code)), strings.TrimSpace(rest)
	}
	return status
}

// listsCapabilities reports whether a tagged line is an OK that lists the capabilities (RFC 3501
// 7.1).
func listsCapabilities(line string) bool {
	_, rest, _ := strings.Cut(line, " ")
	status, rest, _ := strings.Cut(rest, " ")
	return strings.EqualFold(status, "OK") && strings.HasPrefix(strings.ToUpper(rest), "[CAPABILITY ")
}
