package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	pretty "github.com/jedib0t/go-pretty/v6/text"

	"postrider/internal/text"
)

// grid is a table. On a terminal it has borders, fits the width, and leaves out columns without any content. Elsewhere
// it is text between tabs under one header line, with all columns, so that a script finds each in its place.
type grid struct {
	width  int // of the terminal; 0 for none
	header []string
	rows   [][]any
	total  []any
}

// grid is a table with these columns.
func (a *app) grid(header ...string) *grid {
	return &grid{width: cmp.Or(a.width, columns(a.out)), header: header}
}

// add adds a row. Cells may hold text by strangers.
func (g *grid) add(cells ...any) {
	for i, c := range cells {
		switch c.(type) {
		case int, int64, uint32: // aligned to the right
		default:
			cells[i] = text.Line(fmt.Sprint(c))
		}
	}
	g.rows = append(g.rows, cells)
}

func (g *grid) print(w io.Writer) error {
	if g.width == 0 {
		return g.plain(w)
	}
	_, err := fmt.Fprintln(w, g.boxed())
	return err
}

func (g *grid) plain(w io.Writer) error {
	var b strings.Builder
	b.WriteString(strings.ToUpper(strings.Join(g.header, "\t")) + "\n")
	for _, row := range g.all() {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = fmt.Sprint(c)
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *grid) boxed() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	kept := g.filled()
	t.AppendHeader(pick(kept, g.header))
	for _, row := range g.rows {
		t.AppendRow(pick(kept, row))
	}
	if g.total != nil {
		t.AppendSeparator()
		t.AppendRow(pick(kept, g.total))
	}
	var configs []table.ColumnConfig
	for i, width := range g.widths(kept) {
		configs = append(configs, table.ColumnConfig{Number: i + 1, WidthMax: width, WidthMaxEnforcer: pretty.WrapSoft})
	}
	t.SetColumnConfigs(configs)
	return t.Render()
}

func (g *grid) all() [][]any {
	if g.total == nil {
		return g.rows
	}
	return append(slices.Clip(g.rows), g.total)
}

// filled are the columns with something else than 0 in one of the rows, and the first.
func (g *grid) filled() []int {
	kept := []int{0}
	for i := 1; i < len(g.header); i++ {
		if slices.ContainsFunc(g.rows, func(row []any) bool { cell := fmt.Sprint(row[i]); return cell != "" && cell != "0" }) {
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

// widths makes the columns fit: first those narrower that can be wrapped between words, then the widest ones.
func (g *grid) widths(kept []int) []int {
	widths, words := make([]int, len(kept)), make([]int, len(kept))
	for i, column := range kept {
		words[i] = narrowest
		cells := []string{g.header[column]}
		for _, row := range g.all() {
			cells = append(cells, fmt.Sprint(row[column]))
		}
		for _, cell := range cells {
			widths[i] = max(widths[i], pretty.StringWidthWithoutEscSequences(cell))
			for _, word := range strings.Fields(cell) {
				words[i] = max(words[i], pretty.StringWidthWithoutEscSequences(word))
			}
		}
	}
	over := 1 - g.width // the border on the right
	for _, w := range widths {
		over += w + 3 // a border and two spaces
	}
	for _, floor := range [][]int{words, slices.Repeat([]int{narrowest}, len(kept))} {
		over = shrink(widths, floor, over)
	}
	return widths
}

// shrink takes over from the widest of the columns that are above their floor, and returns what is left of it.
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
