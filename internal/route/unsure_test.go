package route

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// parts are a mail without its message, with the header alone, and whole.
func parts(m Mail) map[string]Mail {
	nothing, header := m, m
	nothing.Message = nil
	head := *m.Message
	head.HeaderOnly = true
	header.Message = &head
	return map[string]Mail{"nothing": nothing, "header": header, "all": m}
}

// checkSure: a decision that is not unsure is the one that all of the message leads to.
func checkSure(t *testing.T, table *Table, m Mail) {
	t.Helper()
	want := table.Decide(t.Context(), m)
	for what, part := range parts(m) {
		got := table.Decide(t.Context(), part)
		if got.Unsure {
			continue
		}
		if got.Route != want.Route || got.Skip != want.Skip ||
			got.Priority != want.Priority || !slices.Equal(got.To, want.To) {
			t.Errorf("with %s of the message it is decided, and not unsure: %+v; with all of it %+v", what, got, want)
		}
	}
}

// TestUnsure: how much of a message it takes to be sure.
func TestUnsure(t *testing.T) {
	to := []string{"a@x.example"}
	rest := Rule{Name: "rest", To: to}
	word := Rule{Name: "s", Match: Match{Body: []string{"x"}}, To: to}
	yes := true
	tests := []struct {
		name  string
		rules []Rule
		needs string // the least that is enough
	}{
		{"a catch-all", []Rule{rest}, "nothing"},
		{"folder", []Rule{{Name: "r", Match: Match{Folder: []string{"INBOX"}}, To: to}, rest}, "nothing"},
		{
			"folder, and behind it what is not reached",
			[]Rule{{Name: "r", Match: Match{Folder: []string{"INBOX"}}, To: to}, word},
			"nothing",
		},
		{
			"folder, and it goes on",
			[]Rule{{Name: "r", Match: Match{Folder: []string{"INBOX"}}, To: to, Continue: true}, word},
			"all",
		},
		{
			"another folder, and a word",
			[]Rule{{Name: "r", Match: Match{Folder: []string{"Junk"}, Body: []string{"x"}}, To: to}, rest},
			"nothing",
		},
		{"size", []Rule{{Name: "r", Match: Match{Larger: 1 << 20}, To: to}, rest}, "nothing"},
		{"subject", []Rule{{Name: "r", Match: Match{Subject: []string{"hello"}}, To: to}, rest}, "header"},
		{"age", []Rule{{Name: "r", Match: Match{Age: &Age{Over: 1}}, To: to}, rest}, "header"},
		{
			"a field in an expression",
			[]Rule{{Name: "r", Match: Match{When: `subject == "x"`}, To: to}, rest},
			"header",
		},
		{"the text in an expression", []Rule{{Name: "r", Match: Match{When: `body == "x"`}, To: to}, rest}, "all"},
		{"body", []Rule{{Name: "r", Match: Match{Body: []string{"x"}}, To: to}, rest}, "all"},
		{
			"another subject, and a word",
			[]Rule{{Name: "r", Match: Match{Subject: []string{"no"}, Body: []string{"x"}}, To: to}, rest},
			"header",
		},
		{"attachment", []Rule{{Name: "r", Match: Match{HasAttachment: &yes}, To: to}, rest}, "all"},
		{"not a word", []Rule{{Name: "r", Match: Match{Not: &Match{Body: []string{"x"}}}, To: to}, rest}, "all"},
		{
			"this subject or a word",
			[]Rule{{Name: "r", To: to, Match: Match{Any: []Match{
				{Subject: []string{"hello"}}, {Body: []string{"x"}},
			}}}, rest},
			"header",
		},
		{
			"a capture that a word may change",
			[]Rule{{Name: "r", To: []string{"${w}@x.example"}, Match: Match{Any: []Match{
				{Body: []string{"/(?P<w>[a-z]+)/"}}, {Subject: []string{"/(?P<w>[a-z]+)/"}},
			}}}, rest},
			"all",
		},
		{"programs are skipped", []Rule{{Name: "r", To: to, Automated: SkipAutomated}}, "header"},
		{
			"contacts in the subject",
			[]Rule{{Name: "r", To: to, ToContacts: &ToContacts{In: []string{"subject"}}}},
			"header",
		},
		{"contacts in the text", []Rule{{Name: "r", To: to, ToContacts: &ToContacts{In: []string{"body"}}}}, "all"},
	}
	m := mailOf(t, "From: b@y.example\nSubject: hello ann\n\nthe text of bob\n")
	m.At = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	directory := NewDirectory([]Contact{{Name: "Ann", Email: "ann@x.example"}, {Name: "Bob", Email: "bob@x.example"}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := compile(t, tt.rules...).With(directory)
			enough := false
			for _, what := range []string{"nothing", "header", "all"} {
				enough = enough || what == tt.needs
				if d := table.Decide(t.Context(), parts(m)[what]); d.Unsure == enough {
					t.Errorf("with %s of the message unsure is %v, want %s to be the least that is enough",
						what, d.Unsure, tt.needs)
				}
			}
			checkSure(t, table, m)
		})
	}
}

