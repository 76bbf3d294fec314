package inbox

import (
	"fmt"
	"slices"
	"strings"
)

// Shared says which active inboxes of the list read a folder of the same account that in reads,
// too. Each forwards what arrives there. The first one is named, and the others are counted.
func (in Inbox) Shared(list []Inbox) (notes []string) {
	account, more := in.Account(), 0
	for _, other := range list {
		if other.Address == in.Address || !in.Active || !other.Active || other.Account() != account {
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
			notes = append(notes, fmt.Sprintf("inbox %s reads %s of %s at %s, too: "+
				"each of the two forwards what arrives there",
				other.Address, strings.Join(both, ", "), in.Username, in.Host))
		}
	}
	if more > 0 {
		notes[0] += fmt.Sprintf(" (and %d more)", more)
	}
	return notes
}
