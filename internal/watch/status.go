package watch

import (
	"fmt"
	"slices"
	"strings"
)

// status is the line for systemd: "STATUS=298 of 300 inboxes, 2 unreachable".
func (w *Watch) status() string {
	well, sick, all := w.count()
	parts := []string{fmt.Sprintf("%d of %d inboxes", well, all)}
	if all == 1 {
		parts[0] = fmt.Sprintf("%d of 1 inbox", well)
	}
	if sick > 0 {
		parts = append(parts, fmt.Sprintf("%d unreachable", sick))
	}
	if w.trouble.now() {
		parts = append(parts, "the database cannot be used")
	}
	if w.current().RelayFault() != nil {
		parts = append(parts, "the relay fails")
	}
	if w.isBroken() {
		parts = append(parts, "the configuration has errors")
	}
	return "STATUS=" + strings.Join(parts, ", ")
}

func (w *Watch) isBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != ""
}

// count counts the inboxes that can be read, and those that cannot. Of the rest it is not known
// yet.
func (w *Watch) count() (well, sick, all int) {
	keepers := w.all()
	for _, k := range keepers {
		switch {
		case k.health.isWell():
			well++
		case k.health.isSick():
			sick++
		}
	}
	return well, sick, len(keepers)
}

// clean reports whether all is well, and each inbox was visited.
func (w *Watch) clean() bool {
	_, sick, _ := w.count()
	untried := slices.ContainsFunc(w.all(), func(k *keeper) bool { return !k.health.isTried() })
	return sick == 0 && !untried && !w.trouble.now() && w.current().RelayFault() == nil && !w.isBroken()
}