// TestUndecidedReason: the reason that no route matches names the first route that may match, and
// what it could not look at.
func TestUndecidedReason(t *testing.T) {
	to := []string{"a@x.example"}
	other := Rule{Name: "other", Match: Match{Subject: []string{"other"}}, To: to}
	word := Rule{Name: "word", Match: Match{Body: []string{"invoice"}}, To: to}
	group := Rule{Name: "group", To: to, Match: Match{Any: []Match{
		{Subject: []string{"other"}}, {Not: &Match{Body: []string{"invoice"}}},
	}}}
	people := Rule{Name: "people", ToContacts: &ToContacts{In: []string{"body"}}}
	long := Rule{Name: "long", To: to, Match: Match{
		When: `float(subject) > 1 and subject != "` + strings.Repeat("long", 200) + `"`,
	}}
	const why = "it has parts, but no valid boundary between them"
	for name, tt := range map[string]struct {
		rules []Rule
		want  string
	}{
		"a word": {
			[]Rule{other, word, group},
			`no route matches; route "word": body is undecided: ` + why,
		},
		"in a group": {
			[]Rule{group},
			`no route matches; route "group": any[1].not.body is undecided: ` + why,
		},
		"contacts": {
			[]Rule{other, people},
			`no route matches; route "people": to_contacts is undecided: ` + why,
		},
		"not the word":    {[]Rule{other}, `no route matches`},
		"another matches": {[]Rule{word, {Name: "all", To: to}}, `matches route all`},
		"an expression that fails": {
			[]Rule{long},
			`no route matches; route "long": when is undecided: the expression fails: `,
		},
	} {
		table := compile(t, tt.rules...).With(NewDirectory(staff))
		got := table.Decide(t.Context(), mailOf(t, "Subject: x\nContent-Type: multipart/mixed\n\nthe invoice")).Reason
		if name == "an expression that fails" && len(got) < 300 {
			got = got[:len(tt.want)]
		}
		if got != tt.want {
			t.Errorf("%s: the reason is %q, want %q", name, got, tt.want)
		}
	}
}

// TestNoTimeForTheContent: what cannot be decoded in time is undecided, and the rules that do not
// need it take the message.
func TestNoTimeForTheContent(t *testing.T) {
	table := compile(t,
		Rule{Name: "body", Match: Match{Body: []string{"hello"}}, To: []string{"a@x.example"}},
		Rule{Name: "not", Match: Match{Not: &Match{Body: []string{"hello"}}}, To: []string{"b@x.example"}},
		Rule{Name: "subject", Match: Match{Subject: []string{"x"}}, To: []string{"c@x.example"}})
	table.maxTime = 1 // a nanosecond
	m := mailOf(t, "Subject: x\n\nhello")
	if d := table.Decide(t.Context(), m); d.Route != "subject" || !d.Unsure {
		t.Errorf("decided %+v, want it by the subject, and unsure", d)
	}
	const want = "body: no match: body is undecided: there was no time to read all of it"
	if got := explain(table, m); !strings.Contains(got, want) {
		t.Errorf("explained as %s\nwant %s", got, want)
	}
}
