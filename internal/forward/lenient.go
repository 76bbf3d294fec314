package forward

import (
	"bufio"
	"bytes"
	"net"
	"net/textproto"
	"slices"
	"strings"
)

// lenient is a connection on which the library understands each reply, until the login is done. The
// library treats a reply without text as truncated, although the text may be missing (RFC 5321
// 4.2). It finds only upper-case keywords in the reply to EHLO, although any case is allowed (RFC
// 5321 2.4, 4.1.1.1).
type lenient struct {
	net.Conn
	in    *bufio.Reader
	rest  []byte           // of the line that was read last
	cut   bool             // that line is longer than the buffer and goes on
	ehlo  bool             // the reply is one to EHLO
	lines int              // of the reply so far
	later *textproto.Error // a temporary refusal of EHLO; nil when there was none
	done  bool             // what comes now is handed on unchanged
}

func newLenient(c net.Conn) *lenient { return &lenient{Conn: c, in: bufio.NewReader(c)} }

func (l *lenient) Write(p []byte) (int, error) {
	l.ehlo, l.lines = bytes.HasPrefix(p, []byte("EHLO ")), 0
	return l.Conn.Write(p)
}

func (l *lenient) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		switch {
		case l.done && l.in.Buffered() == 0: // nothing more is read ahead
			return l.Conn.Read(p)
		case l.done:
			return l.in.Read(p)
		}
		line, err := l.in.ReadSlice('\n')
		if len(line) == 0 {
			return 0, err
		}
		l.rest = l.understood(line) // an error comes again with the next line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// understood is a line of a reply as the library understands it.
func (l *lenient) understood(line []byte) []byte {
	begins := !l.cut
	l.cut = !bytes.HasSuffix(line, []byte("\n"))
	s := bytes.TrimRight(line, "\r\n")
	if !begins || replyCode(s) == 0 {
		return line
	}
	l.lines++
	if code := replyCode(s); l.ehlo && code/100 == 4 {
		l.later = &textproto.Error{Code: code, Msg: strings.TrimLeft(string(s[3:]), " -")}
	}
	switch {
	case len(s) == 3:
		return slices.Concat(s, []byte(" "), line[3:])
	case l.ehlo && l.lines > 1:
		keyword, _, _ := bytes.Cut(s[4:], []byte(" "))
		return slices.Concat(line[:4], bytes.ToUpper(keyword), line[4+len(keyword):])
	}
	return line
}
