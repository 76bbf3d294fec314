package route

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Outcome is the result of one rule.
type Outcome string

// The outcomes of a rule.
const (
	Matched    Outcome = "matched"
	Failed     Outcome = "no match"
	NotUsed    Outcome = "not used"    // it matches, but a capture or a contact has no address
	NotReached Outcome = "not reached" // an earlier rule has decided
)

// Step is one rule of an explanation.
type Step struct {
	Route      string            `json:"route"`
	Outcome    Outcome           `json:"outcome"`
	Conditions []Check           `json:"conditions"` // in order; empty for a catch-all
	Captured   map[string]string `json:"captured,omitempty"`
	Contacts   []Mention         `json:"contacts,omitempty"` // of to_contacts
	LeftOut    string            `json:"left_out,omitempty"` // the inbox's own address, if this rule has it
	Problem    string            `json:"problem,omitempty"`  // with captures or contacts
}

// Check is one condition of an explanation.
type Check struct {
	Key  string   `json:"key"`              // below match, such as "subject", "header.X-Spam" or "any[1].from"
	Is   Truth    `json:"is"`               //
	Want []string `json:"want,omitempty"`   // the patterns, as written; empty for a group
	Got  []string `json:"got,omitempty"`    // the beginning of each text that was compared
	On   string   `json:"on,omitempty"`     // the text that matched
	By   string   `json:"by,omitempty"`     // the pattern that matched it
	Why  string   `json:"reason,omitempty"` // why it is undecided
	Of   []Check  `json:"of,omitempty"`     // a group's conditions
}

// String is one line for a person.
func (s Step) String() string {
	line := fmt.Sprintf("%s: %s", s.Route, s.Outcome)
	if s.Problem != "" {
		line += ": " + s.Problem
	}
	for _, c := range s.Conditions {
		if s.Outcome == Failed && c.Is != Held {
			return line + ": " + c.String()
		}
	}
	return line
}

// String is one line for a person.
func (c Check) String() string {
	switch {
	case c.Is == Undecided:
		return fmt.Sprintf("%s is undecided: %s", c.Key, c.Why)
	case c.On != "":
		return fmt.Sprintf("%s contains %s, matched by %s", c.Key, quote(c.On), quote(c.By))
	case len(c.Of) > 0:
		return fmt.Sprintf("%s: %s", c.Key, c.Is)
	}
	want := quoteAll(c.Want, " or ")
	if len(c.Got) == 0 {
		return fmt.Sprintf("%s is missing; wanted %s", c.Key, want)
	}
	return fmt.Sprintf("%s is %s, wanted %s", c.Key, quoteAll(c.Got, ", "), want)
}

func quoteAll(list []string, sep string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quote(s)
	}
	return strings.Join(out, sep)
}

// quote does not escape backslashes, so that patterns look as they are written.
func quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return `"` + s + `"`
}

// Explain returns the result of each rule, in order, and of each condition of the rules that were
// reached.
func (t *Table) Explain(ctx context.Context, m Mail) []Step {
	var steps []Step
	results, _ := t.evaluate(ctx, m, true)
	for _, r := range results {
		steps = append(steps, Step{
			Route: r.Name, Outcome: r.outcome, Conditions: checks(r.found), Captured: r.captured,
			Contacts: r.contacts, LeftOut: r.leftOut, Problem: r.problem,
		})
	}
	for _, r := range t.rules[len(steps):] {
		steps = append(steps, Step{Route: r.Name, Outcome: NotReached, Conditions: []Check{}})
	}
	return steps
}

// Returns names rules that may match a message of the inbox, which has these labels, and have its
// own address as a recipient: those that forward to it, and those that leave it out and have no
// other recipient, or have others.
func (t *Table) Returns(inbox string, labels ...string) (forwards, nobody, others []string) {
	m := Mail{Inbox: inbox, Labels: labels}
	for _, r := range t.mayMatch(m) {
		hasOthers := r.ToContacts != nil || slices.ContainsFunc(r.To, func(to string) bool { return !m.isOwn(to) })
		switch {
		case !slices.ContainsFunc(r.To, m.isOwn):
		case r.OwnAddress == ForwardOwnAddress:
			forwards = append(forwards, r.Name)
		case !hasOthers:
			nobody = append(nobody, r.Name)
		default:
			others = append(others, r.Name)
		}
	}
	return forwards, nobody, others
}

// mayMatch are the rules that may match a message of the inbox of m, which stands for any of them.
func (t *Table) mayMatch(m Mail) (rules []compiled) {
	results, _ := t.evaluate(context.Background(), m, true) // without a message there is nothing to wait for
	for _, r := range results {
		if !slices.ContainsFunc(r.found, func(f finding) bool { return f.truth == NotHeld }) {
			rules = append(rules, *r.compiled)
		}
	}
	return rules
}

// Unreached names the rules that are never tried, and the rule before them that takes every
// message.
func (t *Table) Unreached() (names []string, taker string) {
	for i, r := range t.rules {
		if len(r.conditions) > 0 || r.Continue || r.ToContacts != nil {
			continue // it may not be used
		}
		for _, behind := range t.rules[i+1:] {
			names = append(names, behind.Name)
		}
		return names, r.Name
	}
	return nil, ""
}

func checks(found []finding) []Check {
	out := make([]Check, len(found))
	for i, f := range found {
		out[i] = f.check()
	}
	return out
}

func (f finding) check() Check {
	c := Check{Key: f.key, Is: f.truth, Want: f.want, Why: f.why}
	for _, t := range f.got[:min(len(f.got), 20)] {
		c.Got = append(c.Got, excerpt(t.shown))
	}
	if f.by != nil {
		c.On, c.By = f.by.place(f.on), f.by.written
	}
	if f.group != nil {
		c.Of = checks(f.group)
	}
	if c.Is == Undecided && c.Why == "" {
		c.Why = "one of its conditions is"
	}
	return c
}

// place is the part of a text that a pattern matched, with some text around it.
func (p *pattern) place(t text) string {
	if len(t.shown) <= maxExcerpt || p.part == "" && p.re == nil {
		return excerpt(t.shown)
	}
	in, at := t.folded, []int{strings.Index(t.folded, p.part)}
	if p.re != nil {
		in = t.shown
		if at = p.re.FindStringIndex(in); at == nil {
			in = t.wide
			at = p.re.FindStringIndex(in)
		}
	}
	if len(at) == 0 || at[0] <= maxExcerpt/2 {
		return excerpt(in)
	}
	return "…" + excerpt(strings.ToValidUTF8(in[at[0]-maxExcerpt/4:], ""))
}

// maxExcerpt is how much of a text is shown, in octets.
const maxExcerpt = 80

// excerpt is the beginning of a text, in one line.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return strings.TrimSpace(squeeze(s))
	}
	return strings.TrimSpace(squeeze(strings.ToValidUTF8(norm.NFC.String(s[:maxExcerpt]), ""))) + "…"
}
