package route

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

var staff = []Contact{
	{Name: "Ann Miller", Email: "ann@firm.example", Keywords: []string{"file 4711"}},
	{Name: "王小明", Email: "wang@firm.example"},
	{Name: "Mute", Keywords: []string{"silent"}},
}

func TestToContacts(t *testing.T) {
	in := func(places ...string) *ToContacts { return &ToContacts{In: places} }
	rest := Rule{Name: "rest", To: []string{"desk@firm.example"}}
	tests := []struct {
		name     string
		rules    []Rule
		mail     string
		route    string
		to       []string
		problems string // a part of them
	}{
		{
			"name in the subject",
			[]Rule{{Name: "p", ToContacts: in("subject")}},
			"Subject: for ann MILLER",
			"p",
			[]string{"ann@firm.example"},
			"",
		},
		{
			"keyword",
			[]Rule{{Name: "p", ToContacts: in("subject")}},
			"Subject: File 4711", "p",
			[]string{"ann@firm.example"},
			"",
		},
		{
			"only where it says",
			[]Rule{{Name: "p", ToContacts: in("subject")}, rest},
			"Subject: x\n\nAnn Miller", "rest", rest.To, "",
		},
		{
			"body",
			[]Rule{{Name: "p", ToContacts: in("subject", "body")}},
			"Subject: x\nContent-Type: text/html\n\nAnn&nbsp;<b>Miller</b>", "p",
			[]string{"ann@firm.example"},
			"",
		},
		{
			"attachment's name",
			[]Rule{{Name: "p", ToContacts: in("attachment")}},
			"Content-Disposition: attachment; filename=\"file 4711_b.pdf\"\n\nx", "p",
			[]string{"ann@firm.example"},
			"",
		},
		{
			"attachment's name without spaces",
			[]Rule{{Name: "p", ToContacts: in("attachment")}},
			"Content-Disposition: attachment; filename=\"contract-Ann_Miller.pdf\"\n\nx", "p",
			[]string{"ann@firm.example"},
			"",
		},
		{
			"several, in the directory's order, each once",
			[]Rule{{Name: "p", ToContacts: in("subject", "body")}},
			"Subject: =?utf-8?B?546L5bCP5piO?=\n\nAnn Miller, Ann Miller, file 4711", "p",
			[]string{"ann@firm.example", "wang@firm.example"},
			"",
		},
		{
			"beside others",
			[]Rule{{Name: "p", To: []string{"desk@firm.example"}, ToContacts: in("subject")}},
			"Subject: Ann Miller", "p",
			[]string{"desk@firm.example", "ann@firm.example"},
			"",
		},
		{
			"beside others, nobody named",
			[]Rule{{Name: "p", To: []string{"desk@firm.example"}, ToContacts: in("subject")}},
			"Subject: x",
			"p",
			[]string{"desk@firm.example"},
			"",
		},
		{"nobody named", []Rule{{Name: "p", ToContacts: in("subject")}, rest}, "Subject: x", "rest", rest.To, ""},
		{
			"match fails",
			[]Rule{{Name: "p", Match: Match{From: []string{"a@b.example"}}, ToContacts: in("subject")}},
			"Subject: Ann Miller", "", nil, "",
		},
		{
			"no address",
			[]Rule{{Name: "p", ToContacts: in("subject")}},
			"Subject: silent", "", nil,
			`route "p": contact "Mute" is named in the subject and has no email address`,
		},
		{
			"no address, next route",
			[]Rule{{Name: "p", ToContacts: in("subject")}, rest},
			"Subject: silent",
			"rest", rest.To, `contact "Mute"`,
		},
		{
			"one without an address, one with",
			[]Rule{{Name: "p", ToContacts: in("subject")}, rest},
			"Subject: silent, Ann Miller", "p",
			[]string{"ann@firm.example"},
			`contact "Mute"`,
		},
		{
			"beside others, and the body cannot be read",
			[]Rule{{Name: "p", To: []string{"desk@firm.example"}, ToContacts: in("body")}},
			"Subject: x\nContent-Type: multipart/mixed\n\nAnn Miller", "p",
			[]string{"desk@firm.example"},
			`route "p": to_contacts is undecided: it has parts, but no valid boundary between them`,
		},
		{
			"one without an address, and the body cannot be read",
			[]Rule{{Name: "p", To: []string{"desk@firm.example"}, ToContacts: in("subject", "body")}},
			"Subject: silent\nContent-Type: multipart/mixed\n\nAnn Miller", "p",
			[]string{"desk@firm.example"},
			`contact "Mute" is named in the subject and has no email address; to_contacts is undecided: it has parts`,
		},
		{
			"robots",
			[]Rule{{Name: "p", Automated: SkipAutomated, ToContacts: in("subject")}},
			"Auto-Submitted: auto-replied\nSubject: Ann Miller", "p", nil, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, m := compile(t, tt.rules...).With(NewDirectory(staff)), mailOf(t, tt.mail)
			d := table.Decide(t.Context(), m)
			problems := strings.Join(d.Problems, "\n")
			if d.Route != tt.route || !slices.Equal(d.To, tt.to) ||
				!strings.Contains(problems, tt.problems) || tt.problems == "" && problems != "" {
				t.Errorf("route %q to %v, problems %q; want %q to %v, %q\n%s",
					d.Route, d.To, problems, tt.route, tt.to, tt.problems, explain(table, m))
			}
			if want := strings.Contains(tt.problems, `contact "Mute"`); d.Unreached != want {
				t.Errorf("somebody is without an address: %t, want %t", d.Unreached, want)
			}
			if tt.problems != "" && !strings.Contains(d.Reason, tt.problems) {
				t.Errorf("the reason %q does not say %q", d.Reason, tt.problems)
			}
		})
	}
}

