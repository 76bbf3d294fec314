package forward

import "fmt"

// String is the relay in one line.
func (i Info) String() string {
	out := i.Relay
	if i.TLS != "" {
		out += ", " + i.TLS
	}
	if i.Login != "" {
		out += ", logged in with " + i.Login
	}
	out += ", takes the sender " + i.Sender
	if i.MaxSize > 0 {
		out += fmt.Sprintf(", takes messages up to %d octets", i.MaxSize)
	}
	return out
}
