package terminal

import (
	"strings"
	"testing"

	pretty "github.com/jedib0t/go-pretty/v6/text"
)

// TestPaint: colours take no room, in any form of a table, and are in the column that has them.
func TestPaint(t *testing.T) {
	print := func(width int, paint map[string]func(string) string) string {
		g := &Table{Width: width, Header: []string{"id", "state", "subject"}, Paint: paint}
		g.Add(1, "dead", "dead is not a state here, and long enough for several lines")
		var b strings.Builder
		if err := g.Print(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, width := range []int{0, 10, 40, 200} {
		plain, painted := print(width, nil), print(width, map[string]func(string) string{"state": Red.Of})
		if strings.Count(painted, "\x1b[31mdead\x1b[0m") != 1 {
			t.Errorf("%d columns: it is\n%q\nwant the state in red, and nothing else", width, painted)
		}
		if got := pretty.StripEscape(painted); got != plain {
			t.Errorf("%d columns: without colours it is\n%s\nwant\n%s", width, got, plain)
		}
	}
}
