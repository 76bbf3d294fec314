package watch

import (
	"runtime/debug"
	"slices"
	"strings"

	"postrider/internal/pass"
)

// chore is done beside the loop, once at a time: it has an element while that is so.
type chore chan struct{}

// do does it, unless it is being done.
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

// wait waits until it is not being done.
func (c chore) wait() {
	c <- struct{}{}
	<-c
}

// tell has said soon what has changed.
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
