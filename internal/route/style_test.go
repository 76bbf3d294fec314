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
		{"the first that says decides, each key for itself", "silent+attach+rewrite", general, Style{Attach, FallbackAttach, false}},
		{"in the order of the message's route", "rewrite+attach", general, Style{Rewrite, FallbackAttach, true}},
		{"none takes the general fallback back", "none", Style{Mode: Rewrite, Fallback: FallbackAttach}, Style{Mode: Rewrite, Fallback: FallbackNone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := table.Style(tt.route, tt.general); got != tt.want {
				t.Errorf("Style(%q) = %+v, want %+v", tt.route, got, tt.want)
			}
		})
	}
}

func TestStyleFaults(t *testing.T) {
	to := []string{"a@x.example"}
	yes := true
	for want, r := range map[string]Rule{
		`mode: "forward" is not one of`:        {Name: "x", To: to, Mode: "forward"},
		`fallback: "rewrite" is not one of`:    {Name: "x", To: to, Fallback: "rewrite"},
		"skip: contradicts mode, fallback and": {Name: "x", Skip: true, Resent: &yes},
	} {
		_, err := Compile([]Rule{r})
		if faults, ok := errors.AsType[Errors](err); !ok || len(faults) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("Compile = %v, want one fault with %q", err, want)
		}
	}
}
