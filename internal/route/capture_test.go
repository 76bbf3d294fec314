package route

import (
	"encoding/json"
	"reflect"
	"regexp/syntax"
	"strings"
	"testing"

	"postrider/internal/address"
)

func TestCaptures(t *testing.T) {
	subject := func(re string) Match { return Match{Subject: []string{re}} }
	word := subject(`/client (?P<c>.+)$/`)
	tests := []struct {
		name  string
		match Match
		to    string
		mail  string
		want  string // the recipient; else a part of why there is none
	}{
		{"a part", word, "${c}@x.example", "Subject: client smith", "smith@x.example"},
		{"case is kept", word, "${c}@x.example", "Subject: client McSmith", "McSmith@x.example"},
		{"a domain", word, "desk@${c}.example", "Subject: client smith", "desk@smith.example"},
		{"all of it", word, "${c}", "Subject: client a@b.example", "a@b.example"},
		{"twice", word, "${c}+${c}@x.example", "Subject: client a", "a+a@x.example"},
		{
			"the rest of a line",
			Match{Body: []string{`/case: (?P<c>.+)/`}},
			"${c}@x.example", "Subject: x\n\nCase: A-12\nBye\n", "A-12@x.example",
		},
		{"full width digits", subject(`/no\. (?P<c>\d+)/`), "${c}@x.example", "Subject: Ｎｏ．　１２", "12@x.example"},
		{"full width in a word", word, "${c}@x.example", "Subject: client ａ４７", "a47@x.example"},
		{"a full width comma", word, "${c}@x.example", "Subject: client a，b", "not ','"},
		{"a second @, in full width", word, "${c}@x.example", "Subject: client a＠b.example", "is not an address"},
		{
			"the second of two fields",
			Match{Header: map[string][]string{"X-C": {`/^c=(?P<c>\w+)$/`}}},
			"${c}@x.example", "X-C: d\nX-C: c=7", "7@x.example",
		},
		{
			"the first pattern that holds",
			Match{Subject: []string{`/never (?P<c>a)/`, `/(?P<c>b)/`}},
			"${c}@x.example", "Subject: a b", "b@x.example",
		},
		{
			"the first of a choice",
			Match{Any: []Match{subject("/(?P<c>z)/"), subject("/(?P<c>b)/"), subject("/(?P<c>a)/")}},
			"${c}@x.example", "Subject: a b", "b@x.example",
		},
		{
			"never of a negation",
			Match{Not: &Match{From: []string{`/^(?P<c>a)@/`}, Subject: []string{"x"}}, Body: []string{"/(?P<c>b)/"}},
			"${c}@x.example", "From: a@y.example\n\nb", "b@x.example",
		},
		{
			"of an address",
			Match{To: []string{`/^intake\+(?P<c>[^@]+)@/`}},
			"${c}@x.example",
			"To: Intake+7@firm.example", "7@x.example",
		},
		{
			"nothing", subject(`/client(?: (?P<c>\w+))?/`), "${c}@x.example", "Subject: client",
			`to[0] ("${c}@x.example") becomes "@x.example", which is not an address: the part before the @ is invalid`,
		},
		{"two addresses", word, "${c}@x.example", "Subject: client a@b.example,c", "not ','"},
		{"another domain", word, "${c}@x.example", "Subject: client a@b.example", "is not an address"},
		{"quotes", word, "${c}@x.example", `Subject: client "a b"`, `not '"'`},
		{"a route of its own", word, "${c}@x.example", "Subject: client a%b.example", "not '%'"},
		{
			"a route of its own, written in the rule",
			word, "file/${c}@x.example", "Subject: client smith", "file/smith@x.example",
		},
		{"quotes, written in the rule", word, `"to ${c}"@x.example`, "Subject: client smith", `"to smith"@x.example`},
		{"an address literal", word, "file+${c}@[192.0.2.1]", "Subject: client smith", "file+smith@[192.0.2.1]"},
		{"a dash, written in the rule", word, "-${c}@x.example", "Subject: client smith", "-smith@x.example"},
		{"what the rule writes, in what is captured", word, "file/${c}@x.example", "Subject: client a/b", "not '/'"},
		{"an option", word, "${c}@x.example", "Subject: client -oQ", "begin with a dash"},
		{"an SMTP command", word, "${c}@x.example", "Subject: client a@x.example> RCPT TO:<b", "not '>'"},
		{
			"too long", word, "${c}@x.example", "Subject: client " + strings.Repeat("x", 65),
			"is longer than mail allows",
		},
		{
			"a control character", word, "${c}@x.example", "Subject: =?utf-8?Q?client_a=E2=80=AEb?=",
			"into an address, not",
		},
	}
	rest := Rule{Name: "rest", To: []string{"rest@x.example"}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := compile(t, Rule{Name: "r", Match: tt.match, To: []string{tt.to}}, rest)
			d := table.Decide(t.Context(), mailOf(t, tt.mail))
			switch {
			case len(d.To) == 1 && d.To[0] == tt.want && d.Problems == nil && !d.Unreached:
			case reflect.DeepEqual(d.To, rest.To) && address.Check(tt.want) != nil && d.Unreached &&
				len(d.Problems) == 1 && strings.Contains(d.Problems[0], tt.want):
				if want := "matches route rest; " + d.Problems[0]; d.Reason != want {
					t.Errorf("the reason is %q, want %q", d.Reason, want)
				}
			default:
				t.Errorf("decided %+v, want %q, or in a reason why the next rule was taken", d, tt.want)
			}
		})
	}
}

