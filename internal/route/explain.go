package route

import (
	"fmt"
	"strings"
)

// Outcome is what became of one rule.
type Outcome string

// The outcomes of a rule.
const (
	Matched    Outcome = "matched"
	Failed     Outcome = "no match"
	NotReached Outcome = "not reached" // an earlier rule has decided
)

// Step is one rule of an explanation. Key, Want and Got tell of the first key that did not hold.
type Step struct {
	Route   string
	Outcome Outcome
	Key     string   // such as "subject" or "header.X-Spam"
	Want    []string // the patterns, as written
	Got     []string // what was compared with them; empty when the message has no such thing
}

// String is one line for a person.
func (s Step) String() string {
	if s.Outcome != Failed {
		return fmt.Sprintf("%s: %s", s.Route, s.Outcome)
	}
	got := "nothing"
	if len(s.Got) > 0 {
		got = quoteAll(s.Got, ", ")
	}
	return fmt.Sprintf("%s: %s: %s is %s, wanted %s", s.Route, s.Outcome, s.Key, got, quoteAll(s.Want, " or "))
}

func quoteAll(list []string, sep string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, sep)
}

// Explain tells what became of each rule, in order.
func (t *Table) Explain(m Mail) []Step {
	steps := t.evaluate(m)
	for _, r := range t.rules[len(steps):] {
		steps = append(steps, Step{Route: r.Name, Outcome: NotReached})
	}
	return steps
}

// evaluate tries the rules up to and including the one that decides.
func (t *Table) evaluate(m Mail) []Step {
	v := newView(m)
	var steps []Step
	for _, r := range t.rules {
		s := r.try(v)
		steps = append(steps, s)
		if s.Outcome == Matched && !r.Continue {
			break
		}
	}
	return steps
}

func (r compiled) try(v *view) Step {
	for _, c := range r.conditions {
		if ok, got := c.holds(v); !ok {
			s := Step{Route: r.Name, Outcome: Failed, Key: c.key, Want: c.want}
			for _, t := range got {
				s.Got = append(s.Got, t.shown)
			}
			return s
		}
	}
	return Step{Route: r.Name, Outcome: Matched}
}
