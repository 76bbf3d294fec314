package transcript

import (
	"fmt"
	"slices"
	"strings"

	"postrider/internal/text"
)

// smtp is RFC 5321, with AUTH (RFC 4954).
type smtp struct {
	login bool  // until the final reply to AUTH
	data  bool  // until the dot
	size  int64 // of the content so far, as it is sent
}

// smtpCommands hold no secret.
var smtpCommands = []string{"EHLO", "HELO", "STARTTLS", "MAIL", "RCPT", "DATA", "RSET", "NOOP", "QUIT"}

func (s *smtp) show(from side, l line) (string, int64) {
	if from == fromServer {
		return s.reply(l), 0
	}
	return s.command(l), 0
}

func (s *smtp) command(l line) string {
	words := strings.Fields(string(l.head))
	switch {
	case s.data && string(l.head) == ".":
		s.data = false
		return fmt.Sprintf("(a message of %s)", text.Count(int(s.size), "octet"))
	case s.data:
		s.size += l.octets + 2
		return ""
	case s.login || len(words) == 0:
		return l.hidden()
	}
	switch verb := strings.ToUpper(words[0]); {
	case verb == "AUTH" && len(words) > 1:
		s.login = true
		return "AUTH " + words[1] + " ***"
	case slices.Contains(smtpCommands, verb):
		return string(l.head)
	}
	return l.hidden()
}

// reply shows a line of a reply. During a login that is only its code: some relays repeat what they
// refuse.
func (s *smtp) reply(l line) string {
	head := string(l.head)
	if len(head) < 3 || strings.Trim(head[:3], "0123456789") != "" ||
		len(head) > 3 && head[3] != ' ' && head[3] != '-' {
		return l.hidden()
	}
	code, last := head[:3], len(head) == 3 || head[3] == ' '
	if s.login {
		s.login = !last || code == "334"
		return code + " ***"
	}
	if code == "354" {
		s.data, s.size = true, 0
	}
	return head
}