// TestCapturedPriority: one that is none is normal, and said.
func TestCapturedPriority(t *testing.T) {
	word := Match{Subject: []string{`/^(?P<p>\w*)/`}}
	table := compile(t, Rule{Name: "r", To: []string{"a@x.example"}, Priority: "${p}", Match: word})
	for subject, want := range map[string]Priority{
		"HIGH": High, "high now": High, "normal": Normal, "": Normal, "higher": Normal,
	} {
		d := table.Decide(t.Context(), mailOf(t, "Subject: "+subject))
		said := strings.Contains(d.Reason,
			`priority ("${p}") becomes "higher", which is not a priority; normal is used`)
		if d.Priority != want || len(d.To) != 1 || d.Unreached || said != (subject == "higher") {
			t.Errorf("subject %q: decided %+v, want priority %s, and a reason only for what is none", subject, d, want)
		}
	}
}

// TestCaptured is by the rules that a message went by: the first that found something counts, and
// others are not asked.
func TestCaptured(t *testing.T) {
	rule := func(name, re string) Rule {
		return Rule{Name: name, To: []string{"a@x.example"}, Continue: true, Match: Match{Subject: []string{re}}}
	}
	table := compile(t,
		rule("client", `/client (?P<client>\w+)/`),
		rule("none", `/never (?P<client>x)/`),
		rule("file", `/file (?P<client>)(?P<file>\d+)/`),
		Rule{Name: "body", To: []string{"a@x.example"}, Match: Match{Body: []string{`/sum (?P<sum>\d+)/`}}})
	if got, want := strings.Join(table.Captures(), " "), "client client client file sum"; got != want {
		t.Errorf("Captures = %q, want %q", got, want)
	}
	mail := mailOf(t, "Subject: client Smith, file 12\n\nsum 5")
	for route, want := range map[string]map[string]string{
		table.Decide(t.Context(), mail).Route: {"client": "Smith", "file": "12", "sum": "5"},
		"file":                                {"file": "12"},
		"none+gone":                           {},
		"":                                    {},
	} {
		if got := table.Captured(t.Context(), route, mail); !reflect.DeepEqual(got, want) {
			t.Errorf("Captured by %q = %v, want %v", route, got, want)
		}
	}
}

