package route

import (
	"context"
	"slices"
	"strings"
)

// Uncertain says what happens to a message if it is not known whether a recipient got it.
type Uncertain string

// The values of Uncertain. A rule without one has the general one.
const (
	Retry Uncertain = "retry" // it is sent again, and may arrive twice
	Hold  Uncertain = "hold"  // it waits for an operator
)

// Holds reports whether a message with an unknown outcome waits for an operator. route is a
// Decision's, of this table or an earlier one. One named rule with hold is enough. A rule that says
// nothing, or is gone, has the general value; one that skips sent nothing. A route that was cut off
// may include any rule with hold.
func (t *Table) Holds(route string, general bool) bool {
	return slices.ContainsFunc(strings.Split(route, separator), func(name string) bool {
		switch r := t.rule(name); {
		case name == ellipsis:
			return general || slices.ContainsFunc(t.rules, func(r compiled) bool { return r.Uncertain == Hold })
		case r.Uncertain != "":
			return r.Uncertain == Hold
		default:
			return general && !r.Skip
		}
	})
}

// rule is the rule of that name; the zero Rule when it is gone.
func (t *Table) rule(name string) Rule {
	for _, r := range t.rules {
		if r.Name == name {
			return r.Rule
		}
	}
	return Rule{}
}

// separator joins the names of rules, and ellipsis stands for the rest. No rule is called either.
const (
	separator = "+"
	ellipsis  = "…"
)

// Decided reports whether one of these rules decided: route is a Decision's. One that was cut off
// may include any of them.
func Decided(route string, rules []string) bool {
	return slices.ContainsFunc(strings.Split(route, separator), func(name string) bool {
		return name == ellipsis || slices.Contains(rules, name)
	})
}

// names are the names of the rules in route. If it was cut off, the rules of this table that match
// m are added.
func (t *Table) names(ctx context.Context, route string, m Mail) []string {
	names := strings.Split(route, separator)
	if !slices.Contains(names, ellipsis) {
		return names
	}
	for _, name := range t.Decide(ctx, m).Matched {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// joined joins names within the limit of the database column, in octets.
func joined(names []string) string {
	const limit = 255
	all := strings.Join(names, separator)
	if len(all) <= limit {
		return all
	}
	all = all[:limit-len(ellipsis)]
	return all[:strings.LastIndex(all, separator)+1] + ellipsis
}
