package route

import (
	"slices"
	"strings"
	"testing"
)

func TestLabel(t *testing.T) {
	labels := []string{"region=eu", "tenant=Acme"}
	for _, tt := range []struct {
		name   string
		match  Match
		labels []string
		want   bool
	}{
		{"one", Match{Label: []string{"tenant=acme"}}, labels, true},
		{"any of", Match{Label: []string{"tenant=umbrella", "region=eu"}}, labels, true},
		{"any value", Match{Label: []string{"tenant"}}, labels, true},
		{"glob", Match{Label: []string{"tenant=ac*"}}, labels, true},
		{"all of the value", Match{Label: []string{"tenant=ac"}}, labels, false},
		{"no name of another", Match{Label: []string{"ten"}}, labels, false},
		{"expression", Match{Label: []string{"/^tenant=(acme|umbrella)$/"}}, labels, true},
		{"both of two", Match{Label: []string{"tenant"}, Not: &Match{Label: []string{"region=us"}}}, labels, true},
		{"another value", Match{Label: []string{"tenant=umbrella"}}, labels, false},
		{"without labels", Match{Label: []string{"tenant"}}, nil, false},
		{"not, without labels", Match{Not: &Match{Label: []string{"tenant"}}}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Mail{Inbox: "desk@firm.example", Labels: tt.labels}
			if matched, why := only(t, tt.match, m); matched != tt.want {
				t.Errorf("it matches: %t, want %t; %s", matched, tt.want, why)
			}
		})
	}
	matched, why := only(t, Match{Not: &Match{Label: []string{"tenant"}}}, Mail{})
	if matched || !strings.Contains(why, "undecided") {
		t.Errorf("without an inbox it matches: %t, %s; want it to be undecided", matched, why)
	}
	capture := Match{Label: []string{`/^tenant=(?P<tenant>\w+)$/`}}
	table := compile(t, Rule{Name: "r", Match: capture, To: []string{"${tenant}@x.example"}})
	to := table.Decide(t.Context(), Mail{Inbox: "desk@firm.example", Labels: labels}).To
	if !slices.Equal(to, []string{"Acme@x.example"}) {
		t.Errorf("what the label captures goes to %q, want Acme@x.example", to)
	}
}

func TestLabelErrors(t *testing.T) {
	for _, wrong := range []string{"=acme", "tenant=", "", "tenant = acme"} {
		match := Match{Any: []Match{{Label: []string{"a=b", wrong}}}}
		_, err := Compile([]Rule{{Name: "r", Match: match, To: []string{"a@x.example"}}})
		const want = "match.any[0].label[1]: "
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tenant=acme") {
			t.Errorf("%q: the error is %v, want %s and how to write it", wrong, err, want)
		}
	}
}

func TestLabelsInExpressions(t *testing.T) {
	m := mailOf(t, "Subject: x")
	m.Inbox, m.Labels = "desk@firm.example", []string{"tenant=acme", "cost-centre=7"}
	for when, want := range map[string]bool{
		`labels.tenant == "acme"`: true, `labels.tenant == "other"`: false,
		`labels.region == ""`: true, `labels["cost-centre"] == "7"`: true,
		`"tenant" in labels`: true, `"region" in labels`: false,
		`labels.tenant startsWith "ac" and inbox contains "desk"`: true,
	} {
		if matched, why := only(t, Match{When: when}, m); matched != want {
			t.Errorf("%s: matched %v, want %v; it says %s", when, matched, want, why)
		}
	}
	m.Inbox, m.Labels = "", nil
	for _, when := range []string{
		`labels.tenant != "acme"`, `labels.tenant == "acme"`,
		`inbox == ""`, `subject == "x" or inbox == "desk@firm.example"`,
	} {
		matched, why := only(t, Match{When: when}, m)
		if matched || !strings.Contains(why, "when is undecided: it is not known in which inbox") {
			t.Errorf("%s, without an inbox: matched %v, it says %s; want it to be undecided", when, matched, why)
		}
		matched, why = only(t, Match{Not: &Match{When: when}}, m)
		if matched || !strings.Contains(why, "not is undecided") {
			t.Errorf("not %s, without an inbox: matched %v, it says %s; want it to be undecided", when, matched, why)
		}
	}
	if matched, why := only(t, Match{When: `subject == "x"`}, m); !matched {
		t.Errorf("without an inbox an expression on the subject did not match: %s", why)
	}
}

func TestUsesLabels(t *testing.T) {
	label, to := Match{Label: []string{"tenant"}}, []string{"a@x.example"}
	for _, tt := range []struct {
		name  string
		match Match
		want  bool
	}{
		{"none", Match{Subject: []string{"x"}}, false},
		{"at the top", label, true},
		{"in an expression", Match{When: `labels.tenant == "acme"`}, true},
		{"in not", Match{Not: &label}, true},
		{
			"in a group of a group",
			Match{Any: []Match{{Subject: []string{"x"}}, {Not: &Match{Any: []Match{label}}}}},
			true,
		},
	} {
		table := compile(t, Rule{Name: "first", To: to}, Rule{Name: "r", Match: tt.match, To: to})
		if got := table.UsesLabels(); got != tt.want {
			t.Errorf("%s: labels are used: %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestReturnsByLabel(t *testing.T) {
	self := []string{"office@firm.example"}
	table := compile(t,
		Rule{Name: "acme", Match: Match{Label: []string{"tenant=acme"}}, To: self},
		Rule{Name: "rest", To: []string{"a@x.example"}},
	)
	if _, nobody, _ := table.Returns(self[0], "tenant=acme"); !slices.Equal(nobody, []string{"acme"}) {
		t.Errorf("for an inbox with the label %q have nobody but the inbox itself, want acme", nobody)
	}
	if _, nobody, _ := table.Returns(self[0]); nobody != nil {
		t.Errorf("for an inbox without the label %q have nobody but the inbox itself, want none", nobody)
	}
}
