package route

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"postrider/internal/message"
)

// mailOf makes a mail of text with any line ends.
func mailOf(t testing.TB, text string) Mail {
	t.Helper()
	spool := (&message.Spooler{Limit: 1 << 20, Budget: 1 << 24}).New()
	if _, err := spool.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(spool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return Mail{Inbox: "office@firm.example", Folder: "INBOX", Message: m, Size: spool.Size()}
}

func compile(t testing.TB, rules ...Rule) *Table {
	t.Helper()
	table, err := Compile(rules)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return table
}

// TestFiles runs testdata/routes: rules, messages and who should get them.
func TestFiles(t *testing.T) {
	files, _ := filepath.Glob("testdata/routes/*.yaml")
	if len(files) == 0 {
		t.Fatal("no files in testdata/routes")
	}
	for _, name := range files {
		var file struct {
			Routes   []Rule
			Contacts []Contact // the directory
			Messages []struct {
				That, Inbox, Folder, Message, Route, Priority string
				To                                            []string
				LeftOut                                       string `yaml:"left_out"`
				Skip                                          bool
				Registered                                    time.Time
			}
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(src, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		table := compile(t, file.Routes...).With(NewDirectory(file.Contacts))
		for _, c := range file.Messages {
			t.Run(filepath.Base(name)+"/"+c.That, func(t *testing.T) {
				m := mailOf(t, c.Message)
				m.At = c.Registered
				m.Inbox, m.Folder = cmp.Or(c.Inbox, m.Inbox), cmp.Or(c.Folder, m.Folder)
				checkSure(t, table, m)
				d := table.Decide(t.Context(), m)
				const form = "route %q to %v, left out %q, skip %v priority %s"
				got := fmt.Sprintf(form, d.Route, d.To, d.LeftOut, d.Skip, d.Priority)
				want := fmt.Sprintf(form, c.Route, c.To, c.LeftOut, c.Skip, c.Priority)
				if got != want {
					t.Errorf("decided\n  %s\nwant\n  %s\nbecause\n%s", got, want, explain(table, m))
				}
			})
		}
	}
}

func explain(table *Table, m Mail) string {
	var b strings.Builder
	for _, s := range table.Explain(context.Background(), m) {
		fmt.Fprintln(&b, " ", s)
	}
	return b.String()
}

func TestMatch(t *testing.T) {
	yes, no := true, false
	const attached = "Content-Disposition: attachment; filename=a.pdf\n\nx"
	tests := []struct {
		name  string
		match Match
		mail  string
		want  bool
	}{
		{"catch-all", Match{}, "Subject: x", true},
		{"catch-all, nothing to parse", Match{}, "", true},
		{"inbox", Match{Inbox: []string{"OFFICE@*"}}, "", true},
		{"other inbox", Match{Inbox: []string{"desk@firm.example"}}, "", false},
		{"folder, other case", Match{Folder: []string{"inbox"}}, "", true},
		{"folder is not a part", Match{Folder: []string{"INB"}}, "", false},
		{"folder by regexp", Match{Folder: []string{"/^in/"}}, "", true},
		{"from, whole", Match{From: []string{"a@x.example"}}, "From: A <a@X.example>", true},
		{"from, no part", Match{From: []string{"a@x.example"}}, "From: aa@x.example", false},
		{"from, second author", Match{From: []string{"b@*"}}, "From: a@x.example, b@x.example", true},
		{"from, several fields", Match{From: []string{"b@*"}}, "From: a@x.example\nFrom: b@x.example", true},
		{"from, question mark", Match{From: []string{"a?@x.example"}}, "From: ab@x.example", true},
		{"from, question mark is one", Match{From: []string{"a?@x.example"}}, "From: a@x.example", false},
		{"from, dot is a dot", Match{From: []string{"*@a.example"}}, "From: x@aXexample", false},
		{"from, regexp", Match{From: []string{`/^(a|b)@x\.example$/`}}, "From: B@x.example", true},
		{"from, broken field", Match{From: []string{"a@x.example"}}, "From: John Doe a@x.example>", true},
		{"from, dot at the end", Match{From: []string{"a@x.example."}}, "From: a@x.example", true},
		{"from, xn-- pattern", Match{From: []string{"*@xn--mnchen-3ya.example"}}, "From: a@MÜNCHEN.example", true},
		{
			"from, decomposed pattern",
			Match{From: []string{"*@mu\u0308nchen.example"}},
			"From: a@xn--mnchen-3ya.example", true,
		},
		{"from, sharp s is not ss", Match{From: []string{"*@strasse.example"}}, "From: a@straße.example", false},
		{
			"from, sharp s is not ss, xn--",
			Match{From: []string{"*@strasse.example"}},
			"From: a@xn--strae-oqa.example", false,
		},
		{
			"from, sharp s is not ss, regexp",
			Match{From: []string{`/@strasse\.example$/`}},
			"From: a@straße.example", false,
		},
		{"from, subdomain, no @", Match{From: []string{"*.court.example"}}, "From: clerk@x.court.example", true},
		{
			"from, domain before the @, no @",
			Match{From: []string{"*.court.example"}},
			"From: x.court.example@evil.example", false,
		},
		{"from, before the @", Match{From: []string{"*-noreply@*"}}, "From: court-noreply@x.example", true},
		{
			"from, sharp s is not ss, no @",
			Match{From: []string{"*.straße.example"}},
			"From: a@b.strasse.example", false,
		},
		{
			"from, sharp s in the domain, no @",
			Match{From: []string{"*.straße.example"}},
			"From: a@b.xn--strae-oqa.example", true,
		},
		{"from, sharp s, xn--", Match{From: []string{"*@straße.example"}}, "From: a@XN--STRAE-OQA.example", true},
		{"from, dotless i is not i", Match{From: []string{"*@isparta.example"}}, "From: a@ısparta.example", false},
		{"from, dotted I is not i", Match{From: []string{"*@isparta.example"}}, "From: a@İsparta.example", false},
		{"from, xn-- of ASCII is not it", Match{From: []string{"*@firm.example"}}, "From: a@xn--firm-.example", false},
		{"from, full width", Match{From: []string{"＊@ｂücher．example"}}, "From: Ａ@xn--bcher-kva.example", true},
		{
			"from, a second @ in full width",
			Match{From: []string{"*@court.example"}},
			"From: <a@evil.example＠court.example>", false,
		},
		{
			"from, a small second @",
			Match{From: []string{"*@court.example"}},
			"From: <a@evil.example﹫court.example>", false,
		},
		{"from, sharp s before the @", Match{From: []string{"strasse@*"}}, "From: Straße@x.example", true},
		{"missing from", Match{From: []string{"*"}}, "Subject: x", false},
		{"to", Match{To: []string{"b@*"}}, "To: team: a@x.example, b@x.example;", true},
		{"to is not cc", Match{To: []string{"b@*"}}, "Cc: b@x.example", false},
		{"cc", Match{Cc: []string{"b@*"}}, "Cc: b@x.example", true},
		{"recipient in to", Match{Recipient: []string{"b@*"}}, "To: b@x.example", true},
		{"recipient in cc", Match{Recipient: []string{"b@*"}}, "Cc: b@x.example", true},
		{"recipient in X-Original-To", Match{Recipient: []string{"b@*"}}, "X-Original-To: b@x.example", true},
		{"recipient in Envelope-To", Match{Recipient: []string{"b@*"}}, "Envelope-to: b@x.example", true},
		{"recipient is not from", Match{Recipient: []string{"b@*"}}, "From: b@x.example", false},
		{"subject, part", Match{Subject: []string{"EAR"}}, "Subject: hearing", true},
		{"subject, any of", Match{Subject: []string{"lunch", "hear"}}, "Subject: hearing", true},
		{"subject, none of", Match{Subject: []string{"lunch", "dinner"}}, "Subject: hearing", false},
		{"subject, folded", Match{Subject: []string{"court hearing"}}, "Subject: court\n   hearing", true},
		{"subject, star is a star", Match{Subject: []string{"***spam***"}}, "Subject: ***SPAM*** x", true},
		{"subject, ideographic space", Match{Subject: []string{"A B"}}, "Subject: a\u3000b", true},
		{"subject, decomposed", Match{Subject: []string{"café"}}, "Subject: CAFE\u0301", true},
		{"subject, final sigma", Match{Subject: []string{"ΟΔΟΣ"}}, "Subject: οδος", true},
		{"subject, dotless i", Match{Subject: []string{"IĞDIR"}}, "Subject: ığdır", true},
		{
			"subject, raw latin-2",
			Match{Subject: []string{"ŁÓDŹ"}},
			"Content-Type: text/plain; charset=iso-8859-2\nSubject: \xa3\xf3d\xbc", true,
		},
		{
			"subject, raw shift_jis",
			Match{Subject: []string{"日本"}},
			"Content-Type: text/plain; charset=Shift_JIS\nSubject: \x93\xfa\x96\x7b", true,
		},
		{
			"subject, raw gb18030",
			Match{Subject: []string{"你好"}},
			"Content-Type: text/plain; charset=gb18030\nSubject: \xc4\xe3\xba\xc3", true,
		},
		{"regexp ignores case", Match{Subject: []string{"/^urgent/"}}, "Subject: URGENT x", true},
		{"regexp minds case when told", Match{Subject: []string{"/(?-i)^urgent/"}}, "Subject: URGENT x", false},
		{"regexp, folded", Match{Subject: []string{"/court hearing/"}}, "Subject: court\n   hearing", true},
		{"regexp, alternatives", Match{Subject: []string{"/^a|^b/"}}, "Subject: Bcd", true},
		{"regexp, full width", Match{Subject: []string{`/^no\. \d+/`}}, "Subject: Ｎｏ．　１２", true},
		{"regexp, full width on both sides", Match{Subject: []string{"/Ｎｏ/"}}, "Subject: Ｎｏ", true},
		{"text that starts with a slash", Match{Subject: []string{`/\/etc/`}}, "Subject: in /etc", true},
		{"header", Match{Header: map[string][]string{"x-mailer": {"station"}}}, "X-Mailer: ScanStation 3", true},
		{"header, second of two", Match{Header: map[string][]string{"X-A": {"two"}}}, "X-A: one\nX-A: two", true},
		{"header is there", Match{Header: map[string][]string{"X-A": {"/^/"}}}, "X-A:", true},
		{"header is not there", Match{Header: map[string][]string{"X-A": {"/^/"}}}, "X-B:", false},
		{"list id, part", Match{ListID: []string{"dev.lists"}}, "List-Id: Devs <dev.lists.example>", true},
		{"list id, name of the list", Match{ListID: []string{"devs"}}, "List-Id: Devs <dev.lists.example>", true},
		{"list id, glob", Match{ListID: []string{"*.lists.example"}}, "List-Id: Devs <dev.Lists.example>", true},
		{"list id, glob covers all", Match{ListID: []string{"*.lists"}}, "List-Id: Devs <dev.lists.example>", false},
		{"list id without brackets", Match{ListID: []string{"dev.*"}}, "List-Id: dev.lists.example", true},
		{"attachment", Match{HasAttachment: &yes}, attached, true},
		{"no attachment", Match{HasAttachment: &no}, attached, false},
		{"attachment wanted", Match{HasAttachment: &yes}, "Subject: x\n\nx", false},
		{"larger", Match{Larger: 3}, "A: b", true},
		{"larger is not equal", Match{Larger: 4}, "A: b", false},
		{"smaller", Match{Smaller: 5}, "A: b", true},
		{"smaller is not equal", Match{Smaller: 4}, "A: b", false},
		{
			"all keys hold",
			Match{Subject: []string{"x"}, From: []string{"a@*"}, Larger: 1},
			"Subject: x\nFrom: a@x.example", true,
		},
		{
			"one key does not",
			Match{Subject: []string{"x"}, From: []string{"b@*"}, Larger: 1},
			"Subject: x\nFrom: a@x.example", false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := compile(t, Rule{Name: "r", Match: tt.match, To: []string{"d@x.example"}})
			m := mailOf(t, tt.mail)
			if got := len(table.Decide(t.Context(), m).To) > 0; got != tt.want {
				t.Errorf("matched = %v, want %v; explained as\n%s", got, tt.want, explain(table, m))
			}
		})
	}
}

func TestDecideWithoutMessage(t *testing.T) {
	yes := true
	table := compile(t,
		Rule{Name: "a", Match: Match{Subject: []string{"x"}}, To: []string{"a@x.example"}},
		Rule{Name: "b", Match: Match{HasAttachment: &yes}, To: []string{"b@x.example"}},
		Rule{Name: "c", To: []string{"c@x.example"}})
	if got := table.Decide(t.Context(), Mail{}).Route; got != "c" {
		t.Errorf("a mail without a message went by route %q, want the catch-all c", got)
	}
}

func TestDecideCollects(t *testing.T) {
	rule := func(name, to string, p Priority) Rule {
		return Rule{Name: name, To: strings.Fields(to), Priority: p, Continue: true}
	}
	table := compile(t, rule("a", "x@a.example X@a.example", High), rule("b", "x@A.EXAMPLE y@münchen.example", Normal),
		rule("c", "y@xn--mnchen-3ya.example z@a.example", ""))
	got := table.Decide(t.Context(), Mail{})
	want := Decision{
		Route: "a+b+c", Matched: []string{"a", "b", "c"}, Priority: High, Reason: "matches route a, b, c",
		To: []string{"x@a.example", "X@a.example", "y@münchen.example", "z@a.example"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decided %+v\nwant    %+v", got, want)
	}
}

// TestDecideDomains: domains that a person may take for each other are different ones.
func TestDecideDomains(t *testing.T) {
	to := []string{"a@ısparta.example", "a@isparta.example", "b@straße.example", "b@strasse.example"}
	table := compile(t, Rule{Name: "r", To: append(to, "a@xn--sparta-o9a.example", "b@STRAßE.example")})
	if got := table.Decide(t.Context(), Mail{}).To; !slices.Equal(got, to) {
		t.Errorf("the recipients are %q, want %q", got, to)
	}
	if got := table.Recipients(); !slices.Equal(got, to) {
		t.Errorf("the routes name %q, want %q", got, to)
	}
}

func TestDecideNames(t *testing.T) {
	to := []string{"a@x.example"}
	var rules []Rule
	for i := range 10 {
		rules = append(rules, Rule{Name: fmt.Sprint(i, strings.Repeat("é", 60)), To: to, Continue: true})
	}
	joined := rules[0].Name + "+" + rules[1].Name + "+…"
	if got := compile(t, rules...).Decide(t.Context(), Mail{}).Route; got != joined {
		t.Errorf("ten names of 121 octets are joined to %q, "+
			"want as many whole ones as 255 octets hold, and a mark: %q", got, joined)
	}
	long := Rule{Name: strings.Repeat("𝄞", 64), To: to}
	if got := compile(t, long).Decide(t.Context(), Mail{}).Route; got != "…" {
		t.Errorf("a name of 256 octets is shown as %q, want the mark alone", got)
	}
	want := Decision{Priority: Normal, Reason: "no route matches"}
	if got := compile(t).Decide(t.Context(), Mail{}); !reflect.DeepEqual(got, want) {
		t.Errorf("without rules decided %+v, want %+v", got, want)
	}
	skip := compile(t, Rule{Name: "s", Skip: true}).Decide(t.Context(), Mail{})
	if !skip.Skip || skip.Reason != `by_route: route "s" skips it` {
		t.Errorf("a skipping rule decided %+v, want Skip and a reason", skip)
	}
}

func TestExplain(t *testing.T) {
	yes := true
	table := compile(t,
		Rule{Name: "subject", Match: Match{Subject: []string{"lunch", "/dinner/"}}, To: []string{"a@x.example"}},
		Rule{Name: "cc", Match: Match{Cc: []string{"a@*"}}, To: []string{"a@x.example"}},
		Rule{Name: "header", Match: Match{Header: map[string][]string{"X-A": {"b"}}}, To: []string{"a@x.example"}},
		Rule{Name: "large", Match: Match{Larger: 1 << 20}, To: []string{"a@x.example"}},
		Rule{Name: "attachment", Match: Match{HasAttachment: &yes}, To: []string{"a@x.example"}},
		Rule{Name: "on", To: []string{"a@x.example"}, Continue: true},
		Rule{Name: "last", To: []string{"b@x.example"}},
		Rule{Name: "later", To: []string{"c@x.example"}})
	m := mailOf(t, "Subject: =?utf-8?Q?caf=C3=A9?=\nX-A: 1\nX-A: 2\n\n")
	m.Size = 1000
	want := `  subject: no match: subject is "café", wanted "lunch" or "/dinner/"
  cc: no match: cc is missing; wanted "a@*"
  header: no match: header.X-A is "1", "2", wanted "b"
  large: no match: larger is "1KB", wanted "more than 1MiB"
  attachment: no match: has_attachment is "false", wanted "true"
  on: matched
  last: matched
  later: not reached
`
	if got := explain(table, m); got != want {
		t.Errorf("explained as\n%s\nwant\n%s", got, want)
	}
}
