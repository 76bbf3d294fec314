package route

import (
	"errors"
	"strings"
	"testing"
)

func TestStyle(t *testing.T) {
	to := []string{"a@x.example"}
	yes, no := true, false
	table := compile(t,
		Rule{Name: "silent", To: to, Continue: true},
		Rule{Name: "attach", To: to, Continue: true, Mode: Attach, Resent: &no},
		Rule{Name: "rewrite", To: to, Continue: true, Mode: Rewrite, Fallback: FallbackAttach, Resent: &yes},
		Rule{Name: "none", To: to, Fallback: FallbackNone},
	)
	general := Style{Mode: Redirect, Fallback: FallbackNone, Resent: true}
	tests := []struct {
		name, route string
		general     Style
		want        Style
	}{
		{"no route", "", general, general},
		{"a rule that says nothing", "silent", general, general},
		{"a rule that is gone", "gone", general, general},
		{"a part of a name is not the name", "att", general, general},
		{"a rule that says", "attach", general, Style{Attach, FallbackNone, false}},
		{
			"the first that says decides, each key for itself", "silent+attach+rewrite", general,
			Style{Attach, FallbackAttach, false},
		},
		{"in the order of the message's route", "rewrite+attach", general, Style{Rewrite, FallbackAttach, true}},
		{
			"none takes the general fallback back", "none",
			Style{Mode: Rewrite, Fallback: FallbackAttach},
			Style{Mode: Rewrite, Fallback: FallbackNone},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := table.Style(t.Context(), tt.route, Mail{}, tt.general); got != tt.want {
				t.Errorf("Style(%q) = %+v, want %+v", tt.route, got, tt.want)
			}
		})
	}
}

// TestWhatWasCutOff has a say all the same: rules whose names do not fit into a task's route.
func TestWhatWasCutOff(t *testing.T) {
	var rules []Rule
	for _, c := range "abcdefgh" {
		rules = append(rules, Rule{Name: strings.Repeat(string(c), 64), To: []string{"a@x.example"}, Continue: true})
	}
	resent := true
	last := &rules[7]
	last.Match.Subject = []string{`/file (?P<file>\d+)/`}
	last.Mode, last.Fallback, last.Resent = Attach, FallbackAttach, &resent
	rules[6].Match.Subject, rules[6].Mode = []string{`/other (?P<file>\d+)/`}, Rewrite // which does not match
	table, m := compile(t, rules...), mailOf(t, "Subject: file 7\n\n")
	d := table.Decide(t.Context(), m)
	if strings.Contains(d.Route, "h") || len(d.Matched) != 7 {
		t.Fatalf("decided %+v, want seven routes to match, and the last name to be cut off", d)
	}
	want := Style{Attach, FallbackAttach, true}
	if got := table.Style(t.Context(), d.Route, m, Style{Mode: Redirect}); got != want {
		t.Errorf("Style(%q) = %+v, want %+v as the last route says", d.Route, got, want)
	}
	if got := table.Captured(t.Context(), d.Route, m)["file"]; got != "7" {
		t.Errorf("Captured(%q) has %q of file, want 7 by the last route", d.Route, got)
	}
}

func TestStyleErrors(t *testing.T) {
	to := []string{"a@x.example"}
	yes := true
	for want, r := range map[string]Rule{
		`mode: "forward" is not one of`:        {Name: "x", To: to, Mode: "forward"},
		`fallback: "rewrite" is not one of`:    {Name: "x", To: to, Fallback: "rewrite"},
		"skip: contradicts mode, fallback and": {Name: "x", Skip: true, Resent: &yes},
	} {
		_, err := Compile([]Rule{r})
		if errs, ok := errors.AsType[Errors](err); !ok || len(errs) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("Compile = %v, want one error with %q", err, want)
		}
	}
}
