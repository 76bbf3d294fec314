package message

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"postrider/internal/testserver/effort"
)

// hostile are texts that make a careless reader look through the rest of the field again and again.
var hostile = map[string]string{
	"quotes":         `"`,
	"escaped quotes": `\"()`,
	"comments":       "(",
	"words":          "=?a?q?x?= ",
	"open words":     "=?utf-8?q?",
	"broken UTF-8":   `"=?utf-8?B?5L0=?=" <a@b>, `,
	"addresses":      "<a@b>,",
	"groups":         "g:a@b;,",
	"signs":          "a@",
	"continuations":  ";name*0=x",
	"open names":     `;name="`,
	"escapes":        "\x1b$B",
	"marks":          "\xcc\x81",
	"8-bit":          "\xe9,",
}

// TestEffort checks that no field of a header makes the parser work for long.
func TestEffort(t *testing.T) {
	const size = 256 << 10
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			for _, field := range []string{"From", "Content-Type", "Subject"} {
				examine(t, field+": text/plain"+strings.Repeat(text, size/len(text))+"\r\n\r\nx")
			}
		})
	}
}

// examine reads everything of a message that routes and composers read.
func examine(t *testing.T, raw string) {
	t.Helper()
	m := spooled(t, raw)
	effort.Within(t, len(raw), func() {
		h := m.Header
		_, _, _, _, _ = h.Automated(), h.Answers(), h.Received(), h.Date(), m.Subject()
		_, _, _ = h.Texts("Content-Type"), m.From(), h.Addresses("To")
		m.Content(context.Background())
	})
}

// TestManyParameters: five parts whose Content-Type has 45,000 continuations (RFC 2231 3). What
// their file names are is unknown, and that is said.
func TestManyParameters(t *testing.T) {
	var b strings.Builder
	b.WriteString("Content-Type: multipart/mixed; boundary=b\r\n\r\n")
	for range 5 {
		b.WriteString("--b\r\nContent-Type: application/pdf")
		for i := range 45_000 {
			fmt.Fprintf(&b, ";\r\n name*%d=aaaa", i)
		}
		b.WriteString("\r\nContent-Disposition: attachment\r\n\r\nx\r\n")
	}
	b.WriteString("--b--\r\n")
	examine(t, b.String())
	c := spooled(t, b.String()).Content(t.Context())
	const want = "a part has a field that is too long or has too many parameters"
	if c.Incomplete != want || !c.HasAttachment {
		t.Errorf("content is %+v, want an attachment, and incomplete: %s", c, want)
	}
}

// TestNoTime: when the context ends, the content is incomplete, and says so.
func TestNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := spooled(t, "Subject: x\r\n\r\nhello\r\n").Content(ctx)
	want := Content{Incomplete: "there was no time to read all of it"}
	if c.Text != want.Text || c.Incomplete != want.Incomplete {
		t.Errorf("content is %+v, want %+v", c, want)
	}
}

// FuzzEffort looks for a text that makes the parser work for long when it is repeated, in any field
// and in the body.
func FuzzEffort(f *testing.F) {
	for _, text := range hostile {
		f.Add("From: ", text)
		f.Add("Content-Type: text/plain", text)
	}
	f.Add("Content-Type: multipart/mixed; boundary=b\r\n\r\n", "--b\r\n\r\n")
	f.Add("Content-Type: text/html\r\n\r\n", "<a <!--")
	f.Add("Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n", "=\r\n")
	f.Add("", "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n")
	f.Fuzz(func(t *testing.T, begin, text string) {
		const size = 32 << 10
		if len(begin) > size || len(text) == 0 {
			return
		}
		examine(t, begin+strings.Repeat(text, max(size/len(text), 1)))
	})
}
