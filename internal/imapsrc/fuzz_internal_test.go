package imapsrc

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/emersion/go-imap/v2"
)

// FuzzStatus checks that a server's status response gets a kind and is printed on one line, without
// the password that the server may repeat.
func FuzzStatus(f *testing.F) {
	for _, s := range []string{
		"* OK hi", "* BYE [ALERT] bye", "* NO [AUTHENTICATIONFAILED Too many] no", "* BAD ]", "* NO [",
		"* OK [UIDNOTSTICKY] x\r\n", "* no [] \x1b[31m\xff",
		"* NO Suggested Backoff Time: 299961 milliseconds", "* NO Suggested Backoff Time: 99999999999 milliseconds",
		"* PREAUTH", "+ idling", "* NO hunter2 is wrong",
	} {
		f.Add(s, "hunter2")
	}
	f.Add("* NO a\\\"b is wrong", "a\"b")
	f.Fuzz(func(t *testing.T, line, password string) {
		if strings.Contains(line, "\n") {
			t.Skip("more than one line")
		}
		w := &wire{sticky: true}
		w.findStatus([]byte(line + "\n"))
		status := parseStatus(line)
		if status == nil {
			if w.bye != nil || !w.sticky {
				t.Errorf("%q is no status response, but findStatus took it for one", line)
			}
			return
		}
		c := &Conn{cfg: Config{Username: "u", Password: password}}
		text := c.answer(status).Error()
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) ||
			!utf8.ValidString(text) || utf8.RuneCountInString(text) > 200 {
			t.Errorf("%q is printed as %q, want one printable line of at most 200 characters", line, text)
		}
		if password == "hunter2" && strings.Contains(text, password) &&
			!strings.Contains(string(status.Code), strings.ToUpper(password)) {
			t.Errorf("%q is printed as %q, want it without the password", line, text)
		}
		if kind := kindOf(status, KindAuth); kind == "" {
			t.Errorf("kindOf(%q) is empty, want one of the kinds", line)
		}
		if pause := backOff(status.Text); pause < 0 || pause > LongestBackOff {
			t.Errorf("backOff(%q) = %v, want at most an hour", line, pause)
		}
		if status.Type == imap.StatusResponseTypeBye && w.bye == nil && len(line) < maxStatusLine {
			t.Errorf("findStatus(%q) found no BYE, want it found", line)
		}
	})
}

// script is a connection to a server that sends one text, whatever it receives.
type script struct {
	net.Conn
	says     *strings.Reader
	received bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)  { return s.says.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.received.Write(p) }

// FuzzHandshake checks STARTTLS: it succeeds only after the answer that says so, reads no octet
// after it, and returns errors of one line.
func FuzzHandshake(f *testing.F) {
	for _, s := range []string{
		"", "* OK hi\r\nS1 OK go\r\n", "* PREAUTH\r\n", "* OK hi\r\n* CAPABILITY x\r\nS1 NO \x1b[31m\r\n", "* BYE\r\n",
		"220 smtp\r\n", "* OK\r\nS1 OK\r\nS2 x",
	} {
		f.Add(s)
	}
	c := &Conn{host: "imap.example:993"}
	f.Fuzz(func(t *testing.T, says string) {
		s := &script{says: strings.NewReader(says)}
		if err := startTLS(s); err != nil {
			if err = c.failure(t.Context(), opConnect, err); strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("the error is %q, want one line", err)
			}
			return
		}
		rest, _ := io.ReadAll(s.says)
		read := strings.TrimSuffix(says, string(rest))
		lines := strings.Split(read, "\n")
		last := strings.TrimSuffix(lines[len(lines)-2], "\r")
		if !strings.HasSuffix(read, "\n") || !strings.HasPrefix(strings.ToUpper(last), "S1 OK") {
			t.Errorf("STARTTLS succeeds after reading %q, want it to read exactly to the end of the answer", read)
		}
	})
}
