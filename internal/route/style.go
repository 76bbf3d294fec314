package route

import (
	"cmp"
	"context"
)

// Mode is what a message goes out as.
type Mode string

// The modes. A rule without one has the general one.
const (
	Redirect Mode = "redirect" // the original below fields on top
	Rewrite  Mode = "rewrite"  // the original's body below a header in the forwarder's name
	Attach   Mode = "attach"   // a new message with the original in it
	Auto     Mode = "auto"     // whichever of them arrives
)

// Fallback is what goes out if a message cannot be sent in its mode, or would not arrive unchanged.
type Fallback string

// The fallbacks. A rule without one has the general one.
const (
	FallbackNone   Fallback = "none" // it is refused, or may arrive changed
	FallbackAttach Fallback = "attach"
)

// Style is how a message goes out.
type Style struct {
	Mode     Mode
	Fallback Fallback
	Resent   bool // with a Resent- block, in mode redirect
}

// Style is how m goes out. route is a Decision's, of this table or an earlier one. For each key the
// first named rule that has it decides; a key that none has is the general one.
func (t *Table) Style(ctx context.Context, route string, m Mail, general Style) Style {
	var said Rule
	for _, name := range t.names(ctx, route, m) {
		r := t.rule(name)
		said.Mode = cmp.Or(said.Mode, r.Mode)
		said.Fallback = cmp.Or(said.Fallback, r.Fallback)
		said.Resent = cmp.Or(said.Resent, r.Resent)
	}
	return Style{
		Mode:     cmp.Or(said.Mode, general.Mode),
		Fallback: cmp.Or(said.Fallback, general.Fallback),
		Resent:   *cmp.Or(said.Resent, &general.Resent),
	}
}
