package message

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/emersion/go-message/charset"
)

// encodedWord matches RFC 2047 2. It also allows spaces inside, which exist in real mail, and a
// language (RFC 2231 5).
var encodedWord = regexp.MustCompile(`=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bBqQ])\?([^?]*)\?=`)

// decode converts a raw value to UTF-8. It joins the octets of adjacent words of one charset before
// it decodes them, because many mailers split a word in the middle of a character.
func (h Header) decode(v string) string {
	var out strings.Builder
	var octets []byte
	var cs string
	flush := func() {
		out.WriteString(toUTF8(octets, cs))
		octets, cs = nil, ""
	}
	last := 0
	for _, m := range encodedWord.FindAllStringSubmatchIndex(v, -1) {
		between, label := v[last:m[0]], strings.ToLower(v[m[2]:m[3]])
		if cs == "" || cs != label || strings.TrimSpace(between) != "" {
			joined := cs != "" && strings.TrimSpace(between) == ""
			flush()
			if !joined {
				out.WriteString(h.plain(between))
			}
		}
		cs = label
		octets = append(octets, wordOctets(v[m[4]], v[m[6]:m[7]])...)
		last = m[1]
	}
	flush()
	out.WriteString(h.plain(v[last:]))
	return withoutControls(out.String())
}

func wordOctets(encoding byte, text string) []byte {
	if encoding == 'b' || encoding == 'B' {
		text = strings.TrimRight(strings.Join(strings.Fields(text), ""), "=")
		b, _ := base64.RawStdEncoding.DecodeString(text)
		return b
	}
	var b []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '_':
			b = append(b, ' ')
		case c == '=' && i+2 < len(text):
			v, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				b = append(b, c)
				continue
			}
			b = append(b, byte(v))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return b
}

// plain decodes text outside of encoded words. Valid text is ASCII or UTF-8 (RFC 6532). Some
// mailers write ISO-2022-JP, which is recognised by its escape sequence (RFC 1468), or the charset
// of the body.
func (h Header) plain(s string) string {
	if strings.Contains(s, "\x1b$") {
		return toUTF8([]byte(s), "iso-2022-jp")
	}
	if utf8.ValidString(s) {
		return s
	}
	return toUTF8([]byte(s), h.charset)
}

// toUTF8 decodes b. When the charset is unknown or wrong, it tries UTF-8 and then Windows-1252. It
// never fails.
func toUTF8(b []byte, label string) string {
	for _, l := range []string{label, "utf-8", "windows-1252"} {
		if s, ok := fromCharset(b, l); ok {
			return s
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// aliases are names that senders use and package charset does not know, or decodes wrongly.
var aliases = map[string]string{
	"ansi_x3.4-1968": "us-ascii", // the name in the C locale: cron writes it
	"iso646-us":      "us-ascii",
	"ascii":          "us-ascii",
	"unknown-8bit":   "us-ascii", // RFC 1428: nobody knows it
	"x-unknown":      "us-ascii",
	"iso-8859-1":     "windows-1252", // it has characters where the other has controls: quotes, dashes, €
	"latin1":         "windows-1252",
	"latin-1":        "windows-1252",
	"iso_8859-1":     "windows-1252",
	"iso8859_1":      "windows-1252", // the name in Java
	"iso-8859-9":     "windows-1254", // the same in Turkish
	"latin5":         "windows-1254",
	"cp932":          "windows-31j",
	"cp949":          "euc-kr",
	"cp950":          "big5",
	"ms950":          "big5", // the names in Java
	"ms936":          "gbk",
	"iso-2022-jp-ms": "iso-2022-jp",
	"cp50220":        "iso-2022-jp",
	"cp50221":        "iso-2022-jp",
}

// charsetOf is a charset by its usual name, in lower case.
func charsetOf(label string) string {
	label = strings.Trim(strings.ToLower(label), `'" `)
	return cmp.Or(aliases[label], label)
}

// fromCharset decodes b. It fails if the charset is not known, or if b is not valid in it; a few
// octets that are not UTF-8 become U+FFFD.
func fromCharset(b []byte, label string) (s string, ok bool) {
	switch label = charsetOf(label); label {
	case "":
		return "", len(b) == 0
	case "utf-8", "utf8":
		return strings.ToValidUTF8(string(b), "\uFFFD"), mostlyUTF8(b)
	case "us-ascii":
		return string(b), !has8bit(b)
	}
	r, err := charset.Reader(label, bytes.NewReader(b))
	if err != nil {
		return "", false
	}
	out, err := io.ReadAll(r)
	s = string(out)
	// For some charsets, such as iso-2022-kr, all that comes out is this.
	return s, err == nil && utf8.ValidString(s) && s != "\uFFFD"
}

// mostlyUTF8 reports whether b is UTF-8, or has more characters of several octets than octets that
// are none, as text that a program has cut.
func mostlyUTF8(b []byte) bool {
	characters, invalid := 0, 0
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch b = b[size:]; {
		case size > 1:
			characters++
		case r == utf8.RuneError:
			invalid++
		}
	}
	return invalid == 0 || characters > invalid
}

// withoutControls removes control characters and nothing else: routes compare what it returns.
// text.Line is for what is only shown.
func withoutControls(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}
