package imapsrc

import (
	"strings"

	"github.com/emersion/go-imap/v2"
)

// implied is what IMAP4rev2 includes (RFC 9051 E), as far as it matters here.
const implied = "IDLE LITERAL- MOVE SASL-IR UIDPLUS"

// capability passes on an octet of a list of capabilities. If both versions are listed, the library
// gets the extensions that IMAP4rev2 includes instead of IMAP4rev2 itself: otherwise it would send
// folder names in UTF-8, which such a server expects only after ENABLE IMAP4rev2 (RFC 9051 6.3.1).
func (g *guard) capability(c byte, out []byte) []byte {
	if isAtom(c) && len(g.word) < maxHead {
		g.word = append(g.word, c)
		return out
	}
	word := string(g.word)
	g.word = g.word[:0]
	g.rev1 = g.rev1 || strings.EqualFold(word, string(imap.CapIMAP4rev1))
	if strings.EqualFold(word, string(imap.CapIMAP4rev2)) {
		g.rev2, word = true, implied
	}
	out = append(out, word...)
	if c == ']' || c == '\r' || c == '\n' {
		if g.rev2 && !g.rev1 {
			out = append(out, " "+string(imap.CapIMAP4rev2)...)
		}
		g.rev1, g.rev2 = false, false
	}
	return append(out, c)
}

// opensReadOnly reports whether a tagged line is an OK that says that the folder was opened
// read-only (RFC 3501 7.1).
func opensReadOnly(line string) bool {
	_, rest, _ := strings.Cut(line, " ")
	answer := parseAnswer(rest)
	return answer != nil && answer.Type == imap.StatusResponseTypeOK && answer.Code == "READ-ONLY"
}
