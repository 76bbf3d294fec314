package forward

import (
	"fmt"
	"strings"
)

// String is the relay in one line: what it offers, and what was tried.
func (i Info) String() string {
	out := i.Relay
	if i.TLS != "" {
		out += ", " + i.TLS
	}
	if i.Login != "" {
		out += ", logged in with " + i.Login
	}
	if n := i.NotNow; n != nil {
		return out + ", answers " + n.Said() + " to MAIL FROM:<" + i.Sender + ">"
	}
	out += ", accepts MAIL FROM:<" + i.Sender + ">"
	switch tried := len(i.Accepted) + len(i.Refused); {
	case tried == 0:
		out += "; no recipient was tried, because the routes name no fixed one"
	case len(i.Accepted) == 0:
		out += "; no recipient was accepted"
	default:
		out += " and RCPT TO:<" + strings.Join(i.Accepted, ">, <") + "> (nothing was sent"
		if i.Untried > 0 {
			out += fmt.Sprintf("; %d more were not tried", i.Untried)
		}
		out += ")"
	}
	if i.MaxSize > 0 {
		out += fmt.Sprintf("; takes messages up to %d octets", i.MaxSize)
	}
	return out
}
