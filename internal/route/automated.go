package route

import (
	"fmt"
	"slices"
	"strings"
)

// Automated is what becomes of a message that a program sent: a bounce, a report, a notice, an absence note. A rule that
// names none forwards it.
type Automated string

// The ways.
const (
	ForwardAutomated Automated = "forward"
	SkipAutomated    Automated = "skip" // the rule adds no recipients
)

// What the Reason of a Decision with Skip begins with.
const (
	ByRoute      = "by_route:"
	ByAutomated  = "automated:"
	ByOwnAddress = "loop: own address:"
)

// Decided reports whether the reason of a message that is skipped is that of a Decision.
func Decided(reason string) bool {
	return slices.ContainsFunc([]string{ByRoute, ByAutomated, ByOwnAddress}, func(by string) bool { return strings.HasPrefix(reason, by) })
}

// automated says why a message counts as a program's; it is empty for a person's, and where nobody knows.
func automated(m Mail) string {
	if m.Message == nil {
		return ""
	}
	return m.Message.Header.Automated()
}

// skips says why the rule, which matches, adds no recipients; it is empty when it adds them.
func (r Rule) skips(robot string) string {
	switch {
	case r.Skip:
		return fmt.Sprintf("%s route %q skips it", ByRoute, r.Name)
	case robot != "" && r.Automated == SkipAutomated:
		return fmt.Sprintf("%s %s, and route %q skips such mail", ByAutomated, robot, r.Name)
	}
	return ""
}
