package route

import (
	"fmt"
	"slices"
	"strings"
)

// label compares the labels of the inbox, each as name=value.
func (c *compiler) label(m Match, s scope) []condition {
	return ofInbox(c.patterns(s, "label", m.Label, labelPattern, func(v *view) []text {
		var texts []text
		for _, label := range v.mail.Labels {
			texts = append(texts, newText(label))
		}
		return texts
	}))
}

// labelPattern is a glob for name=value. A name alone stands for any value.
func labelPattern(s string) (*pattern, error) {
	if isRegexp(s) {
		return regexpPattern(s)
	}
	name, value, valued := strings.Cut(s, "=")
	switch {
	case name == "" || valued && value == "" || strings.ContainsAny(s, " \t"):
		return nil, fmt.Errorf("%q is not a label; write it like tenant=acme, or tenant for any value", s)
	case !valued:
		return glob(s, fold(s)+"=*")
	}
	return glob(s, fold(s))
}

// labels are the values by the names, for expressions.
func labels(texts []string) map[string]string {
	out := map[string]string{}
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		out[name] = value
	}
	return out
}

// UsesLabels reports whether a rule may look at the labels of inboxes.
func (t *Table) UsesLabels() bool {
	return slices.ContainsFunc(t.rules, func(r compiled) bool { return r.Match.usesLabels() })
}

func (m Match) usesLabels() bool {
	return m.Label != nil || strings.Contains(m.When, "labels") ||
		slices.ContainsFunc(m.Any, Match.usesLabels) || m.Not != nil && m.Not.usesLabels()
}