func TestToContactsUndecided(t *testing.T) {
	rule := Rule{Name: "p", ToContacts: &ToContacts{In: []string{"subject"}}}
	for name, tt := range map[string]struct {
		table *Table
		mail  Mail
		want  string
	}{
		"no message": {
			compile(t, rule).With(NewDirectory(staff)),
			Mail{},
			"p: no match: to_contacts is undecided: the message could not be fetched",
		},
		"too long": {
			compile(t, Rule{Name: "p", ToContacts: &ToContacts{In: []string{"body"}}}).With(NewDirectory(staff)),
			mailOf(t, "Subject: x\n\n"+strings.Repeat("word ", 600<<10/5)+"Ann Miller"),
			"p: no match: to_contacts is undecided: ",
		},
		"nobody named": {
			compile(t, rule).With(NewDirectory(staff)), mailOf(t, "Subject: x"),
			"p: no match: to_contacts finds no contact of the directory in: subject",
		},
		"no directory": {
			compile(t, rule), mailOf(t, "Subject: Ann Miller"),
			"p: no match: to_contacts finds no contact of the directory in: subject",
		},
	} {
		if d := tt.table.Decide(t.Context(), tt.mail); len(d.To)+len(d.Matched)+len(d.Problems) > 0 {
			t.Errorf("%s: decided %+v, want no match", name, d)
		}
		if got := tt.table.Explain(t.Context(), tt.mail)[0].String(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: explained %q, want %q", name, got, tt.want)
		}
	}
}

// TestManyWithoutAddress: the reason is one line for a person, however many a message names.
func TestManyWithoutAddress(t *testing.T) {
	mute := make([]Contact, 1000)
	for i := range mute {
		mute[i] = Contact{Name: "Nobody", Keywords: []string{"hearing"}}
	}
	table := compile(t, Rule{Name: "p", ToContacts: &ToContacts{In: []string{"subject"}}}).With(NewDirectory(mute))
	got := table.Decide(t.Context(), mailOf(t, "Subject: hearing")).Reason
	if len(got) > 1000 || !strings.HasSuffix(got, "; 990 more contacts have none") {
		t.Errorf("the reason has %d octets: %.200s; want ten names and the number of the others", len(got), got)
	}
}

func TestExplainContacts(t *testing.T) {
	rule := Rule{Name: "p", ToContacts: &ToContacts{In: []string{"subject", "body"}}}
	text := strings.Repeat("word ", 30) + "and the FILE 4711, if you please"
	table := compile(t, rule).With(NewDirectory(staff))
	step := table.Explain(t.Context(), mailOf(t, "Subject: x\n\n"+text))[0]
	want := []Mention{{
		Name: "Ann Miller", Email: "ann@firm.example", By: "file 4711",
		In: "body", On: "…d word word and the file 4711, if you please",
	}}
	if step.Outcome != Matched || !reflect.DeepEqual(step.Contacts, want) {
		t.Errorf("explained %s by %q, want that it matched by %q", step, step.Contacts, want)
	}
}

// TestDirectoryAtOnce: passes ask from several goroutines, the first of which makes the directory
// ready.
func TestDirectoryAtOnce(t *testing.T) {
	table := compile(t, Rule{Name: "p", ToContacts: &ToContacts{In: []string{"subject"}}}).With(NewDirectory(staff))
	m := mailOf(t, "Subject: Ann Miller")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got := table.Decide(t.Context(), m).To; len(got) != 1 {
				t.Errorf("goes to %v, want one contact", got)
			}
		})
	}
	group.Wait()
}

func TestToContactsErrors(t *testing.T) {
	_, err := Compile([]Rule{
		{Name: "a", ToContacts: &ToContacts{}},
		{Name: "b", ToContacts: &ToContacts{In: []string{"subject", "text"}}},
		{Name: "c", Skip: true, ToContacts: &ToContacts{In: []string{"subject"}}},
	})
	var errs Errors
	errors.As(err, &errs)
	want := []string{
		`route "a": to_contacts.in: is missing; ` +
			`say where contacts are looked for: one or more of subject, body, attachment`,
		`route "b": to_contacts.in[1]: "text" is not one of subject, body, attachment`,
		`route "c": skip: contradicts to_contacts: a route either skips or has recipients`,
	}
	if got := strings.Split(errs.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("errors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestContactsInFileNames: a text that cannot be read has nothing to do with them.
func TestContactsInFileNames(t *testing.T) {
	table := compile(t, Rule{Name: "p", ToContacts: &ToContacts{In: []string{"attachment"}}}).With(NewDirectory(staff))
	d := table.Decide(t.Context(), mailOf(t, "Content-Type: text/plain; charset=x-none\n\n\xe9"))
	if want := "no route matches"; d.Reason != want {
		t.Errorf("the reason is %q, want %q", d.Reason, want)
	}
}
