package text

import (
	"fmt"
	"strings"
)

// Effect is what an import does with one entry.
type Effect interface {
	String() string // empty when nothing changes
	Adds() bool
}

// Effects are the effects of an import, one line for each entry that changes something.
func Effects[E Effect](effects []E) string {
	var out strings.Builder
	for _, e := range effects {
		if s := e.String(); s != "" {
			out.WriteString(Line(s) + "\n")
		}
	}
	return out.String()
}

// EffectCounts counts the effects of an import.
func EffectCounts[E Effect](effects []E) string {
	var added, changed int
	for _, e := range effects {
		switch {
		case e.Adds():
			added++
		case e.String() != "":
			changed++
		}
	}
	return fmt.Sprintf("%d new, %d changed, %d unchanged.\n", added, changed, len(effects)-added-changed)
}
