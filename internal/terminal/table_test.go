package terminal

import (
	"strings"
	"testing"

	pretty "github.com/jedib0t/go-pretty/v6/text"
)

func example() *Table {
	t := &Table{Header: []string{"inbox", "dead", "waiting", "note"}}
	t.Add("desk@firm.example", 0, 2, "log in:\n\x1b[2Jno")
	t.Add("開廷@firm.example", 0, 10, strings.Repeat("a long story ", 20))
	t.Add("開廷", 0, 0, strings.Repeat("開廷", 40))
	t.Add("total", 0, 12, "")
	return t
}

func (t *Table) print(tb testing.TB, width int) string {
	tb.Helper()
	var b strings.Builder
	t.Width = width
	if err := t.Print(&b); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	const want = `
┌───────────────────┬─────────┬────────────────────────────┐
│ INBOX             │ WAITING │ NOTE                       │
├───────────────────┼─────────┼────────────────────────────┤
│ desk@firm.example │       2 │ log in: [2Jno              │
│ team@firm.example │      10 │ a long story that does not │
│                   │         │ fit into the line          │
│ total             │      12 │                            │
└───────────────────┴─────────┴────────────────────────────┘
`
	table := &Table{Header: []string{"inbox", "dead", "waiting", "note"}}
	table.Add("desk@firm.example", 0, 2, "log in:\n\x1b[2Jno")
	table.Add("team@firm.example", 0, 10, "a long story that does not fit into the line")
	table.Add("total", 0, 12, "")
	if got := "\n" + table.print(t, 60); got != want {
		t.Errorf("the table is%s\nwant%s", got, want)
	}
}

// TestTableFits: between a terminal that is wide enough and one that has 6 characters a column, no
// line is too long.
func TestTableFits(t *testing.T) {
	for width := 28; width < 300; width++ {
		got := example().print(t, width)
		for line := range strings.Lines(got) {
			if n := pretty.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("with %d columns a line has %d:\n%s", width, n, got)
			}
		}
	}
}

func TestTableWithoutATerminal(t *testing.T) {
	table := &Table{Header: []string{"inbox", "dead", "note"}}
	const empty = "INBOX\tDEAD\tNOTE\n"
	if got := (&Table{Header: table.Header}).print(t, 0); got != empty {
		t.Errorf("an empty table is %q, want its header %q", got, empty)
	}
	table.Add("desk@firm.example", 0, "two\r\nlines\tand a tab")
	table.Add("total", 0, "")
	const want = empty + "desk@firm.example\t0\ttwo lines and a tab\ntotal\t0\t\n"
	if got := table.print(t, 0); got != want {
		t.Errorf("the table is %q, want all columns, one line a row: %q", got, want)
	}
}

// TestRecords: where not even narrow columns fit, each row is a list of names and values.
func TestRecords(t *testing.T) {
	table := &Table{Header: []string{"id", "dead", "status", "reason"}}
	table.Add(1, 0, "dead", "")
	table.Add(2, 0, "forwarded", "why \x1b[2J")
	table.Add("total", 0, 12, "")
	const want = "id      1\nstatus  dead\n\n" +
		"id      2\nstatus  forwarded\nreason  why [2J\n\n" +
		"id      total\nstatus  12\n"
	if got := table.print(t, 20); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

// TestCommon: on a terminal a column that has the same text everywhere is left out.
func TestCommon(t *testing.T) {
	for _, tt := range []struct {
		name   string
		width  int
		values []string
		want   string
	}{
		{"the same", 80, []string{"a", "a"}, "a"},
		{"one row", 80, []string{"a"}, "a"},
		{"different", 80, []string{"a", "b"}, ""},
		{"no rows", 80, nil, ""},
		{"no terminal", 0, []string{"a", "a"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := &Table{Width: tt.width, Header: []string{"id", "inbox"}}
			for i, v := range tt.values {
				table.Add(i+1, v)
			}
			if got := table.Common("inbox"); got != tt.want {
				t.Errorf("Common is %q, want %q", got, tt.want)
			}
			shown := strings.Contains(table.print(t, tt.width), "INBOX")
			if shown == (tt.want != "") && len(tt.values) > 0 {
				t.Errorf("the column is shown: %v, want it shown unless its text is common", shown)
			}
		})
	}
}
