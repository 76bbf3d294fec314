package message

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestContentIsBounded checks that the content of a hostile message is cut at the limits, and
// that this is reported.
func TestContentIsBounded(t *testing.T) {
	for want, raw := range map[string]string{
		"its text is longer than 512 KiB": "Content-Type: text/plain; charset=utf-8\r\n\r\n" +
			strings.Repeat("ü", maxText),
		"its text is larger than 4 MiB":          "Content-Type: text/html\r\n\r\n" + strings.Repeat("<i>", maxRaw/3+1),
		"its parts are nested more than 30 deep": nested(MaxDepth + 1),
	} {
		t.Run(want, func(t *testing.T) {
			c := parse(t, raw).Content(t.Context())
			why := cmp.Or(c.Incomplete, c.Unread)
			if why != want || len(c.Text) > maxText || !utf8.ValidString(c.Text) {
				t.Errorf("Content has %d octets (valid UTF-8: %v), incomplete or unread because %q; "+
					"want at most %d octets of UTF-8, and %q",
					len(c.Text), utf8.ValidString(c.Text), why, maxText, want)
			}
		})
	}
}

// TestContentThatGrows checks the limits with content that grows when it is decoded, or keeps a
// decoder busy.
func TestContentThatGrows(t *testing.T) {
	const text = "Content-Type: text/plain; charset=windows-1252\r\n"
	for name, tt := range map[string]struct {
		raw  string
		want string // why not all is read
	}{
		"one octet is three": {
			text + "\r\n" + strings.Repeat("\x80", 400<<10),
			"its text is longer than 512 KiB",
		},
		"one part after the other": {parts(strings.Split(strings.Repeat(text+"\n"+strings.Repeat("\x80", 8<<10)+
			",", 100), ",")...), "its text is longer than 512 KiB"},
		"base64": {text + "Content-Transfer-Encoding: base64\r\n\r\n" +
			strings.Repeat("gICAgICA", 100<<10), "its text is longer than 512 KiB"},
		"base64 that never ends": {text + "Content-Transfer-Encoding: base64\r\n\r\n" +
			strings.Repeat("=", maxRaw+1), "its text is larger than 4 MiB"},
		"quoted line ends": {text + "Content-Transfer-Encoding: quoted-printable\r\n\r\n" +
			strings.Repeat("=\r\n", maxRaw/3+1), "its text is larger than 4 MiB"},
		"characters with long names": {"Content-Type: text/html\r\n\r\n" +
			strings.Repeat("&NotEqualTilde;", 200<<10), "its text is longer than 512 KiB"},
		"HTML that is never closed": {"Content-Type: text/html\r\n\r\nhearing" +
			strings.Repeat("<div><table><a b=c ", 150<<10), ""},
		"only escapes": {"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\nhearing" +
			strings.Repeat("\x1b$B\x1b(B", 500<<10), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := parse(t, tt.raw).Content(t.Context())
			if c.Unread != tt.want || len(c.Text) > maxText || !utf8.ValidString(c.Text) || tt.want == "" &&
				!strings.HasPrefix(c.Text, "hearing") {
				t.Errorf("Content has %d octets (valid UTF-8: %v), Unread = %q; "+
					"want at most %d octets of UTF-8, and %q",
					len(c.Text), utf8.ValidString(c.Text), c.Unread, maxText, tt.want)
			}
		})
	}
}

func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i)
	}
	return b.String() + "\r\nx\r\n"
}
