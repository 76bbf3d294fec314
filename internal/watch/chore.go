package watch

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"

	"postrider/internal/pass"
)

// chore runs work concurrently with the loop, one at a time. It holds an element while work runs.
type chore chan struct{}

// do starts the work, unless some is running.
func (c chore) do(work func()) {
	select {
	case c <- struct{}{}:
		go func() {
			work()
			debug.FreeOSMemory() // chores list a thousand inboxes, too
			<-c
		}()
	default:
	}
}

// wait waits until no work is running.
func (c chore) wait() {
	c <- struct{}{}
	<-c
}

// tell makes the loop call Setup.Say soon, because the state of an inbox has changed.
func (w *Watch) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// say reports on all inboxes, by their addresses.
func (w *Watch) say(ctx context.Context) {
	keepers := w.all()
	slices.SortFunc(keepers, func(a, b *keeper) int { return strings.Compare(a.in.Address, b.in.Address) })
	reports := make([]pass.InboxReport, len(keepers))
	for i, k := range keepers {
		reports[i] = k.health.report()
	}
	if w.current().Say(ctx, slices.Clone(reports)) {
		return
	}
	for i, k := range keepers {
		if reports[i].Busy == "" {
			k.health.unsaid()
		}
	}
}
