package route

import (
	"strings"
	"testing"
)

func TestHolds(t *testing.T) {
	to := []string{"a@x.example"}
	table := compile(t,
		Rule{Name: "silent", To: to, Continue: true},
		Rule{Name: "retry", To: to, Continue: true, Uncertain: Retry},
		Rule{Name: "hold", To: to, Continue: true, Uncertain: Hold},
		Rule{Name: "skip", Skip: true},
	)
	lenient := compile(t, Rule{Name: "silent", To: to}, Rule{Name: "retry", To: to, Uncertain: Retry})
	tests := []struct {
		name, route string
		table       *Table
		general     bool
		want        bool
	}{
		{"a rule that holds", "hold", table, false, true},
		{"a rule that retries", "retry", table, true, false},
		{"a rule that says nothing, and hold", "silent", table, true, true},
		{"a rule that says nothing, and retry", "silent", table, false, false},
		{"one of several holds", "silent+retry+hold", table, false, true},
		{"one of several says nothing, and hold", "retry+silent", table, true, true},
		{"none of several holds", "silent+retry", table, false, false},
		{"a rule that is gone, and hold", "gone", table, true, true},
		{"a rule that is gone, and retry", "gone", table, false, false},
		{"gone beside one that retries, and hold", "retry+gone", table, true, true},
		{"a part of a name is not the name", "hol", table, false, false},
		{"no route, and hold", "", table, true, true},
		{"no route, and retry", "", table, false, false},
		{"a rule that skips sent nothing", "retry+skip", table, true, false},
		{"cut off, and a rule holds", "retry+…", table, false, true},
		{"cut off, and no rule holds", "retry+…", lenient, false, false},
		{"cut off, and hold", "retry+…", lenient, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.table.Holds(tt.route, tt.general); got != tt.want {
				t.Errorf("Holds(%q, %v) is %v, want %v", tt.route, tt.general, got, tt.want)
			}
		})
	}
}

// TestHoldsWhatWasCutOff decides by names that do not fit into a task's route.
func TestHoldsWhatWasCutOff(t *testing.T) {
	to := []string{"a@x.example"}
	var rules []Rule
	for _, c := range "abcdefgh" {
		name := strings.Repeat(string(c), 64)
		rules = append(rules, Rule{Name: name, To: to, Continue: true, Uncertain: Retry})
	}
	rules[7].Uncertain = Hold
	table := compile(t, rules...)
	d := table.Decide(t.Context(), Mail{})
	if strings.Contains(d.Route, "h") || !table.Holds(d.Route, false) {
		t.Errorf("the route is %q, and Holds says %v; want the last name cut off, and held all the same",
			d.Route, table.Holds(d.Route, false))
	}
}

// TestJoinedFits tries names of all lengths: what is left are whole names and the mark, in 255
// octets.
func TestJoinedFits(t *testing.T) {
	for n := 1; n <= 256; n++ {
		name := strings.Repeat("x", n)
		names := strings.Split(strings.Repeat(name+separator, 300)+name, separator)
		got, marked := strings.CutSuffix(joined(names), ellipsis)
		shown := got + ellipsis
		if !marked || len(shown) > 255 || strings.ReplaceAll(got, name+separator, "") != "" ||
			len(shown+name+separator) <= 255 {
			t.Errorf("301 names of %d octets are joined to %q, %d octets; "+
				"want as many whole ones as fit into 255, and the mark", n, shown, len(shown))
		}
	}
}
