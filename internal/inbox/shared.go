package inbox

import (
	"fmt"
	"slices"
	"strings"
)

// Shared says which active inboxes of the list read a folder that in reads, too: by the same
// username at the same host (in any case) and port. Each forwards what arrives there. The first one
// is named, and the others are counted.
func (in Inbox) Shared(list []Inbox) (notes []string) {
	more := 0
	for i := range list {
		other := &list[i] // a check compares each inbox with each
		if other.Username != in.Username || other.Port != in.Port || !strings.EqualFold(other.Host, in.Host) ||
			other.Address == in.Address || !in.Active || !other.Active {
			continue
		}
		var both []string
		for _, name := range in.Watched() {
			if slices.Contains(other.Watched(), name) {
				both = append(both, fmt.Sprintf("%q", name))
			}
		}
		if len(both) > 0 && notes != nil {
			more++
		} else if len(both) > 0 {
			notes = append(notes, fmt.Sprintf("inbox %s reads %s of %s at %s, too: each of the two forwards what arrives there",
				other.Address, strings.Join(both, ", "), in.Username, in.Host))
		}
	}
	if more > 0 {
		notes[0] += fmt.Sprintf(" (and %d more)", more)
	}
	return notes
}
