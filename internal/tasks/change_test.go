package tasks

import (
	"slices"
	"testing"
)

// TestChanges: what is meant is what an operator would mean, and no more than what is allowed.
func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change      Change
		from, meant []Status
	}{
		"retry":   {ToRetry(), []Status{Error, Uncertain, Dead, Forwarded, SkippedNoMatch, Skipped}, []Status{Error, Uncertain, Dead}},
		"skip":    {ToSkip(), []Status{Received, Error, Uncertain, Dead}, []Status{Error, Uncertain, Dead}},
		"resolve": {ToResolve(), []Status{Uncertain}, []Status{Uncertain}},
		"purge":   {ToPurge(), []Status{Forwarded, Skipped, SkippedNoMatch, Dead}, []Status{Forwarded}},
	} {
		if !slices.Equal(c.change.From, c.from) || !slices.Equal(c.change.Meant, c.meant) {
			t.Errorf("%s is for %v and means %v; want %v and %v", name, c.change.From, c.change.Meant, c.from, c.meant)
		}
	}
}
