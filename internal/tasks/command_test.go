package tasks

import (
	"slices"
	"testing"
)

// TestCommands: what is meant is what an operator would mean, and no more than what is allowed.
func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		command     Command
		from, meant []Status
	}{
		"retry": {
			RetryCommand(),
			[]Status{Error, Uncertain, Dead, Forwarded, SkippedNoMatch, Skipped},
			[]Status{Error, Uncertain, Dead},
		},
		"skip":    {SkipCommand(), []Status{Received, Error, Uncertain, Dead}, []Status{Error, Uncertain, Dead}},
		"resolve": {DeliveredCommand(), []Status{Uncertain}, []Status{Uncertain}},
		"purge":   {PurgeCommand(), []Status{Forwarded, Skipped, SkippedNoMatch, Dead}, []Status{Forwarded}},
	} {
		if !slices.Equal(c.command.From, c.from) || !slices.Equal(c.command.Meant, c.meant) {
			t.Errorf("%s is for %v and means %v; want %v and %v",
				name, c.command.From, c.command.Meant, c.from, c.meant)
		}
	}
}
