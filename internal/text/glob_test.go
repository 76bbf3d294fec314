package text

import "testing"

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a@x.example", "a@x.example", true},
		{"a@x.example", "aa@x.example", false},
		{"*@x.example", "a@x.example", true},
		{"*@x.example", "a@x-example", false},
		{"*@x.example", "a@x.example.org", false},
		{"a*", "a\nb", true},
		{"?", "ü", true},
		{"?", "", false},
		{`[ab]\*(`, `[ab]\(`, true},
		{"*\xff", "a\ufffd", true},
	} {
		if got := Glob(c.pattern)(c.text); got != c.want {
			t.Errorf("Glob(%q)(%q) = %v, want %v", c.pattern, c.text, got, c.want)
		}
	}
}
