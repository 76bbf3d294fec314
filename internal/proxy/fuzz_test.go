package proxy

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// FuzzProxy checks that parse never panics and never takes a part of the password for the
// host, because errors show the host.
func FuzzProxy(f *testing.F) {
	for _, s := range []string{"", "1?", "%zz", "@", ":", "[", "p@ss:w", "\x00", " "} {
		f.Add("socks5", "user", s, "proxy.example:3128")
	}
	f.Add("gopher", "", "", "")
	f.Add("http", "1#", "", "[::1]:80")
	f.Fuzz(func(t *testing.T, scheme, user, password, host string) {
		via, err := parse("the proxy setting", scheme+"://"+user+":"+password+"@proxy.example:3128")
		if err == nil && via.Host != "proxy.example:3128" {
			t.Errorf("with password %q the host is %q, want proxy.example:3128 or an error", password, via.Host)
		}
		if err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("the error is %q, want one line", err)
		}
		if via, err = parse("the proxy setting", host); err == nil && via.Hostname() == "" {
			t.Errorf("%q is the proxy %v, want an error: it has no host", host, via)
		}
	})
}

// script is a connection to a proxy that sends one text, whatever it receives.
type script struct {
	net.Conn
	says     *strings.Reader
	received bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)  { return s.says.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.received.Write(p) }

// FuzzConnect checks CONNECT: it succeeds only after the answer that says so, reads no octet after
// it, and returns errors of one line.
func FuzzConnect(f *testing.F) {
	for _, s := range []string{
		"", "HTTP/1.1 200 ok\r\n\r\n", "HTTP/1.1 407 \x1b[31mno\nA: b\n\n", "HTTP/1.1 2",
		"HTTP/1.1 200\n" + strings.Repeat("A: b\n", 300), "220 smtp\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, says string) {
		s := &script{says: strings.NewReader(says)}
		if err := askConnect(s, url.UserPassword("u", "hunter2"), "imap.example:993"); err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("the error is %q, want one line", err)
			}
			return
		}
		rest, _ := io.ReadAll(s.says)
		read := strings.TrimSuffix(says, string(rest))
		lines := strings.Split(read, "\n")
		if !strings.HasSuffix(read, "\n") || strings.TrimSuffix(lines[len(lines)-2], "\r") != "" {
			t.Errorf("CONNECT succeeds after reading %q, want it to read exactly to the empty line", read)
		}
	})
}
