package route

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestExpressionCost: an expression that would run for hours, or take all memory, ends at once with
// an error, and the message is undecided. Nothing here measures time.
func TestExpressionCost(t *testing.T) {
	const (
		budget = "when is undecided: the expression fails: memory budget exceeded" // the library's
		loops  = "its lists and its text are too long for the loops of the expression"
	)
	thousand := "To: a@x.example" + strings.Repeat(", a@x.example", maxList-1)
	letters := "Subject: " + strings.Repeat("x", 5000) + "\n\n" + strings.Repeat("x", 300<<10)
	for _, tt := range []struct{ name, when, mail, want string }{
		{"a range", `all(1..1000000000, # > 0)`, "Subject: x", budget},
		{"a range as long as the message says", `any(1..size * 1000000, # == 0)`, "Subject: x", budget},
		{"lists built in a loop", `all(to, len(map(to, #)) > 0)`, thousand, budget},
		{"loops in loops", `all(to, all(to, all(to, # != "")))`, thousand, loops},
		{"a long text for each letter", `all(split(subject, ""), body contains #)`, letters, loops},
		{
			"a long text for each letter, by another name",
			`let b = body; all(split(subject, ""), b contains #)`, letters, loops,
		},
		{"the letters of a long text", `all(split(body, ""), true)`, letters, loops},
	} {
		t.Run(tt.name, func(t *testing.T) {
			match := Match{When: tt.when}
			if matched, why := only(t, match, mailOf(t, tt.mail)); matched || !strings.Contains(why, tt.want) {
				t.Errorf("matched = %v, explained as\n%s, want no match and %q", matched, why, tt.want)
			}
			if matched, why := only(t, Match{Not: &match}, mailOf(t, tt.mail)); matched {
				t.Errorf("its negation matched, explained as\n%s, want neither to match", why)
			}
		})
	}
}

// TestExpressionErrorHasAPlace: the character of the expression, from 1.
func TestExpressionErrorHasAPlace(t *testing.T) {
	for src, want := range map[string]int{
		"größe":                           1,
		"subject == \"ü\" and bodyy == 1": 20,
		"size >\n 1 and\nx":               15,
		`subject matches subject`:         9,
		`age > duration("30d")`:           7,
	} {
		_, err := Compile([]Rule{{Name: "r", To: []string{"a@x.example"}, Match: Match{When: src}}})
		var errs Errors
		if !errors.As(err, &errs) || errs[0].Char != want {
			t.Errorf("%q: the error %v is at character %d, want %d", src, err, errs[0].Char, want)
		}
	}
}

// TestDocs: what the manual shows compiles, and it names all functions.
func TestDocs(t *testing.T) {
	src, err := os.ReadFile("../../docs/routes.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^    (match: \{.*\})$`).FindAllSubmatch(src, -1)
	list := "`split`, `" + strings.Join(builtins, "`, `") + "`"
	if !strings.Contains(strings.Join(strings.Fields(string(src)), " "), list) {
		t.Errorf("docs/routes.md does not have the list of functions, %s", list)
	}
	if len(shown) < 4 {
		t.Errorf("docs/routes.md shows %d expressions, want 4 or more", len(shown))
	}
	for _, s := range shown {
		var r Rule
		if err := yaml.Unmarshal(s[1], &r); err != nil {
			t.Fatalf("%s: %v", s[1], err)
		}
		r.Name, r.To = "r", []string{"a@x.example"}
		compile(t, r)
	}
}
