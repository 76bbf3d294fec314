package transcript

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"postrider/internal/text"
)

// imap is RFC 3501.
type imap struct {
	login string  // the tag of a login, until its answer
	shown [2]bool // the line that goes on after content is shown, by side
}

// imapCommands hold no secret.
var imapCommands = []string{
	"CAPABILITY", "ENABLE", "ID", "NOOP", "LOGOUT", "STARTTLS", "NAMESPACE", "LIST", "SELECT", "EXAMINE",
	"STATUS", "UID", "SEARCH", "FETCH", "IDLE", "CLOSE", "UNSELECT",
}

var (
	// answer is tagged or not, with the response code's name.
	answer   = regexp.MustCompile(`^(\S+) (OK|NO|BAD|BYE|PREAUTH)\b( \[[A-Z-]+)?`)
	literal  = regexp.MustCompile(`\{(\d{1,18})\+?\}$`)
	fetch    = regexp.MustCompile(`^\* \d+ FETCH `)
	quoted   = regexp.MustCompile(`(INTERNALDATE )?"(?:\\.|[^"\\])*"?`)
	untagged = regexp.MustCompile(`^(\*|\+)( |$)`)
)

func (p *imap) show(from side, l line) (string, int64) {
	var skip int64
	if m := literal.FindSubmatch(l.tail); m != nil {
		skip, _ = strconv.ParseInt(string(m[1]), 10, 64)
	}
	if l.after {
		return p.rest(from, l), skip
	}
	var shown string
	if from == fromClient {
		shown, p.shown[from] = p.command(l)
	} else {
		shown, p.shown[from] = p.response(l)
	}
	return shown, skip
}

// rest is what follows a literal in the same command or response.
func (p *imap) rest(from side, l line) string {
	if !p.shown[from] {
		return l.hidden()
	}
	return "(content) " + withoutStrings(string(l.head))
}

func (p *imap) command(l line) (shown string, whole bool) {
	words := strings.Fields(string(l.head))
	switch {
	case p.login != "" || len(words) == 0:
		return l.hidden(), false
	case len(words) == 1:
		if words[0] == "DONE" {
			return words[0], true
		}
		return l.hidden(), false
	}
	switch verb := strings.ToUpper(words[1]); {
	case verb == "LOGIN":
		p.login = words[0]
		return words[0] + " LOGIN ***", false
	case verb == "AUTHENTICATE" && len(words) > 2:
		p.login = words[0]
		return words[0] + " AUTHENTICATE " + words[2] + " ***", false
	case slices.Contains(imapCommands, verb):
		return string(l.head), true
	}
	return words[0] + " " + l.hidden(), false
}

// response shows a line of the server. During a login that is only what it begins with: some
// servers repeat what they refuse.
func (p *imap) response(l line) (shown string, whole bool) {
	head := string(l.head)
	m := answer.FindStringSubmatch(head)
	switch {
	case p.login != "" && m != nil:
		if m[1] == p.login {
			p.login = ""
		}
		if m[3] != "" {
			m[3] += "]"
		}
		return m[1] + " " + m[2] + m[3] + " ***", false
	case p.login != "" && !strings.HasPrefix(head, "* CAPABILITY "), m == nil && !untagged.MatchString(head):
		return l.hidden(), false
	case fetch.MatchString(head):
		return withoutStrings(head), true
	}
	return head, true
}

// withoutStrings shows quoted strings of a FETCH by their size, except for the date.
func withoutStrings(s string) string {
	return quoted.ReplaceAllStringFunc(s, func(q string) string {
		if strings.HasPrefix(q, "INTERNALDATE ") {
			return q
		}
		return fmt.Sprintf("(%s)", text.Count(len(strings.Trim(q, `"`)), "octet"))
	})
}
