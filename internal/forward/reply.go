package forward

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"regexp"
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

var enhancedCode = regexp.MustCompile(`(?m)^([245]\.\d{1,3}\.\d{1,3})(?:\s+|$)`)

// newReply takes the text of all lines. Each may start with the enhanced code (RFC 2034 4).
func newReply(code int, text string) reply {
	r := reply{code: code}
	if m := enhancedCode.FindStringSubmatch(text); m != nil {
		r.enhanced = m[1]
	}
	r.text = short(enhancedCode.ReplaceAllString(text, ""))
	return r
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
	var text strings.Builder
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
		s := strings.TrimRight(string(line), "\r\n ")
		code, err := strconv.Atoi(s[:min(3, len(s))])
		if err != nil || code < 200 || code > 599 || len(s) > 3 && s[3] != ' ' && s[3] != '-' {
			return reply{}, fmt.Errorf("read a reply: %q is none", short(s))
		}
		if len(s) > 3 && text.Len() < maxText {
			text.WriteString(s[4:] + "\n")
		}
		if len(s) == 3 || s[3] == ' ' {
			return newReply(code, text.String()), nil
		}
	}
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
