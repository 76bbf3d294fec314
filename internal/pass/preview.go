package pass

import (
	"fmt"
	"strings"

	"postrider/internal/tasks"
)

// Outcome is what a pass would do with the message; empty for a message that is registered already.
func (p Preview) Outcome() string {
	switch {
	case p.Fate == tasks.Known || p.Fate == tasks.Moved:
		return ""
	case p.Fate == tasks.Duplicate:
		return "would be registered and skipped: duplicate"
	case p.Skip != "":
		return "would be registered and skipped: " + p.Skip
	case p.Route == "":
		return "would not be forwarded: " + p.Why
	}
	return fmt.Sprintf("would be forwarded to %s by route %s%s", strings.Join(p.To, ", "), p.Route, leftOutNote(p.LeftOut))
}

// String is who gets the message, and by which route.
func (f ReplayFate) String() string {
	const enough = 5
	to := f.Recipients
	switch {
	case len(to) == 0:
		return "nobody: " + f.Reason
	case len(to) > enough:
		to = append(append([]string{}, to[:enough]...), fmt.Sprintf("and %d more", len(to)-enough))
	}
	return f.Route + ": " + strings.Join(to, ", ") + leftOutNote(f.LeftOut)
}

// leftOutNote follows the recipients: the address that is not among them, if there is one.
func leftOutNote(own string) string {
	if own == "" {
		return ""
	}
	return " (left out: " + own + ", the inbox's own address)"
}
