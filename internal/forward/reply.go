package forward

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"

	"postrider/internal/text"
)

// reply is one SMTP reply (RFC 5321 4.2).
type reply struct {
	code     int
	enhanced string // RFC 3463; empty when there is none
	text     string // one printable line, without the codes
}

func (r reply) ok() bool { return r.code/100 == 2 }

// line is the text with the enhanced code before it.
func (r reply) line() string { return strings.TrimSpace(r.enhanced + " " + r.text) }

// newReply takes the text of all lines. Each may start with the enhanced code (RFC 2034 4).
func newReply(code int, text string) reply {
	r := reply{code: code}
	var others strings.Builder // the lines without it
	for atStart := true; text != ""; {
		if n := enhancedCode(text); n > 0 && atStart {
			r.enhanced = cmp.Or(r.enhanced, text[:n])
			rest := strings.TrimLeft(text[n:], space)
			atStart = rest == "" || text[len(text)-len(rest)-1] == '\n'
			text = rest
			continue
		}
		end := strings.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		if end == len(text) && others.Len() == 0 {
			r.text = short(text)
			return r
		}
		others.WriteString(text[:end])
		text, atStart = text[end:], true
	}
	r.text = short(others.String())
	return r
}

const space = " \t\n\f\r"

// enhancedCode is the length of the enhanced status code, such as 5.1.10, at the start of s, before
// white space or the end (RFC 3463 2); 0 for none.
func enhancedCode(s string) int {
	if len(s) < len("2.0.0") || s[0] != '2' && s[0] != '4' && s[0] != '5' {
		return 0
	}
	n := 1
	for range 2 {
		if n == len(s) || s[n] != '.' {
			return 0
		}
		n++
		digits := 0
		for n < len(s) && digits < 3 && '0' <= s[n] && s[n] <= '9' {
			n, digits = n+1, digits+1
		}
		if digits == 0 {
			return 0
		}
	}
	if n < len(s) && strings.IndexByte(space, s[n]) < 0 {
		return 0
	}
	return n
}

// replyIn is the reply in err, if there is one: textproto makes an error of an unexpected reply.
func replyIn(err error) (reply, bool) {
	e, ok := errors.AsType[*textproto.Error](err)
	if !ok {
		return reply{}, false
	}
	return newReply(e.Code, e.Msg), true
}

var errHungUp = errors.New("the relay closed the connection")

// maxReply is how long a reply may be, in octets. The deadline of the connection counts for the
// reply as a whole.
const maxReply = 64 << 10

var (
	errLongReply = errors.New("it is longer than 64 KiB")
	errLongLine  = errors.New("it has a line that is longer than 4 KiB")
)

// readReply reads one reply of any number of lines. Unlike textproto it accepts a line without
// text: the grammar of RFC 5321 4.2 allows "250" alone, and a reply to the final dot that is not
// understood costs a second copy.
func readReply(r *bufio.Reader) (reply, error) {
	const maxText = 4 << 10
	var text []byte
	for size := 0; ; {
		line, err := r.ReadSlice('\n')
		size += len(line)
		switch {
		case errors.Is(err, io.EOF):
			return reply{}, errHungUp
		case errors.Is(err, bufio.ErrBufferFull):
			err = errLongLine
		case size > maxReply:
			err = errLongReply
		}
		if err != nil {
			return reply{}, fmt.Errorf("read a reply: %w", err)
		}
		s := bytes.TrimRight(line, "\r\n ")
		code := replyCode(s)
		if code == 0 {
			return reply{}, fmt.Errorf("read a reply: %q is not an SMTP reply", short(string(s)))
		}
		if len(s) > 3 && len(text) < maxText {
			text = append(append(text, s[4:]...), '\n')
		}
		if len(s) == 3 || s[3] == ' ' {
			return newReply(code, string(text)), nil
		}
	}
}

// replyCode is the code at the start of a line, 200 to 599; 0 for none.
func replyCode(line []byte) int {
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' && line[3] != '-' {
		return 0
	}
	code := 0
	for _, c := range line[:3] {
		if c < '0' || c > '9' {
			return 0
		}
		code = 10*code + int(c-'0')
	}
	if code < 200 || code > 599 {
		return 0
	}
	return code
}

// short makes of a relay's text one printable line of at most 500 octets, for a log, a table and a
// database.
func short(s string) string {
	s = text.Line(s)
	return strings.ToValidUTF8(s[:min(len(s), 500)], "")
}

// hasCode takes a whole code or its first digits.
func (r reply) hasCode(prefix string) bool { return strings.HasPrefix(strconv.Itoa(r.code), prefix) }

func (r reply) says(words string) bool { return strings.Contains(strings.ToLower(r.text), words) }