func TestExplainConditions(t *testing.T) {
	table := compile(t,
		Rule{Name: "first", To: []string{"${n}@x.example"}, Match: Match{
			Subject: []string{"x", `/case (?P<n>\d+)/`}, From: []string{"a@*"},
			Any: []Match{{Cc: []string{"c@*"}}, {Body: []string{"HEARING"}}},
		}},
		Rule{Name: "second", To: []string{"a@x.example"}})
	m := mailOf(t, "From: b@x.example\nSubject: case 7\n\n"+strings.Repeat("text ", 100)+"of a Hearing on Monday")
	want := []Step{
		{Route: "first", Outcome: Failed, Conditions: []Check{
			{Key: "from", Is: NotHeld, Want: []string{"a@*"}, Got: []string{"b@x.example"}},
			{
				Key: "subject", Is: Held, Want: []string{"x", `/case (?P<n>\d+)/`}, Got: []string{"case 7"},
				On: "case 7", By: `/case (?P<n>\d+)/`,
			},
			{Key: "any", Is: Held, Of: []Check{
				{Key: "any[0]", Is: NotHeld, Of: []Check{{Key: "any[0].cc", Is: NotHeld, Want: []string{"c@*"}}}},
				{Key: "any[1]", Is: Held, Of: []Check{{
					Key: "any[1].body", Is: Held, Want: []string{"HEARING"}, By: "HEARING",
					Got: []string{"text text text text text text text text text text text text text text text text…"},
					On:  "…text text text of a hearing on monday",
				}}},
			}},
		}},
		{Route: "second", Outcome: Matched, Conditions: []Check{}, Captured: map[string]string{}},
	}
	if got, want := asJSON(t, table.Explain(t.Context(), m)), asJSON(t, want); got != want {
		t.Errorf("explained as\n%s\nwant\n%s", got, want)
	}
}

// TestExplainCapturesTheSame: to explain is to look at all of a choice, and still only what held
// first is captured.
func TestExplainCapturesTheSame(t *testing.T) {
	choice := []Match{{Subject: []string{"/(?P<c>b)/"}}, {Subject: []string{"/(?P<d>a)/"}}}
	table := compile(t, Rule{Name: "r", Match: Match{Any: choice}, To: []string{"${c}+${d}@x.example"}})
	m := mailOf(t, "Subject: a b")
	step := table.Explain(t.Context(), m)[0]
	want := map[string]string{"c": "b"}
	if !reflect.DeepEqual(step.Captured, want) || len(step.Conditions[0].Of) != 2 {
		t.Errorf("explained as %+v, want both of the choice, and captured %v", step, want)
	}
	if d := table.Decide(t.Context(), m); !reflect.DeepEqual(d.To, []string{"b+@x.example"}) {
		t.Errorf("decided %+v, want what Explain says", d)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzNeedles: looking for needles first never hides what an expression matches.
func FuzzNeedles(f *testing.F) {
	for _, s := range [][2]string{
		{`case (no\.|number) \d+`, "Case No. 7"},
		{`j`, "J\u030c"},
		{`k`, "\u212a"},
		{`(ſ|x)y*`, "S"},
		{`開廷|期日`, "開廷"},
		{`fi`, "ﬁ"},
		{`(?-i)It|é`, "I\u0307t"},
		{`a{2,}b?[c]`, "aac"},
		{`h\x{331}`, "H\u0331"},
		{`ss`, "ß"},
		{`\xff`, "\xff"},
		{`豈`, "豈"},
	} {
		f.Add(s[0], s[1])
	}
	filler := strings.Repeat(" .", longText)
	f.Fuzz(func(t *testing.T, expr, s string) {
		p, err := regexpPattern("/" + expr + "/")
		if err != nil {
			return
		}
		long := newText(filler + s + filler)
		all := long
		all.grams = nil
		if got, want := p.holds(long), p.holds(all); got != want {
			t.Errorf("/%s/ in %q, folded %q: %v with needles %q, want %v as without",
				expr, s, newText(s).folded, got, needlesOf(mustParse(t, expr)), want)
		}
	})
}

func mustParse(t *testing.T, expr string) *syntax.Regexp {
	t.Helper()
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	return re
}
