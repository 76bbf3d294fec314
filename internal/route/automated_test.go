package route

import (
	"reflect"
	"testing"
)

func TestAutomated(t *testing.T) {
	const bounce = "Return-Path: <>\nSubject: failed\n\n"
	const person = "Return-Path: <a@x.example>\nSubject: failed\n\n"
	a := Rule{Name: "a", Match: Match{Subject: []string{"failed"}}, To: []string{"a@x.example"}}
	b := Rule{Name: "b", To: []string{"b@x.example"}}
	with := func(r Rule, w Automated, goOn bool) Rule {
		r.Automated, r.Continue = w, goOn
		return r
	}
	tests := []struct {
		name, mail string
		rules      []Rule
		to         []string
		reason     string
	}{
		{"a rule that says nothing forwards", bounce, []Rule{a, b}, []string{"a@x.example"}, "matches route a"},
		{
			"a rule that forwards", bounce,
			[]Rule{with(a, "forward", false), b},
			[]string{"a@x.example"},
			"matches route a",
		},
		{
			"a rule that skips, and decides", bounce,
			[]Rule{with(a, "skip", false), b},
			nil,
			`automated: its reverse-path is null, as that of a bounce, and automated: skip applies to route "a"`,
		},
		{"a person's message", person, []Rule{with(a, "skip", false), b}, []string{"a@x.example"}, "matches route a"},
		{
			"each rule has its own way", bounce,
			[]Rule{with(a, "skip", true), b},
			[]string{"b@x.example"},
			"matches route a, b",
		},
		{
			"each rule has its own way, in the other order", bounce,
			[]Rule{with(a, "forward", true), with(b, "skip", false)},
			[]string{"a@x.example"},
			"matches route a, b",
		},
		{
			"nobody is left", bounce,
			[]Rule{with(a, "skip", true), with(b, "skip", false)},
			nil,
			`automated: its reverse-path is null, as that of a bounce, and automated: skip applies to route "b"`,
		},
		{
			"a rule that does not match has no say", person,
			[]Rule{{Name: "c", Match: Match{Subject: []string{"other"}}, To: b.To, Automated: "skip"}, b},
			[]string{"b@x.example"},
			"matches route b",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := compile(t, tt.rules...).Decide(t.Context(), mailOf(t, tt.mail))
			if !reflect.DeepEqual(d.To, tt.to) || d.Reason != tt.reason || d.Skip != (tt.to == nil) {
				t.Errorf("decided %+v, want recipients %q, reason %q, Skip %v", d, tt.to, tt.reason, tt.to == nil)
			}
		})
	}
	if d := compile(t, with(b, "skip", false)).Decide(t.Context(), Mail{}); d.Skip {
		t.Errorf("a message of which nothing is known: decided %+v, want it not to count as a program's", d)
	}
}
