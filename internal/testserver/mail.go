package testserver

import (
	"crypto/rand"
	"mime"
	"strings"
	"time"
)

// Mail makes a message in canonical form: CRLF line ends, a Message-ID of its own, subject encoded
// where needed. Each of headers is a whole field, "Name: value". The body may use LF or CRLF.
func Mail(from, to, subject, body string, headers ...string) []byte {
	fields := append([]string{
		"From: " + from,
		"To: " + to,
		"Subject: " + mime.BEncoding.Encode("utf-8", subject),
		"Date: " + time.Now().Format(time.RFC1123Z),
		"Message-ID: <" + rand.Text() + "@test.example>",
		"MIME-Version: 1.0",
		"Content-Type: text/plain; charset=utf-8",
		"Content-Transfer-Encoding: 8bit",
	}, headers...)
	text := strings.Join(fields, "\n") + "\n\n" + strings.TrimSuffix(body, "\n") + "\n"
	return []byte(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n"))
}
