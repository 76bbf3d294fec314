package terminal

import (
	"strings"
	"testing"

	pretty "github.com/jedib0t/go-pretty/v6/text"
)

// TestSqueeze: a table fits the terminal with one line a row, also with characters of two columns.
func TestSqueeze(t *testing.T) {
	for _, width := range []int{44, 60, 61, 80, 200} {
		g := &Table{Width: width, Header: []string{"id", "from", "subject", "state"}}
		g.Add(1, "a-very-long-address@court.example", "a long subject of many words", "skipped_no_match")
		g.Add(2, "b@court.example", "開廷のお知らせと書類の提出について、至急ご確認ください", "dead")
		g.Squeeze("from", "subject")
		var b strings.Builder
		if err := g.Print(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != 6 {
			t.Errorf("%d columns: %d lines, want 6: a line for each row\n%s", width, len(lines), &b)
		}
		for _, l := range lines {
			if n := pretty.StringWidthWithoutEscSequences(l); n > width {
				t.Errorf("%d columns: a line has %d:\n%s", width, n, &b)
			}
		}
		if cut := strings.Contains(b.String(), "…"); cut != (width < 200) {
			t.Errorf("%d columns: cut is %v:\n%s", width, cut, &b)
		}
	}
}

// TestSqueezeTooNarrow: what does not fit even so is not cut.
func TestSqueezeTooNarrow(t *testing.T) {
	g := &Table{Width: 20, Header: []string{"id", "from", "state"}}
	g.Add(1, "a-very-long-address@court.example", "skipped_no_match")
	g.Squeeze("from")
	var b strings.Builder
	if err := g.Print(&b); err != nil || strings.Contains(b.String(), "…") {
		t.Errorf("it is\n%s\n(%v), want the whole address in a list", &b, err)
	}
}

// TestShort: a text is cut for a person alone.
func TestShort(t *testing.T) {
	for width, want := range map[int]string{0: "two lines", 80: "two…"} {
		if got := (&Table{Width: width}).Short("two\nlines", 4); got != want {
			t.Errorf("with a width of %d it is %q, want %q", width, got, want)
		}
	}
}
