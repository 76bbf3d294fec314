package pass

import (
	"fmt"
	"strings"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

// Outcome is what a pass would do with the message. It is empty for a registered message.
func (p Preview) Outcome() string {
	d, r := p.Entry.Decision, p.Registration
	switch {
	case r.Fate != tasks.New:
		return ""
	case r.Skip == tasks.SkipDuplicate:
		return "would be registered and skipped: duplicate"
	case d == nil:
		return "would be registered, and decided on when it can be read"
	case r.Skip == tasks.SkipTooLarge:
		return "would be registered and skipped: " + d.Reason
	case r.Status.Ended():
		return "would not be forwarded: " + d.Reason
	}
	what := fmt.Sprintf("would be forwarded to %s by route %s", strings.Join(d.Recipients, ", "), d.Route)
	for _, n := range d.Notes {
		what += " (" + text.Line(n.Detail) + ")"
	}
	return what
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

// leftOutNote follows the recipients. It names the address that is left out, if there is one.
func leftOutNote(own string) string {
	if own == "" {
		return ""
	}
	return " (left out: " + own + ", the inbox's own address)"
}
