package sevenbit

import (
	"path/filepath"
	"strings"
	"testing"
)

// FuzzEncode: whatever comes in, it is refused, or what comes out goes through any relay and go-message finds in it what it
// finds in the original.
func FuzzEncode(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.eml")
	for _, file := range files {
		f.Add(sent(f, file))
	}
	for _, raw := range []string{nested(2), mixed + "--b\r\n\r\n--bc\r\n" + eight + "--b--\r\n", "Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\n\r\n" + eight + "--b--"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		raw = tidy(t, tidy(t, raw)) // the first ends the last field
		head, body, _ := strings.Cut(raw, "\r\n\r\n")
		if strings.ContainsFunc(head, func(r rune) bool { return r >= 0x80 }) {
			t.Skip("the header is to be ASCII")
		}
		got, why := encode(t, raw)
		if why != "" {
			return
		}
		if _, as, _ := strings.Cut(got, "\r\n\r\n"); as == body && got != raw {
			t.Fatalf("its header alone becomes\n%q\nwant it as it is\n%q", got, raw)
		}
		check(t, raw, got)
	})
}
