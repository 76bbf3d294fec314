package watch

import (
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

// reports are on all inboxes, by their addresses.
func (w *Watch) reports() []pass.InboxReport {
	var all []pass.InboxReport
	for _, k := range w.all() {
		all = append(all, k.health.report())
	}
	slices.SortFunc(all, func(a, b pass.InboxReport) int { return strings.Compare(a.Email, b.Email) })
	return all
}
