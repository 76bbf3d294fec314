package text

import (
	"fmt"
	"strings"
)

// Effects are what an import does, one line for each entry that changes something. An entry's
// effect begins with + when it adds, and is empty when it changes nothing.
func Effects[E fmt.Stringer](effects []E) string {
	var out strings.Builder
	for _, e := range effects {
		if s := e.String(); s != "" {
			out.WriteString(Line(s) + "\n")
		}
	}
	return out.String()
}

// EffectCounts counts the effects of an import.
func EffectCounts[E fmt.Stringer](effects []E) string {
	var added, changed int
	for _, e := range effects {
		switch s := e.String(); {
		case strings.HasPrefix(s, "+"):
			added++
		case s != "":
			changed++
		}
	}
	return fmt.Sprintf("%d new, %d changed, %d unchanged.\n", added, changed, len(effects)-added-changed)
}
