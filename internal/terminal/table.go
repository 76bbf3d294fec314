package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"

	"postrider/internal/text"
)

// Table is a table. On a terminal it has borders, fits the width, and leaves out columns without
// any content; where not even narrow columns fit, each row is a list of names and values. Elsewhere
// it is text between tabs under one header line, with all columns, so that a
// script finds each in its place.
type Table struct {
	Width  int // of the terminal; 0 for none
	Header []string
	// Paint has the columns whose texts get colours; nil for none.
	Paint map[string]func(cell string) string

	rows [][]any
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Add adds a row. Cells may hold text by strangers.
func (t *Table) Add(cells ...any) {
	for i, c := range cells {
		switch c.(type) {
		case int, int64, uint32: // aligned to the right
		default:
			cells[i] = text.Line(fmt.Sprint(c))
		}
	}
	t.rows = append(t.rows, cells)
}

// Print writes the table.
func (t *Table) Print(w io.Writer) error {
	if t.Width == 0 {
		return t.plain(w)
	}
	_, err := fmt.Fprintln(w, t.boxed())
	return err
}

func (t *Table) plain(w io.Writer) error {
	var b strings.Builder
	b.WriteString(strings.ToUpper(strings.Join(t.Header, "\t")) + "\n")
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = t.painted(i, c)
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Common is the text that all rows have in a column, which is left out then. It is empty when they
// differ, and elsewhere than on a terminal.
func (t *Table) Common(name string) string {
	i := slices.Index(t.Header, name)
	differs := func(row []any) bool { return row[i] != t.rows[0][i] }
	if t.Width == 0 || len(t.rows) == 0 || slices.ContainsFunc(t.rows, differs) {
		return ""
	}
	common := fmt.Sprint(t.rows[0][i])
	for _, row := range t.rows {
		row[i] = ""
	}
	return common
}

// records is the table without columns side by side.
func (t *Table) records(kept []int) string {
	var b strings.Builder
	widest := 0
	for _, i := range kept {
		widest = max(widest, len(t.Header[i]))
	}
	for n, row := range t.rows {
		if n > 0 {
			b.WriteString("\n")
		}
		for _, i := range kept {
			if cell := fmt.Sprint(row[i]); cell != "" {
				fmt.Fprintf(&b, "%-*s  %s\n", widest, t.Header[i], t.painted(i, row[i]))
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (t *Table) boxed() string {
	w := table.NewWriter()
	w.SetStyle(table.StyleLight)
	kept := t.filled()
	widths, fits := t.widths(kept)
	if !fits {
		return t.records(kept)
	}
	w.AppendHeader(pick(kept, t.Header))
	for _, row := range t.rows {
		w.AppendRow(pick(kept, row))
	}
	var configs []table.ColumnConfig
	for i, width := range widths {
		configs = append(configs, table.ColumnConfig{
			Number: i + 1, WidthMax: width, WidthMaxEnforcer: wrap,
			Transformer: func(cell any) string { return t.painted(kept[i], cell) },
		})
	}
	w.SetColumnConfigs(configs)
	return w.Render()
}

// painted is a cell of a column as it is printed.
func (t *Table) painted(column int, cell any) string {
	s := fmt.Sprint(cell)
	if paint := t.Paint[t.Header[column]]; paint != nil {
		return paint(s)
	}
	return s
}

// wrap breaks a text into lines. The library lets a character of two columns stick out by one.
func wrap(s string, width int) string {
	if out := pretty.WrapSoft(s, width); pretty.LongestLineLen(out) <= width {
		return out
	}
	return pretty.WrapSoft(s, width-1)
}

// filled are the columns with something else than 0 in one of the rows, and the first.
func (t *Table) filled() []int {
	kept := []int{0}
	for i := 1; i < len(t.Header); i++ {
		has := func(row []any) bool {
			cell := fmt.Sprint(row[i])
			return cell != "" && cell != "0"
		}
		if slices.ContainsFunc(t.rows, has) {
			kept = append(kept, i)
		}
	}
	return kept
}

func pick[T any](columns []int, cells []T) table.Row {
	var out table.Row
	for _, i := range columns {
		out = append(out, cells[i])
	}
	return out
}

const narrowest = 6 // that a column gets to fit a table into a terminal

// widths makes the columns fit, if that can be: first those narrower that can be wrapped between
// words, then the widest ones.
func (t *Table) widths(kept []int) (columns []int, fits bool) {
	widths, words := t.natural(kept)
	over := t.over(widths)
	for _, floor := range [][]int{words, slices.Repeat([]int{narrowest}, len(kept))} {
		over = shrink(widths, floor, over)
	}
	return widths, over <= 0
}

// over is by how much columns of these widths are wider than the terminal.
func (t *Table) over(widths []int) int {
	over := 1 - t.Width // the border on the right
	for _, w := range widths {
		over += w + 3 // a border and two spaces
	}
	return over
}

// natural are the widths that columns want, and those of their longest words.
func (t *Table) natural(kept []int) (widths, words []int) {
	widths, words = make([]int, len(kept)), make([]int, len(kept))
	for i, column := range kept {
		words[i] = narrowest
		cells := []string{t.Header[column]}
		for _, row := range t.rows {
			cells = append(cells, fmt.Sprint(row[column]))
		}
		for _, cell := range cells {
			widths[i] = max(widths[i], pretty.StringWidthWithoutEscSequences(cell))
			for _, word := range strings.Fields(cell) {
				// Chinese and Japanese break anywhere.
				if n := pretty.StringWidthWithoutEscSequences(word); n == utf8.RuneCountInString(word) {
					words[i] = max(words[i], n)
				}
			}
		}
	}
	return widths, words
}

// shrink takes over from the widest of the columns that are above their floor, and returns what is
// left of it.
func shrink(widths, floor []int, over int) int {
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if w > floor[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return over
}
