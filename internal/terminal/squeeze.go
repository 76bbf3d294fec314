package terminal

import (
	"slices"

	pretty "github.com/jedib0t/go-pretty/v6/text"

	"postrider/internal/text"
)

// Short is a cell with a text of one line, on a terminal of at most n characters.
func (t *Table) Short(s string, n int) string {
	if s = text.Line(s); t.Width > 0 {
		s = text.Cut(s, n)
	}
	return s
}

// Squeeze cuts the texts of these columns, the widest first, so that each row fits one line of the
// terminal. A table that does not fit even so stays as it is.
func (t *Table) Squeeze(columns ...string) {
	if t.Width == 0 {
		return
	}
	kept := t.filled()
	widths, _ := t.natural(kept)
	floor := slices.Clone(widths)
	for i, column := range kept {
		if slices.Contains(columns, t.Header[column]) {
			floor[i] = min(widths[i], narrowest)
		}
	}
	if shrink(widths, floor, t.over(widths)) > 0 {
		return
	}
	for i, column := range kept {
		for _, row := range t.rows {
			if s, ok := row[column].(string); ok {
				row[column] = snip(s, widths[i])
			}
		}
	}
}

// snip cuts a text to columns of a terminal. The library lets a character of two columns stick out
// by one.
func snip(s string, width int) string {
	if out := pretty.Snip(s, width, "…"); pretty.StringWidthWithoutEscSequences(out) <= width {
		return out
	}
	return pretty.Snip(s, width-1, "…")
}
