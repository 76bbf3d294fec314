package cmd

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"postrider/internal/text"
)

// manyInboxes is how many inboxes are shown one by one; of more, only those with trouble.
const manyInboxes = 20

var many = strconv.Itoa(manyInboxes)

// overview are the flags that say how many inboxes are shown.
type overview struct{ all, failing bool }

func (o *overview) register(c *cobra.Command) {
	c.Flags().BoolVar(&o.all, "all", false, "show all inboxes, also of more than "+many)
	c.Flags().BoolVar(&o.failing, "failing", false, "show only inboxes with trouble")
}

func (o overview) check() error {
	if o.all && o.failing {
		return usage(errors.New("--all and --failing contradict each other; choose one"))
	}
	return nil
}

// ofJSON shows all inboxes unless --failing asks for some of them.
func (o overview) ofJSON() overview { return overview{all: !o.failing, failing: o.failing} }

// partly reports whether only those with trouble are shown of n inboxes.
func (o overview) partly(n int) bool { return o.failing || !o.all && n > manyInboxes }

// toShow are those of the inboxes that the flags show.
func toShow[T any](o overview, boxes []T, trouble func(T) bool) []T {
	if !o.partly(len(boxes)) {
		return boxes
	}
	out := []T{}
	for _, in := range boxes {
		if trouble(in) {
			out = append(out, in)
		}
	}
	return out
}

// inboxCount is how many inboxes are how.
type inboxCount struct{ ok, trouble, disabled int }

func countInboxes[T any](boxes []T, trouble, active func(T) bool) (n inboxCount) {
	for _, in := range boxes {
		switch {
		case trouble(in):
			n.trouble++
		case active(in):
			n.ok++
		default:
			n.disabled++
		}
	}
	return n
}

// String is like "998 inboxes ok, 2 with trouble, 3 disabled".
func (n inboxCount) String() string {
	s := text.Number(n.ok, "inbox", "inboxes") + " ok"
	if n.trouble > 0 {
		s += fmt.Sprintf(", %d with trouble", n.trouble)
	}
	if n.disabled > 0 {
		s += fmt.Sprintf(", %d disabled", n.disabled)
	}
	return s
}

func (n inboxCount) all() int { return n.ok + n.trouble + n.disabled }

// summed reports whether a summary goes with the inboxes.
func (o overview) summed(n inboxCount) bool { return o.failing || n.all() > manyInboxes }

// rest says how to see the inboxes that are not shown; empty when all are, or when that was asked
// for.
func (o overview) rest(n inboxCount) string {
	left := n.ok + n.disabled
	if o.failing || left == 0 || !o.partly(n.all()) {
		return ""
	}
	return text.Number(left, "inbox is", "inboxes are") + " not shown; to see all: --all"
}

// overview prints the summary, the inboxes if there are any to show, and how to see the rest.
func (a *app) overview(o overview, n inboxCount, table func()) {
	if !o.summed(n) {
		table()
		return
	}
	a.print("%s\n", n)
	if o.all || n.trouble > 0 {
		table()
	}
	if rest := o.rest(n); rest != "" {
		a.print("%s\n", rest)
	}
}
