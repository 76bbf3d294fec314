package route

import "fmt"

// Automated says what happens to a message that a program sent: a bounce, a report, a notice, an
// absence note. The default is ForwardAutomated.
type Automated string

// The values of Automated.
const (
	ForwardAutomated Automated = "forward"
	SkipAutomated    Automated = "skip" // the rule adds no recipients
)

// automated says why a message counts as sent by a program. It is empty for other messages, and if
// the message is not known.
func automated(m Mail) string {
	if m.Message == nil {
		return ""
	}
	return m.Message.Header.Automated()
}

// skips says why a matching rule adds no recipients. It is empty if it adds them.
func (r Rule) skips(byProgram string) string {
	switch {
	case r.Skip:
		return fmt.Sprintf("by_route: route %q skips it", r.Name)
	case byProgram != "" && r.Automated == SkipAutomated:
		return fmt.Sprintf("automated: %s, and automated: skip applies to route %q", byProgram, r.Name)
	}
	return ""
}
