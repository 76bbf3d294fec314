package forward

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestBase64Piece: the size is right before anything is read, lines are short, and the content is
// the spool's.
func TestBase64Piece(t *testing.T) {
	const head = "Subject: x\r\n\r\n"
	for _, n := range []int{0, 1, 2, inLine - 1, inLine, inLine + 1, 256 * inLine, 256*inLine + 1} {
		raw := head[:min(n, len(head))] + strings.Repeat("x", max(0, n-len(head)))
		m := parse(t, raw)
		p := base64Piece(m.Body)
		got := octetsOf(t, p.open())
		back, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(got, "\r\n", ""))
		if err != nil || string(back) != octetsOf(t, m.Body.Reader()) || int64(len(got)) != p.size {
			t.Errorf("%d octets: %d octets of base64 (%v), want %d that decode to the original",
				n, len(got), err, p.size)
		}
		for line := range strings.Lines(got) {
			if len(line) > 78 || !strings.HasSuffix(line, "\r\n") {
				t.Errorf("%d octets: the line %q, want at most 76 characters and CRLF", n, line)
			}
		}
	}
}
