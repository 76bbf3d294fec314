package route

import (
	"slices"
	"strings"
)

// Uncertain is what becomes of a message when nobody knows whether a recipient got it.
type Uncertain string

// The ways. A rule that names none has the general one.
const (
	Retry Uncertain = "retry" // it is sent again, and may arrive twice
	Hold  Uncertain = "hold"  // it waits for a person
)

// Holds reports whether an unknown outcome of a message that went by route, a Decision's of this table or of an earlier
// one, waits for a person: when any of the rules named there says so. One that says nothing, or is gone, goes by what
// is said in general; one that skips sent nothing. A name that was cut off may be any.
func (t *Table) Holds(route string, general bool) bool {
	for _, name := range strings.Split(route, plus) {
		holds := general
		for _, r := range t.rules {
			switch {
			case name == r.Name && r.Skip:
				holds = false
			case name == r.Name && r.Uncertain != "":
				holds = r.Uncertain == Hold
			case name == cut && r.Uncertain == Hold:
				holds = true
			}
		}
		if holds {
			return true
		}
	}
	return false
}

// plus joins the names of rules, and cut stands for those that are too many. Neither is the name of a rule.
const (
	plus = "+"
	cut  = "…"
)

// names are those of the rules that m went by; of those that were cut off the ones that match it by this table.
func (t *Table) names(route string, m Mail) []string {
	names := strings.Split(route, plus)
	if !slices.Contains(names, cut) {
		return names
	}
	for _, name := range t.Decide(m).Matched {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// joined keeps the names within the column that holds a task's route, in octets.
func joined(names []string) string {
	const limit = 255
	all := strings.Join(names, plus)
	if len(all) <= limit {
		return all
	}
	all = all[:limit-len(cut)]
	return all[:strings.LastIndex(all, plus)+1] + cut
}
