package route

import (
	"slices"
	"testing"
)

func TestUnreached(t *testing.T) {
	to := []string{"ann@firm.example"}
	all := func(name string, r Rule) Rule { r.Name = name; return r }
	some := Rule{Name: "some", Match: Match{Subject: []string{"rent"}}, To: to}
	for name, tt := range map[string]struct {
		taker Rule
		want  []string
	}{
		"a catch-all":              {all("all", Rule{To: to}), []string{"behind", "last"}},
		"one that skips":           {all("all", Rule{Skip: true}), []string{"behind", "last"}},
		"one that goes on":         {all("all", Rule{To: to, Continue: true}), nil},
		"one that may find nobody": {all("all", Rule{ToContacts: &ToContacts{In: []string{"subject"}}}), nil},
		"one that may have nobody left": {
			all("all", Rule{To: to, ToContacts: &ToContacts{In: []string{"subject"}}}), nil,
		},
		"one that holds for some": {all("all", Rule{Match: Match{Inbox: []string{"*"}}, To: to}), nil},
		"a catch-all that is no robot's": {
			all("all", Rule{To: to, Automated: SkipAutomated}), []string{"behind", "last"},
		},
	} {
		behind, last := some, some
		behind.Name, last.Name = "behind", "last"
		names, taker := compile(t, some, tt.taker, behind, last).Unreached()
		if !slices.Equal(names, tt.want) || (taker == "all") != (tt.want != nil) {
			t.Errorf("%s: no message comes to %q for %q, want %q", name, names, taker, tt.want)
		}
	}
}

func TestReturns(t *testing.T) {
	self := []string{"Office@Firm.example", "ann@firm.example"}
	alone := []string{"OFFICE@firm.example", "office@FIRM.example"}
	rent := Match{Subject: []string{"rent"}}
	table := compile(t,
		Rule{Name: "others", Match: Match{Inbox: []string{"sales@*"}}, To: alone},
		Rule{Name: "not here", Match: Match{Not: &Match{Inbox: []string{"office@*"}}}, To: alone},
		Rule{Name: "on some subject", Match: rent, To: alone},
		Rule{Name: "has others", Match: rent, To: self},
		Rule{Name: "may have others", Match: rent, To: alone, ToContacts: &ToContacts{In: []string{"subject"}}},
		Rule{Name: "to another", Match: rent, To: []string{"office@firm.test"}},
		Rule{
			Name: "to whom it says", Match: Match{Subject: []string{"/(?P<who>.+)/"}},
			To: []string{"office@firm.example", "${who}@firm.example"},
		},
		Rule{Name: "nobody", Match: rent, Skip: true},
		Rule{Name: "is moved", Match: rent, To: alone, OwnAddress: ForwardOwnAddress},
		Rule{Name: "is moved, and has others", Match: rent, To: self, OwnAddress: ForwardOwnAddress},
		Rule{Name: "goes on", To: alone, Continue: true, OwnAddress: SkipOwnAddress},
		Rule{Name: "all the rest", To: []string{"ann@firm.example"}},
		Rule{Name: "never reached", To: alone},
	)
	forwards, nobody, others := table.Returns("office@firm.example")
	if want := []string{"is moved", "is moved, and has others"}; !slices.Equal(forwards, want) {
		t.Errorf("%q forward to the inbox itself, want %q", forwards, want)
	}
	if want := []string{"on some subject", "goes on"}; !slices.Equal(nobody, want) {
		t.Errorf("%q have nobody but the inbox itself, want %q", nobody, want)
	}
	if want := []string{"has others", "may have others", "to whom it says"}; !slices.Equal(others, want) {
		t.Errorf("%q leave out the inbox and have others, want %q", others, want)
	}
}
